"""A game class in a user's own file, `FILE.py:CLASS`: its name in flags, its import, and files to trust."""

import functools
import importlib.util
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from simple_dqn.config import CLASS_FILE
from simple_dqn.environment.interface import Environment, SimpleGame
from simple_dqn.errors import UserError
from simple_dqn.files import home, project

OwnClass: TypeAlias = type[SimpleGame] | type[Environment]

# Folders of the project whose files may come from strangers.
FROM_ELSEWHERE = ("roms", "snapshots", "results", "videos")


def is_own(environment: str) -> bool:
    """Return whether `environment` is `FILE.py` or `FILE.py:CLASS`."""
    return CLASS_FILE.fullmatch(environment) is not None


def split(environment: str) -> tuple[str, str]:
    """Return the file of `FILE.py` or `FILE.py:CLASS`, and the class, empty if it is not named."""
    parts = CLASS_FILE.fullmatch(environment)
    assert parts
    return parts[1], parts[2] or ""


def name_of(own: OwnClass) -> str:
    """Return the name of the game of a class, fit for file names: `FlappyBird` is `flappy_bird`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", own.__name__).lower()


def canonical_flags(given: dict[str, Any]) -> dict[str, Any]:
    """Return `given`, in which a class of the user's own stands as `--environment` in its canonical form.

    Args:
        given: Flags by name; `FILE.py` or `FILE.py:CLASS` may stand for the game or for `--environment`.

    Raises:
        UserError: Both are given, or there is no such class.
    """
    game, environment = given.get("game", ""), given.get("environment")
    if is_own(game):
        if environment is not None:
            raise UserError(f"{game} and --environment {environment} both say what is played: leave out one")
        environment = game
    if environment is None or not is_own(environment):
        return given
    environment = _canonical(environment)
    return {**given, "environment": environment, "game": name_of(load(environment))}


def _canonical(environment: str) -> str:
    """Return `environment` as `FILE.py:CLASS`, with a path from the project, or an absolute one elsewhere."""
    file, name = split(environment)
    path, folder = Path(file).resolve(), home().resolve()
    kept = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
    return f"{kept}:{name or load(kept).__name__}"


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
    parts = _parts_in_project(file)
    if not parts or parts[0] in FROM_ELSEWHERE or any(part.startswith(".") for part in parts):
        raise UserError(
            f"it was trained on {Path(file).name}:{name}, which is not one of this project's files: say "
            f"where it is, --environment FOLDER/{Path(file).name}:{name}"
        )


def _parts_in_project(file: str) -> tuple[str, ...]:
    """Return the parts of the path of `file` from the project; none, if it is not there."""
    ours = project()
    if ours is None:
        return ()
    folder, path = ours.resolve(), (ours / file).resolve()
    return path.relative_to(folder).parts if path.is_relative_to(folder) and path.is_file() else ()


def load(environment: str) -> OwnClass:
    """Return the class that `FILE.py:CLASS` names, or the only game class in `FILE.py`.

    Args:
        environment: Its path is absolute, or relative to the project's folder.

    Raises:
        UserError: There is no such file or class, it cannot be imported, or it is no game.
    """
    file, name = split(environment)
    module = _import((home() / file).resolve())
    found = {key: kind for key, kind in vars(module).items() if _is_game(kind, module)}
    names = ", ".join(found) or "no game: derive a class from SimpleGame (docs/modify.md)"
    if not name:
        if len(found) != 1:
            hint = f": name one, such as {file}:{next(iter(found))}" if found else ""
            raise UserError(f"{file} has {names}{hint}")
        return _require_whole(file, *found.values())
    if name in found:
        return _require_whole(file, found[name])
    if name in vars(module):
        raise UserError(
            f"{name} in {file} is no game: derive it from SimpleGame or Environment (docs/modify.md)"
        )
    raise UserError(f"there is no class {name} in {file}, which has {names}")


def _is_game(kind: object, module: ModuleType) -> bool:
    """Return whether `kind` is a class of a game that was written in `module`."""
    if not isinstance(kind, type) or kind.__module__ != module.__name__:
        return False
    return issubclass(kind, SimpleGame | Environment)


def _require_whole(file: str, own: OwnClass) -> OwnClass:
    missing = sorted(own.__abstractmethods__)
    if not missing and issubclass(own, SimpleGame) and not getattr(own, "action_names", ()):
        missing = ["action_names"]
    if missing:
        raise UserError(f"{own.__name__} in {file} lacks {', '.join(missing)}: see docs/modify.md")
    return own


@functools.cache  # the games for training and those for tests are of one class
def _import(path: Path) -> ModuleType:
    """Return the module in the file at `path`.

    Raises:
        UserError: There is no such file, or it cannot be imported: its error, in one line.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}: give the path of the file that holds the game")
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
        raise UserError(f"{error.filename}, line {error.lineno}: {error.msg}: mend it") from None
    except Exception as error:
        calls = traceback.extract_tb(error.__traceback__)
        lines = [call.lineno for call in calls if call.filename == str(path)]
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"{path}, line {lines[-1] if lines else 1}: {reason}: mend it") from None
    return module
