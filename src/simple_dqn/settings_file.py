"""Settings as a YAML file: beside the CSV of each run, printed by `--print_config`, read by `--config`."""

import platform
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from simple_dqn import __version__, config
from simple_dqn.config import Config, as_word
from simple_dqn.errors import UserError, one_line
from simple_dqn.files import kind_of, read_text
from simple_dqn.machine import usable_cores
from simple_dqn.presets import PRESETS

MOST_BYTES = 64 << 10  # of a file, which has about 4,000
PLAIN = re.compile(r"-?[\w./+][\w./+-]*")  # a word that needs no quotation marks in YAML
KEYS = ("simple_dqn", "preset", "versions", "machine", "settings")
OF_ONE_RUN = ("csv_file", "save_weights_prefix")  # the next run has files of its own


def listing(settings: Config, preset: str) -> str:
    """Return the file for `settings`, in which those that differ from the preset are marked."""
    packages = ", ".join(f"{name}: {version(name)}" for name in ("torch", "numpy", "ale-py"))
    lines = [
        f"simple_dqn: {__version__}",
        f"preset: {preset}",
        f"versions: {{python: {platform.python_version()}, {packages}}}",
        f"machine: {{system: {platform.system()}, processor: {platform.machine()}, cores: {usable_cores()}}}",
        "settings:",
    ]
    plain = Config.from_flags(PRESETS.get(preset, {})).flags()
    for name, value in settings.flags().items():
        mark = "" if name == "game" or plain[name] == value else f"  # {preset}: {as_word(plain[name])}"
        word = as_word(value)
        if not PLAIN.fullmatch(word):
            word = yaml.dump(word, default_style='"', width=sys.maxsize).rstrip("\n")
        lines.append(f"  {name}: {word}{mark}")
    return "\n".join(lines)


def preset_in(path: Path) -> str:
    """Return the preset that the settings file of a run names; without one `simple_dqn`, the defaults."""
    text = read_text(path, MOST_BYTES, "move it away") if kind_of(path) else ""
    named = re.search(r"^preset: (\w+)$", text, re.MULTILINE)
    return named[1] if named and named[1] in PRESETS else "simple_dqn"


def read(file: str) -> dict[str, Any]:
    """Return the settings in `file`, by name, and the name of the preset that it changes, as `preset`."""
    text = read_text(Path(file), MOST_BYTES, "give a file that --print_config wrote")
    try:
        content = yaml.load(text, yaml.BaseLoader)  # which makes words of all values, whatever their tags are
    except (yaml.YAMLError, RecursionError) as error:  # RecursionError: too many brackets
        raise UserError(f"{file}: {one_line(error)}: fix it") from None
    if not isinstance(content, dict) or not isinstance(content.get("settings"), dict):
        raise UserError(f"{file}: there is no key `settings`: give a file that --print_config wrote")
    if wrong := [key for key in content if key not in KEYS]:
        raise UserError(f"{file}: unknown key {wrong[0]} beside {', '.join(KEYS)}: fix it")
    preset = {"preset": content["preset"]} if "preset" in content else {}
    if preset and preset["preset"] not in [*PRESETS]:
        raise UserError(f"{file}: there is no preset {preset['preset']}: give one of {', '.join(PRESETS)}")
    try:
        values = config.read(content["settings"])
    except UserError as error:
        raise UserError(f"{file}: {error}: fix it") from None
    return preset | {name: value for name, value in values.items() if name not in OF_ONE_RUN}
