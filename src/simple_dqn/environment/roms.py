"""From what a user calls a game to its ROM file, its name and its MD5."""

import difflib
import functools
import hashlib
import logging
import re
from pathlib import Path

import ale_py.roms
from ale_py import ALEInterface

from simple_dqn.errors import UserError
from simple_dqn.files import is_snapshot, kind_of, read_file

logger = logging.getLogger(__name__)

MOST_BYTES = 128 << 20  # of a ROM, or of a snapshot given by mistake
# ROMs that ale-py ships for several players only: ALEInterface ends the whole process on loading one.
MULTIPLAYER_ONLY = frozenset(("combat", "joust", "maze_craze", "warlords"))
# An id of Gymnasium's; of an Atari game's, the name without what tells the variants of one game apart.
GYMNASIUM_ID = re.compile(r"(?:\w+/)?([\w-]+?)(?:-ram)?(?:NoFrameskip|Deterministic)?-v\d+", re.ASCII)


def known_games() -> list[str]:
    """Return the names of the games that ale-py ships and one player can play, in order."""
    return sorted(set(ale_py.roms.get_all_rom_ids()) - MULTIPLAYER_ONLY)


@functools.cache  # the games for training and those for tests are of one ROM: the log names it once
def find_rom(game: str) -> Path:
    """Return the ROM file of `game`: a path that exists, else a game whose name is the path's stem.

    So `roms/pong.rom` and `pong` both find ale-py's own ROM where there is no such file.
    The log says which file was taken.

    Raises:
        UserError: There is neither such a file nor such a game, or the file is no ROM that ALE can play.
    """
    path = _locate(game)
    _name_of(path)
    logger.info("ROM file: %s", path)
    return path


def game_name(game: str) -> str:
    """Return the canonical name, such as `space_invaders`, of a game given by a path or a name.

    Raises:
        UserError: As `find_rom`.
    """
    return _name_of(_locate(game))


def md5(path: Path) -> str:
    """Return the MD5 of a file in hexadecimal, by which ALE and results identify a ROM.

    Raises:
        UserError: The file cannot be read.
    """
    return hashlib.md5(read_file(path, MOST_BYTES, "give a ROM file")).hexdigest()


def game_of(run: str) -> str | None:
    """Return the longest known game with which the name of a run begins; None: there is none.

    The name is `<game>[_label]`, and games and labels both have underscores.
    """
    games = [game for game in (*known_games(), "catch") if f"{run}_".startswith(f"{game}_")]
    return max(games, key=len, default=None)


def is_rom(game: str) -> bool:
    """Return whether there is something at the path `game`, or a game of ale-py's has that name."""
    return bool(kind_of(Path(game))) or _stem(Path(game)) in known_games()


def _stem(path: Path) -> str:
    return re.sub(r"[ -]", "_", path.stem.lower())


def _locate(game: str) -> Path:
    path = Path(game)
    kind = kind_of(path) if game else ""
    if kind == "file":
        return path
    if kind == "other":
        raise UserError(f"{path} is a device or a pipe: give a ROM file, or a game's name such as pong")
    name = _stem(path)
    if name in known_games():
        try:
            shipped = ale_py.roms.get_rom_path(name)
        except OSError as error:
            raise UserError(
                f"ale-py's own ROM of {name} cannot be used: {error}".replace("\n", " ")
            ) from None
        if shipped:
            return Path(shipped)
    if not game:
        raise UserError("no game was named: give a ROM file, or the name of a game such as pong")
    raise UserError(f"there is no file {game} and no game called {name!r}: {_hint(game, name)}")


def _hint(game: str, name: str) -> str:
    """Return the game that was meant by `game`, or by the `name` made from it; or what to give."""
    if gymnasium_id := GYMNASIUM_ID.fullmatch(game):
        # Gymnasium calls ms_pacman MsPacman.
        ids = {known.replace("_", ""): known for known in known_games()}
        near = difflib.get_close_matches(gymnasium_id[1].lower(), ids, n=1, cutoff=0.9)
        remedy = "give --import, with the file or the module that registers it with Gymnasium"
        return f"did you mean {ids[near[0]]}?" if near else remedy
    near = difflib.get_close_matches(name, known_games(), n=3)
    return f"did you mean {' or '.join(near)}?" if near else "give a ROM file, or a game's name such as pong"


def _name_of(path: Path) -> str:
    digest = md5(path)
    name = ALEInterface.isSupportedROM(str(path))
    if name is None and is_snapshot(path):
        raise UserError(f"{path} is a snapshot, not a game: ./resume.sh {path} trains it further")
    if name is None:
        raise UserError(
            f"{path} (MD5 {digest}) is not a ROM that ALE can play: "
            "rename it if it has the name of another game, or give one of ale-py's games, such as pong"
        )
    return str(name)
