"""A game of a user's own, `FILE.py:CLASS`: its name in flags, its import, files to trust, and playing it."""

import functools
import importlib.util
import math
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import shorten
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from simple_dqn.config import CLASS_FILE, EnvironmentConfig
from simple_dqn.environment.interface import (
    Environment,
    Frame,
    Game,
    Outcome,
    Screen,
    SimpleGame,
    Watcher,
    game_points,
    is_true,
)
from simple_dqn.errors import UserError, call_foreign, one_line
from simple_dqn.files import home, kind_of, open_file, project, real
from simple_dqn.types import Actions, Step

OwnClass: TypeAlias = type[SimpleGame] | type[Environment]

MOST_BYTES = 1 << 20  # of a file with a game
MOST_PIXELS = 4096  # of a side of its screen
# Folders of the project whose files may come from strangers.
FROM_ELSEWHERE = ("roms", "snapshots", "results", "videos")


class OwnGame(Game):
    """A `SimpleGame`, played as any other game: one `act` is a step, and is shown for `frame_skip` frames."""

    def __init__(
        self,
        game: SimpleGame,
        config: EnvironmentConfig,
        stream: np.random.Generator,
        watcher: Watcher | None,
    ) -> None:
        """Play `game`, whose randomness is to come from `stream`."""
        from simple_dqn.environment.frames import scale  # OpenCV, without which flags can be read

        self.name = name_of(type(game))
        self._game, self._watcher, self._scale = game, watcher, scale
        self._kind = type(game).__name__
        self._frames = 0  # since the game's start
        self._frame_skip = config.frame_skip
        names = self._call("action_names", getattr, game, "action_names")
        if not isinstance(names, tuple | list) or not names or not all(isinstance(one, str) for one in names):
            given = shorten(repr(names), 60)
            raise UserError(f'{self._kind}.action_names is {given}: make it names such as ("NOOP", "FIRE")')
        self.action_names = tuple(names)
        shape = self._call("screen_shape", getattr, game, "screen_shape")
        sides = list(shape) if isinstance(shape, tuple | list) else []
        if len(sides) != 2 or not all(
            isinstance(n, int | np.integer) and 0 < n <= MOST_PIXELS for n in sides
        ):
            given = shorten(repr(shape), 60)
            raise UserError(
                f"{self._kind}.screen_shape is {given}: make it height, width, from 1 to {MOST_PIXELS} pixels"
            )
        self.random = stream
        self._call("random", setattr, game, "random", stream)
        self._canvas = np.zeros(sides, np.uint8)
        self._frame_limit = config.max_game_frames or math.inf

    def _call(self, method: str, work: Callable[..., Any], *arguments: Any) -> Any:
        return call_foreign(self._where(method), work, *arguments)

    def _where(self, method: str) -> str:
        return f"{self._kind}.{method}, step {self._frames // self._frame_skip} of a game"

    def start(self, screen: Screen) -> None:
        """Start a new game; `random_starts` does not apply, since the game chooses its own start.

        Raises:
            UserError: The game fails.
        """
        self._frames = 0
        self._call("start", self._game.start)
        self._draw(screen)

    def act(self, action: int, screen: Screen) -> Outcome:
        """Take `action`.

        Raises:
            UserError: The game fails, or did not return a reward, a finite number, and whether it is over.
        """
        self._frames += self._frame_skip
        answer = self._call("act", self._game.act, action)
        where = self._where("act")
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise UserError(f"{where}: it returned {shorten(repr(answer), 60)}: make it return reward, over")
        reward, over = game_points(answer[0], where), is_true(answer[1], "over", where)
        self._draw(screen, reward)
        cut_off = not over and self._frames >= self._frame_limit
        return Outcome(reward, over, truncation=cut_off, reset=over or cut_off)

    def _draw(self, screen: Screen, reward: float = 0.0) -> None:
        self._canvas[...] = 0
        self._call("draw", self._game.draw, self._canvas)
        self._scale(self._canvas, screen)
        if self._watcher:
            for number in range(self._frame_skip):
                self._watcher(Frame.silent(self._canvas, reward if number == 0 else 0.0))


def open_game(
    config: EnvironmentConfig,
    stream: np.random.Generator,
    _training: bool,
    watcher: Watcher | None,
) -> OwnGame:
    """Return a game of the class that `config.environment` names; in a process of its own this imports it."""
    own = load(config.environment)
    assert issubclass(own, SimpleGame)
    return OwnGame(call_foreign(f"{own.__name__}()", own), config, stream, watcher)


def make_whole(
    config: EnvironmentConfig,
    streams: Sequence[np.random.Generator],
    training: bool,
    watcher: Watcher | None,
) -> Environment | None:
    """Return the environment that `config.environment` names; None: it names a single game.

    It is made as `CLASS(config, streams, training, watcher)`; see `make`.

    Raises:
        UserError: There is no such class, or processes are to share out its games.
    """
    own = load(config.environment)
    if issubclass(own, SimpleGame):
        return None
    if config.processes:
        raise UserError(
            f"--processes {config.processes} distributes games, but {own.__name__} plays all of them itself: "
            "leave it out, or make it a SimpleGame"
        )
    environment: Environment = call_foreign(f"{own.__name__}()", own, config, streams, training, watcher)
    play = environment.step

    def step(actions: Actions) -> Step:
        played: Step = call_foreign(f"{own.__name__}.step", play, actions)
        if not (finite := np.isfinite(played.rewards)).all():
            raise UserError(f"{own.__name__} paid a reward of {played.rewards[~finite][0]}: make it finite")
        return played

    environment.step = step  # type: ignore[method-assign]
    return environment


def is_own(environment: str) -> bool:
    """Return whether `environment` is `FILE.py` or `FILE.py:CLASS`."""
    return CLASS_FILE.fullmatch(environment) is not None


def split(environment: str) -> tuple[str, str]:
    """Return the file of `FILE.py` or `FILE.py:CLASS`, and the class, empty if it is not named."""
    parts = CLASS_FILE.fullmatch(environment)
    assert parts
    return parts[1], parts[2] or ""


def game_name(environment: str) -> str:
    """Return the name of the game of `FILE.py:CLASS`; see `load`."""
    return name_of(load(environment))


def name_of(own: OwnClass) -> str:
    """Return the name of the game of a class, fit for file names: `FlappyBird` is `flappy_bird`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", own.__name__).lower()


def canonical_flags(given: dict[str, Any]) -> dict[str, Any]:
    """Return `given`, in which a class of the user's own stands as `--environment` in its canonical form.

    That is `FILE.py:CLASS`, with a path from the project, or an absolute one elsewhere.

    Args:
        given: Flags by name; `FILE.py` or `FILE.py:CLASS` may stand for the game or for `--environment`.

    Raises:
        UserError: Both are given, or there is no such class.
    """
    game, environment = given.get("game", ""), given.get("environment")
    if is_own(game):
        if environment is not None:
            raise UserError(f"{game} and --environment {environment} both name a game: leave out one")
        environment = game
    if environment is None or not is_own(environment):
        return given
    file, _ = split(environment)
    path, folder = real(Path(file)), real(home())
    kept = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
    own = load(kept + environment.removeprefix(file))
    return {**given, "environment": f"{kept}:{own.__name__}", "game": name_of(own)}


def check_trusted(recorded: dict[str, Any], given: dict[str, Any]) -> None:
    """Refuse to import a file on the word of a snapshot alone, unless it is one of the project's own.

    A snapshot may come from a stranger, who must not choose freely which code is run.

    Args:
        recorded: The flags in the snapshot.
        given: The flags given by hand; they may name the file.

    Raises:
        UserError: The file is not one of the project's, and the user did not name it.
    """
    environment = recorded.get("environment", "ale")
    if not is_own(environment) or "environment" in given:
        return
    file, name = split(environment)
    folder = project()
    path = real((folder or Path()) / file)
    if folder and path.is_relative_to(real(folder)) and kind_of(path) == "file":
        parts = path.relative_to(real(folder)).parts
        if parts[0] not in FROM_ELSEWHERE and not any(part.startswith(".") for part in parts):
            return
    raise UserError(
        f"it was trained on {Path(file).name}:{name}, which is not one of this project's files: give "
        f"its path, --environment FOLDER/{Path(file).name}:{name}"
    )


def load(environment: str) -> OwnClass:
    """Return the class that `FILE.py:CLASS` names, or the only game class in `FILE.py`.

    Args:
        environment: Its path is absolute, or relative to the project's folder.

    Raises:
        UserError: There is no such file or class, it cannot be imported, or it is no game.
    """
    file, name = split(environment)
    module = _import(real(home() / file))
    games: dict[str, OwnClass] = {
        key: kind
        for key, kind in vars(module).items()
        if isinstance(kind, type) and kind.__module__ == module.__name__
        if issubclass(kind, SimpleGame | Environment)
    }
    name = name or (next(iter(games)) if len(games) == 1 else "")
    if name in games:
        own = games[name]
        missing = sorted(own.__abstractmethods__)
        if not missing and issubclass(own, SimpleGame) and not getattr(own, "action_names", ()):
            missing = ["action_names"]
        if missing:
            raise UserError(f"{name} in {file} lacks {', '.join(missing)}: see docs/modify.md")
        return own
    if name in vars(module):
        raise UserError(
            f"{name} in {file} is not a game: derive it from SimpleGame or Environment (docs/modify.md)"
        )
    has = ", ".join(games) or "no game: derive a class from SimpleGame (docs/modify.md)"
    if name:
        raise UserError(f"there is no class {name} in {file}, which has {has}")
    hint = f": name one, such as {file}:{next(iter(games))}" if games else ""
    raise UserError(f"{file} has {has}{hint}")


@functools.cache  # the games for training and those for tests are of one class
def _import(path: Path) -> ModuleType:
    """Return the module in the file at `path`."""
    open_file(path, MOST_BYTES, "give the path of the game's file").close()
    name = f"simple_dqn_own_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where a dataclass looks for its module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # for what it imports from beside it; at the end, to hide nothing
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise UserError(f"{error.filename}, line {error.lineno}: {error.msg}: fix it") from None
    except (Exception, SystemExit) as error:
        calls = traceback.extract_tb(error.__traceback__)
        lines = [call.lineno for call in calls if call.filename == str(path)]
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise UserError(f"{path}, line {lines[-1] if lines else 1}: {reason}: fix it") from None
    return module
