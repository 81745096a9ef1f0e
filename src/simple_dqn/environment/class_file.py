"""A class in a user's own file, `FILE.py:CLASS`: how it is named, and imported from its path."""

import functools
import importlib.util
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from simple_dqn.config import CLASS_FILE
from simple_dqn.environment.interface import Environment
from simple_dqn.environment.simple_game import SimpleGame
from simple_dqn.errors import UserError
from simple_dqn.files import home

OwnClass: TypeAlias = type[SimpleGame] | type[Environment]


def split(environment: str) -> tuple[str, str]:
    """Return the file of `FILE.py` or `FILE.py:CLASS`, and the class, empty if it is not named."""
    parts = CLASS_FILE.fullmatch(environment)
    assert parts
    return parts[1], parts[2] or ""


def canonical(environment: str) -> str:
    """Return `FILE.py` or `FILE.py:CLASS` as it is kept: with the class, and the file seen from the project.

    A file that does not lie in the project's folder has its whole path.

    Raises:
        UserError: There is no such class.
    """
    file, name = split(environment)
    path, project = Path(file).resolve(), home().resolve()
    kept = path.relative_to(project).as_posix() if path.is_relative_to(project) else str(path)
    return f"{kept}:{name or load(kept).__name__}"


def load(environment: str) -> OwnClass:
    """Return the class that `FILE.py:CLASS` names, or the only one in `FILE.py`.

    Args:
        environment: The file's path is absolute, or seen from the project's folder.

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


def name_of(own: OwnClass) -> str:
    """Return what the game of a class is called, fit for file names: `FlappyBird` is `flappy_bird`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", own.__name__).lower()


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
    """Return the module in the file at `path`; what goes wrong in it is told in a line.

    Raises:
        UserError: There is no such file, or it cannot be imported.
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
