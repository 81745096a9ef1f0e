"""Settings as text: parsers of command lines, and the YAML file that each run writes beside its CSV."""

import argparse
import platform
import re
import sys
import textwrap
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import yaml

from simple_dqn import __version__, config
from simple_dqn.config import BOOLEANS, NO_TEXT, SETTINGS, Config, as_word, convert, unknown, yes_or_no
from simple_dqn.errors import UserError, printable, reason_in_file
from simple_dqn.files import read_text
from simple_dqn.machine import usable_cores
from simple_dqn.presets import PRESETS, USUAL

MOST_BYTES = 64 << 10  # of a file, which has about 4,000
PLAIN = re.compile(r"-?[\w./+][\w./+-]*")  # a word that needs no quotation marks in YAML
KEYS = ("simple_dqn", "preset", "versions", "machine", "settings")
# Settings of a file that are ignored: each run has its own files, and a stranger must not choose any.
PATHS_OF_RUN = (
    "csv_file", "save_weights_prefix", "record_screen_path", "record_sound_filename", "visualization_file",
)  # fmt: skip
ONE_DASH = re.compile(r"-(?!(inf|nan)$)[A-Za-z]\w")  # simple_dqn's own examples have one dash: -csv_file FILE
NEGATIVE = re.compile(r"-(\.?\d|(inf|nan)$)")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and name the nearest flag."""

    example = ""  # arguments, for the help
    most_used: Sequence[str] = ()  # the settings that `--help` shows; none: it shows every flag
    defaults: Callable[[], Mapping[str, Any]] = staticmethod(dict)  # returns the values that the help shows

    def add_switch(self, name: str, text: str, group: argparse._ActionsContainer | None = None) -> None:
        """Add a flag that takes yes or no, and alone means yes."""
        add = (group or self).add_argument
        add(f"--{name}", help=text, type=yes_or_no, nargs="?", const=True, metavar="BOOL")

    def add_presets(self, file: bool = True) -> None:
        """Add `--preset` and `--print_config`, and if `file` is true `--config`."""
        group = self.add_argument_group("Preset")
        text = f"a set of settings: {', '.join(PRESETS)} (default: {USUAL}, or the game's own)"
        group.add_argument("--preset", type=preset_name, metavar="NAME", help=text)
        self.add_switch("print_config", "print settings and their sources, and exit (default: false)", group)
        if file:
            text = "YAML file of settings, such as an earlier run's; flags override it"
            group.add_argument("--config", type=read, metavar="FILE", help=text)

    def format_help(self) -> str:
        """Return the help: with `most_used`, these settings, the verb's own flags, and an example."""
        actions = [action for action in self._actions if action.help != argparse.SUPPRESS]
        values = self.defaults()
        for action in actions:
            if action.dest in values and action.option_strings:
                text = str(action.help).split(";")[0] if self.most_used else action.help
                action.help = f"{text} (default: {as_word(values[action.dest]).replace('%', '%%')})"
        if not self.most_used:
            return super().format_help()
        formatter = self._get_formatter()
        used = [action for name in self.most_used for action in actions if action.dest == name]
        words = [str(arg.metavar or arg.dest.upper()) for arg in actions if not arg.option_strings]
        own = [arg for arg in actions if arg.dest not in SETTINGS or not arg.option_strings]
        for shown in (own, used):
            formatter.start_section(None)
            formatter.add_arguments(shown)
            formatter.end_section()
        return "\n".join((
            f"usage: {' '.join((self.prog, *words))} [flags]", *textwrap.wrap(self.description or "", 110),
            f"example: {self.prog} {self.example}", "", formatter.format_help().rstrip(), "",
            f"{self.prog} --help all lists every flag\n",
        ))  # fmt: skip

    def print_help(self, file: Any = None) -> None:
        """Print the help; unlike argparse, raise OSError if that fails, as on a full disk."""
        print(self.format_help(), end="", file=file)

    def error(self, message: str) -> NoReturn:
        """Raise the error as a `UserError`."""
        raise UserError(message + (f" (see {self.prog} --help)" if self.prog else ""))

    def parse(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Return the flags given, by name, or raise UserError; every word must be UTF-8 text."""
        for word in arguments:
            if NO_TEXT.search(word):
                raise UserError(f"argument '{word}' is not UTF-8 text: rename that file or type it again")
            if word.endswith("=--"):  # of which argparse makes an empty list
                self.error(f"argument {word[:-3]}: '--' is not a value")
        self._negative_number_matcher = NEGATIVE  # argparse would take -1e-3 and -inf for flags
        end = [*arguments, "--"].index("--")  # after which nothing is a flag
        words = [f"-{word}" if ONE_DASH.match(word) else word for word in arguments[:end]]
        if re.search(r"(--help|-h)[ =]all\b", " ".join(words)):
            self.most_used, words = (), ["--help"]
        for flag in ("--config", "--compare"):
            if [word.split("=")[0] for word in words].count(flag) > 1:
                self.error(f"{flag} is given twice, and only one would count: give it once")
        given, rest = self.parse_known_args([*words, *arguments[end:]])
        for word in (*rest, *vars(given).values()):  # to argparse, a wrong flag with a space is an argument
            if word in words and word.startswith("-") and not NEGATIVE.match(word):
                self.error(unknown("flag", word, [flag.lstrip("-") for flag in self._option_string_actions]))
        if rest:
            self.error(f"unexpected argument {rest[0]!r}")
        return vars(given)


def parser_of_settings(program: str, description: str) -> Parser:
    """Return a parser with a flag for every setting; `--help` prints the most used, `--help all` all."""
    parser = Parser(
        prog=program, description=description, allow_abbrev=False, argument_default=argparse.SUPPRESS,
        usage="%(prog)s ... [flags]",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=38, width=110),
    )  # fmt: skip
    text = "run your own file or module first (docs/modify.md)"
    # Only for the help: `own_code.take_imports` has removed it from the arguments.
    parser.add_argument("--import", choices=(), metavar="FILE.py", help=text)
    group = cache(parser.add_argument_group)  # of a heading
    for name, about in SETTINGS.items():
        if "positional" in about:
            continue
        kind, choices = about["types"][0], list(about.get("choices", ()))
        if kind is bool:  # whose first choice means yes
            choices[:1] = ["BOOL"]
        elif kind is not str:
            choices[:0] = ["INT|N%" if "share_of" in about else kind.__name__.upper()]
        metavar = about.get("metavar", "|".join(choices) or kind.__name__.upper())
        bare: dict[str, Any] = {"nargs": "?", "const": True} if kind is bool else {}
        text = about["help"].replace("%", "%%")
        group(about.get("group", about["part"].capitalize())).add_argument(
            f"--{name}", type=partial(convert, name), metavar=metavar, help=text, **bare
        )
    for name in BOOLEANS:
        parser.add_switch(name, argparse.SUPPRESS)
    return parser


def listing(settings: Config, preset: str, layers: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """Return the YAML file of `settings`, with a comment where the value of the preset differs.

    With `layers` of settings by name, the lowest first, the comment also names the layer of each value.
    """
    packages = ", ".join(f"{name}: {version(name)}" for name in ("torch", "numpy", "ale-py"))
    lines = [
        f"simple_dqn: {__version__}", f"preset: {preset}",
        f"versions: {{python: {platform.python_version()}, {packages}}}",
        f"machine: {{system: {platform.system()}, processor: {platform.machine()}, cores: {usable_cores()}}}",
        "settings:",
    ]  # fmt: skip
    of_preset = PRESETS.get(preset, {})
    usual = Config.from_flags(of_preset).flags()
    sources = {name: ("default", about["default"]) for name, about in SETTINGS.items()}
    for layer, flags in (layers or {}).items():
        sources |= {name: (layer, value) for name, value in config.layered(flags).items()}
    for name, value in settings.flags().items():
        comments = []
        if layers:
            layer, given = sources[name]
            comments.append(layer if given == value or isinstance(given, config.Share) else "derived")
        if name != "game" and usual[name] != value:
            comments.append(f"{preset}: {as_word(of_preset.get(name, usual[name]))}")
        word = as_word(value)
        if not PLAIN.fullmatch(word):
            word = yaml.dump(word, default_style='"', width=sys.maxsize).rstrip("\n")
        lines.append(f"  {name}: {word}" + ("  # " + printable("; ".join(comments)) if comments else ""))
    return "\n".join(lines)


def preset_name(word: str) -> str:
    """Return `word`, the name of a preset, or raise ArgumentTypeError."""
    if word not in [*PRESETS]:
        raise ArgumentTypeError(f"no preset is {word!r}: give {', '.join(PRESETS)}, or --config FILE.yaml")
    return word


def read(file: str) -> dict[str, Any]:
    """Return the settings in `file`, at its top or below `settings`, with `preset`, if it names one."""
    text = read_text(Path(file), MOST_BYTES, "give a file like those that --print_config writes")
    given: dict[str, Any] = {}
    lines: dict[str, int] = {}
    try:
        # As nodes, all values are words, whatever their tags are, and an alias is not written out.
        mappings = [yaml.compose(text, yaml.BaseLoader)]
        for mapping in mappings:
            if not isinstance(mapping, yaml.MappingNode):
                raise UserError("there are no settings, such as `learning_rate: 1e-4`")
            for key, node in mapping.value:
                name, line = key.value if isinstance(key, yaml.ScalarNode) else "[]", key.start_mark.line + 1
                if name in lines:
                    raise UserError(f"{name} is in line {lines[name]} and again in line {line}: remove one")
                lines[name] = line
                if name == "settings":
                    mappings.append(node)
                else:
                    given[name] = node.value if isinstance(node, yaml.ScalarNode) else []
        preset = {"preset": preset_name(given["preset"])} if "preset" in given else {}
        values = config.read({name: one for name, one in given.items() if name not in (*KEYS, *PATHS_OF_RUN)})
    except yaml.YAMLError as error:
        found = vars(error)  # a MarkedYAMLError's, or a ReaderError's
        line = found["problem_mark"].line if "problem" in found else text.count("\n", 0, found["position"])
        problem = found.get("problem") or found["reason"]
        raise UserError(f"{file}, line {line + 1}: {problem}: fix it") from None
    except UserError as error:
        raise UserError(f"{file}: {error}") from None
    except (OverflowError, ValueError, RecursionError, ArgumentTypeError) as error:  # "\UFFFFFFFF"
        raise UserError(f"{file}: {reason_in_file(error)}: fix it") from None
    return {"config": file, **preset, **values}
