"""Your own code: `--import` runs a file or a module of yours in every process that needs it.

That code calls functions such as `simple_dqn.register_network` or `gymnasium.register`. Only the command line
imports anything: snapshots, checkpoints and settings files have the file's name as text, for messages.
"""

import importlib.util
import inspect
import os
import pickle
import sys
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from simple_dqn.config import REGISTERED
from simple_dqn.errors import UserError, call_foreign, cause
from simple_dqn.files import from_here, open_file, real

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

IMPORTED: dict[str, tuple[str, ...]] = {}  # file or module -> the environments that it registered
_changed: dict[str, int] = {}  # file -> its modification time when it was run, in ns


def import_code(names: Iterable[str | os.PathLike[str]] | str | os.PathLike[str]) -> None:
    """Run files, `FILE.py`, or modules, each once in a process; a file that was changed is run again.

    Raises:
        UserError: One cannot be read or imported; the line has the place in the file.
    """
    import gymnasium  # here, because most commands do not need it

    for one in names if isinstance(names, Iterable) and not isinstance(names, str) else [names]:
        name = os.fspath(one) if isinstance(one, os.PathLike) else one
        if not isinstance(name, str) or not name or name.startswith("-"):
            raise UserError(f"--import {name!r}: give a file, such as mine.py, or the name of a module")
        key = str(real(Path(name))) if name.endswith(".py") else name
        changed = Path(key).stat().st_mtime_ns if name.endswith(".py") and Path(key).exists() else 0
        if key in IMPORTED and _changed.get(key, changed) == changed:
            continue
        before = dict(gymnasium.registry)
        try:
            module = _run_file(Path(key)) if name.endswith(".py") else importlib.import_module(key).__name__
        except UserError:
            raise
        except (Exception, SystemExit) as error:
            absent = isinstance(error, ModuleNotFoundError) and f"{key}.".startswith(f"{error.name}.")
            why = "there is no such module: install it, or give the path of its file, FILE.py"
            raise UserError(f"--import {name}: {why if absent else cause(error)}") from error
        new = [id_ for id_, spec in gymnasium.registry.items() if before.get(id_) is not spec]
        own = [id_ for id_ in new if _module_of(gymnasium.registry[id_]) == module]
        # If it registers none itself, its imports may have; these are not run again.
        IMPORTED[key] = tuple(own or new) or IMPORTED.get(key, ())
        _changed[key] = changed


def _module_of(spec: "EnvSpec") -> str:
    entry = spec.entry_point
    return entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")


def _run_file(path: Path) -> str:
    """Run the file at `path` as a module, and return the module's name."""
    open_file(path, 1 << 20, "give the path of a Python file").close()
    # Files in two folders may have one name.
    name = f"simple_dqn_own_{path.stem}_{zlib.crc32(os.fsencode(path)):08x}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # where a dataclass looks for it
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # for what it imports from beside it; at the end, to hide nothing
    spec.loader.exec_module(module)
    return name


def take_imports(arguments: Sequence[str]) -> list[str]:
    """Import what each `--import` among `arguments` names, and return the other arguments."""
    names, others, words = list[str](), list[str](), iter(arguments)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag in ("--import", "-import"):
            names.append(value if equals else next(words, ""))
        else:
            others.append(word)
    import_code(names)
    return others


def game_of_file(file: str) -> str:
    """Run `FILE.py`, and return the id of the one environment that it registers, or raise UserError."""
    import_code([file])
    games = IMPORTED[str(real(Path(file)))]
    if len(games) != 1:
        found = f"registers {', '.join(games)}" if games else "registers no environment"
        remedy = f"give --import {file} and one of them" if games else "call gymnasium.register in it"
        raise UserError(f"{file} {found}: {remedy} (docs/modify.md)")
    return games[0]


def names() -> str | None:
    """Return the names of the imports without their folders, which snapshots record; None: there are none."""
    return ", ".join(Path(name).name for name in IMPORTED)[:200] or None


def flags() -> list[str]:
    """Return the flags that repeat the imports in a command."""
    return [word for name in IMPORTED for word in ("--import", str(from_here(Path(name))))]


def register(setting: str, name: str, entry: Any, table: dict[str, Any]) -> None:
    """Add `entry` to `table`, and a new `name` to the values of `setting`, or raise UserError."""
    valid = isinstance(name, str) and name.isidentifier() and len(name) <= 100
    if not valid or name in ("auto", "none"):
        remedy = "use up to 100 letters, digits and _, with a letter first, but not auto or none"
        raise UserError(f"{name!r} cannot name a {setting}: {remedy}")
    if name not in table:
        REGISTERED[setting].append(name)
    table[name] = entry


def check_call(function: object, arguments: str, contract: str) -> None:
    """Raise UserError unless `function`, no coroutine or generator, takes the named `arguments`."""
    late = inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function)
    if late or not callable(function):
        raise UserError(f"{function!r} cannot be called: {contract}")
    try:
        inspect.signature(function).bind(*arguments.split(", "))
    except (TypeError, ValueError) as error:  # ValueError: such as `int`, which has no signature
        name = getattr(function, "__qualname__", repr(function))
        raise UserError(f"{name} cannot be called with ({arguments}), {error}: {contract}") from None


class OwnCode(NamedTuple):
    """The code that another process must run before it can make an environment of the user's."""

    imports: tuple[str, ...]
    spec: bytes  # the environment's entry in the registry, pickled with classes of the user's own script

    @staticmethod
    def of(spec: "EnvSpec") -> "OwnCode":
        """Return the imports of this process, and `spec`."""
        import cloudpickle

        if _module_of(spec) == "__main__" and isinstance(spec.entry_point, str):  # of another process
            entry = vars(sys.modules["__main__"]).get(spec.entry_point.partition(":")[2])
            spec = replace(spec, entry_point=entry or spec.entry_point)
        pickled = call_foreign(f"sending {spec.id} to a process", cloudpickle.dumps, spec)
        return OwnCode(tuple(IMPORTED), pickled)

    def install(self) -> None:
        """Run the imports, and register the environment."""
        import_code(self.imports)
        import gymnasium

        spec: EnvSpec = call_foreign("an environment of your own", pickle.loads, self.spec)
        gymnasium.registry[spec.id] = spec  # it may have replaced that of an import, or Gymnasium's own
