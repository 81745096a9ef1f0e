"""Settings as a YAML file: beside the CSV of each run, printed by `--print_config`, read by `--config`."""

import argparse
import platform
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from simple_dqn import __version__
from simple_dqn.config import Config, as_word
from simple_dqn.config import read as read_settings
from simple_dqn.errors import UserError
from simple_dqn.files import kind_of, read_text
from simple_dqn.machine import usable_cores
from simple_dqn.presets import PRESETS

PACKAGES = ("torch", "numpy", "ale-py")
MOST_BYTES = 64 << 10  # of a file, which has about 4,000
DECIMAL = re.compile("[-+]?(0|[1-9][0-9_]*)")  # YAML reads 010 as 8, and 1:30 as 90
# Words that need no quotation marks in YAML.
PLAIN = re.compile(r"(?!null$|-$|[-+]?0\w)[\w./+-]+", re.IGNORECASE)
KEYS = ("simple_dqn", "preset", "versions", "machine", "settings")
STARTS = tuple(f"{key}:".encode() for key in KEYS)
OF_ONE_RUN = ("csv_file", "save_weights_prefix")  # the next run has files of its own


def listing(settings: Config, preset: str) -> str:
    """Return the file for `settings`, in which those that differ from the preset are marked."""
    versions = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    lines = [
        f"simple_dqn: {__version__}",
        f"preset: {preset}",
        f"versions: {{{', '.join(f'{name}: {number}' for name, number in versions.items())}}}",
        f"machine: {{system: {platform.system()}, processor: {platform.machine()}, cores: {usable_cores()}}}",
        "settings:",
    ]
    plain = Config.from_flags(PRESETS.get(preset, {})).flags()
    for name, value in settings.flags().items():
        mark = "" if name == "game" or plain[name] == value else f"  # {preset}: {as_word(plain[name])}"
        word = as_word(value)
        lines.append(f"  {name}: {word if PLAIN.fullmatch(word) else _quoted(word)}{mark}")
    return "\n".join(lines)


def preset_in(path: Path) -> str:
    """Return the preset that the settings file of a run names; without one `simple_dqn`, the defaults.

    Raises:
        UserError: The file cannot be read.
    """
    text = read_text(path, MOST_BYTES, "move it away") if kind_of(path) else ""
    named = re.search(r"^preset: (\w+)$", text, re.MULTILINE)
    return named[1] if named and named[1] in PRESETS else "simple_dqn"


def _quoted(word: str) -> str:
    quoted: str = yaml.dump(word, default_style='"', width=sys.maxsize)
    return quoted.rstrip("\n")


def read(file: str) -> dict[str, Any]:
    """Return the settings in `file`, by name, and the name of the preset that it changes, as `preset`.

    Raises:
        UserError: It cannot be read, or a line is not a setting.
    """
    parts = _entries(file, _root(file))
    settings = parts.get("settings")
    if not isinstance(settings, yaml.MappingNode):
        raise UserError(f"{file}, line 1: there is no key `settings`: give a file that --print_config wrote")
    values: dict[str, Any] = {}
    if "preset" in parts:
        values["preset"] = _word(file, "preset", parts["preset"])
        if values["preset"] not in PRESETS:
            raise _wrong(file, parts["preset"], f"there is no preset {values['preset']}")
    for name, node in _entries(file, settings).items():
        word = _word(file, name, node)
        try:
            values |= read_settings({name: word})
        except UserError as error:
            raise _wrong(file, node, str(error)) from None
    for name, node in parts.items():
        if name not in KEYS:
            raise _wrong(file, node, f"unknown key {name} beside {', '.join(KEYS)}")
    return {name: value for name, value in values.items() if name not in OF_ONE_RUN}


def _root(file: str) -> yaml.Node | None:
    """Return the content of a YAML file as nodes, from which nothing is constructed."""
    text = read_text(Path(file), MOST_BYTES, "give a file that --print_config wrote")
    try:
        return yaml.compose(text, yaml.SafeLoader)
    except RecursionError:
        raise UserError(f"{file}: its brackets are nested too deeply: fix it") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UserError(f"{file}, line {mark.line + 1 if mark else 1}: {problem}: fix it") from None


def _entries(file: str, table: yaml.Node | None) -> dict[str, yaml.Node]:
    """Return the values in a table by their keys, each of which is a word; nothing if it is no table."""
    entries: dict[str, yaml.Node] = {}
    for key, value in table.value if isinstance(table, yaml.MappingNode) else ():
        name = _word(file, "its key", key)
        if name in entries:
            raise _wrong(file, key, f"{name} is there twice")
        entries[name] = value
    return entries


def _word(file: str, name: str, node: yaml.Node) -> str:
    """Return the value of a line as on the command line: no list, table or tag, nor YAML's other numbers."""
    if not isinstance(node, yaml.ScalarNode):
        raise _wrong(file, node, f"{name} has no single value")
    plain, kind = node.style is None, node.tag.removeprefix("tag:yaml.org,2002:")
    if kind not in ("str", "int", "float", "bool", "null", "timestamp"):
        raise _wrong(file, node, f"{name} has the tag {node.tag}")
    if plain and kind == "int" and not DECIMAL.fullmatch(node.value):
        raise _wrong(file, node, f"{name}: {node.value} is not a decimal number")
    # A character beyond the first 65,536 may be two halves, as JSON writes it.
    word: str = node.value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return "none" if plain and kind == "null" else word


def _wrong(file: str, node: yaml.Node, problem: str) -> UserError:
    return UserError(f"{file}, line {node.start_mark.line + 1}: {problem}: fix it")


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--config`."""
    text = "settings of an earlier run, results/NAME.yaml, over the preset's; other flags win"
    parser.add_argument("--config", type=read, metavar="FILE", help=text)
