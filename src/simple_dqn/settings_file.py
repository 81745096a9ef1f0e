"""Settings as a YAML file: beside the CSV of each run, printed by `--print_config`, read by `--config`."""

import argparse
import json
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from simple_dqn import __version__, flags
from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.machine import usable_cores
from simple_dqn.presets import PRESETS

PACKAGES = ("torch", "numpy", "ale-py")
PLAIN = re.compile(r"[\w./+-]+")  # words that YAML takes without quotation marks
OF_ONE_RUN = ("csv_file", "save_weights_prefix")  # the next run has files of its own
GONE = ("demonstrations", "replay_file")  # settings of earlier versions, which had no other effect on a run


def listing(config: Config, preset: str) -> str:
    """Return the file for `config`, in which settings that differ from those of the preset are marked."""
    versions = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    lines = [
        f"simple_dqn: {__version__}",
        f"preset: {preset}",
        f"versions: {{{', '.join(f'{name}: {number}' for name, number in versions.items())}}}",
        f"machine: {{system: {platform.system()}, processor: {platform.machine()}, cores: {usable_cores()}}}",
        "settings:",
    ]
    plain = Config.from_flags(PRESETS.get(preset, {})).flags()
    for name, value in config.flags().items():
        mark = "" if name == "game" or plain[name] == value else f"  # {preset}: {flags.as_word(plain[name])}"
        lines.append(f"  {name}: {_scalar(flags.as_word(value))}{mark}")
    return "\n".join(lines)


def preset_in(path: Path) -> str:
    """Return the preset that the settings file of a run names; without one `simple_dqn`, the defaults."""
    named = re.search(r"^preset: (\w+)$", path.read_text("utf-8"), re.MULTILINE) if path.is_file() else None
    return named[1] if named and named[1] in PRESETS else "simple_dqn"


def _scalar(word: str) -> str:
    return word if PLAIN.fullmatch(word) else json.dumps(word)


def read(file: str) -> dict[str, Any]:
    """Return the settings in `file`, by name, and the name of the preset that they began with, as `preset`.

    Raises:
        UserError: It cannot be read, or a line is not a setting.
    """
    try:
        root = yaml.compose(Path(file).read_text(encoding="utf-8"), yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UserError(f"cannot read {file}: {reason}: give a file that --print_config wrote") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise UserError(
            f"{file}, line {mark.line + 1 if mark else 1}: {getattr(error, 'problem', None)}: fix it"
        ) from None
    parts = {str(key.value): (key, value) for key, value in root.value} if _is_table(root) else {}
    settings = parts.get("settings", (None, None))[1]
    if not _is_table(settings):
        raise UserError(f"{file}, line 1: there is no key `settings`: give a file that --print_config wrote")
    values: dict[str, Any] = {"preset": _word(file, *parts["preset"])} if "preset" in parts else {}
    parser = flags.parser("settings", "")
    for key, value in settings.value:
        word = _word(file, key, value)
        if key.value == "game":
            values["game"] = word
        if key.value in ("game", *GONE):
            continue
        try:
            values |= parser.parse([f"--{key.value}={word}"])
        except UserError as error:
            reason = str(error).removesuffix(" (see settings --help)")
            raise UserError(f"{file}, line {key.start_mark.line + 1}: {key.value}: {reason}") from None
    return {name: value for name, value in values.items() if name not in OF_ONE_RUN}


def _is_table(node: yaml.Node | None) -> bool:
    return isinstance(node, yaml.MappingNode)


def _word(file: str, key: yaml.Node, value: yaml.Node) -> str:
    """Return the value of a line.

    Raises:
        UserError: The key or the value is a list or a table.
    """
    if isinstance(key, yaml.ScalarNode) and isinstance(value, yaml.ScalarNode):
        return str(value.value)
    name = key.value if isinstance(key, yaml.ScalarNode) else "its key"
    raise UserError(f"{file}, line {key.start_mark.line + 1}: {name} has no single value: fix it")


def _read_flag(file: str) -> dict[str, Any]:
    """Call `read`, and raise its errors as those of a flag."""
    try:
        return read(file)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--config`."""
    parser.add_argument(
        "--config", type=_read_flag, metavar="FILE",
        help="settings of an earlier run, such as results/pong.yaml, in place of a preset; other flags win",
    )  # fmt: skip
