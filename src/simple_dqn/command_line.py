"""Parsers of command lines: a flag for every setting, errors in one line, a short help."""

import argparse
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

from simple_dqn import config
from simple_dqn.config import BOOLEANS, NO_TEXT, SETTINGS, as_word, convert, unknown, yes_or_no
from simple_dqn.errors import UserError
from simple_dqn.presets import PRESETS

WIDTH, INDENT = 110, 38  # columns of --help, and the column where its texts start
# The headings of --help for the groups of settings.
HEADINGS = {
    "environment": "Environment", "memory": "Replay memory", "network": "Deep Q-learning network",
    "backend": "Backend", "agent": "Agent", "run": "Main loop", "cluster": "Cluster", "common": "Common",
}  # fmt: skip


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and name the nearest flag."""

    example = ""  # of its arguments
    most_used: Sequence[str] = ()  # the settings that `--help` shows
    _help_defaults: Callable[[], Mapping[str, Any]] = staticmethod(dict)

    def add_settings(self, defaults: Callable[[], Mapping[str, Any]]) -> None:
        """Add a flag for every setting, in simple_dqn's groups; `defaults` returns those of the help."""
        self._help_defaults = defaults
        groups = {heading: self.add_argument_group(heading) for heading in HEADINGS.values()}
        for name, setting in SETTINGS.items():
            about, kind, choices = setting.about, setting.kind, tuple(setting.about.get("choices", ()))
            if "positional" in about:
                continue
            shown = f"{{{','.join(choices)}}}" if choices else "INT|N%" if "share_of" in about else ""
            bare: dict[str, Any] = {"nargs": "?", "const": True} if kind is bool else {}
            groups[about.get("group", HEADINGS[setting.group])].add_argument(
                f"--{name}",
                type=partial(convert, name),
                metavar="|".join(("BOOL", *choices[1:])) if kind is bool else shown or kind.__name__.upper(),
                help=about["help"].replace("%", "%%"),
                **bare,
            )
        for name in BOOLEANS:
            self.add_switch(name, argparse.SUPPRESS)

    def add_switch(self, name: str, text: str, group: argparse._ActionsContainer | None = None) -> None:
        """Add a flag that takes yes or no, and alone means yes."""
        (group or self).add_argument(
            f"--{name}", type=yes_or_no, nargs="?", const=True, metavar="BOOL", help=text
        )

    def add_presets(self, usual: str) -> None:
        """Add `--preset`, with the default `usual`, and `--print_config`."""
        group = self.add_argument_group("Preset")
        text = f"a set of settings, over the defaults above; flags beside it win (default: {usual})"
        group.add_argument("--preset", choices=tuple(PRESETS), help=text)
        self.add_switch("print_config", "print every setting and exit (default: false)", group)

    def show_help(self, every: bool) -> NoReturn:
        """Print the help, with `every` flag or the most used, and end the command."""
        values = self._help_defaults()
        for action in self._actions:
            if action.dest in values and action.option_strings:
                shown = as_word(values[action.dest]).replace("%", "%%")
                action.help = f"{action.help} (default: {shown})"
        print(super().format_help().rstrip() if every else self.short_help())
        self.exit()

    def short_help(self) -> str:
        """Return the usage, an example, the verb's own flags and the most used settings."""
        actions = [action for action in self._actions if action.dest != "help"]
        arguments = [action for action in actions if not action.option_strings]
        own = [one for one in actions if one.option_strings and one.dest not in (*SETTINGS, *BOOLEANS)]
        used = [action for name in self.most_used for action in actions if action.dest == name]
        words = [f"[{_name(action)}]" if action.nargs == "?" else _name(action) for action in arguments]
        lines = [f"usage: {' '.join((self.prog, *words))} [flags]"]
        lines += textwrap.wrap(self.description or "", WIDTH)
        lines += [f"example: {self.prog} {self.example}", ""] if self.example else [""]
        for action in (*arguments, *own):
            verbs = action._choices_actions if isinstance(action, argparse._SubParsersAction) else [action]
            lines += [_line(one, whole=not used) for one in verbs]
        if used:
            lines += ["", "most used:", *map(_line, used), "", f"{self.prog} --help all lists every flag"]
        return "\n".join(lines)

    def format_help(self) -> str:
        """Return the short help, which argparse prints with `--help`."""
        return f"{self.short_help()}\n"

    def error(self, message: str) -> NoReturn:
        """Raise the error as a `UserError`."""
        raise UserError(f"{message} (see {self.prog} --help)")

    def parse(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Return the flags given, by name.

        Raises:
            UserError: A flag is unknown, or a value has the wrong type or is out of range, or contains a
                character that neither a file's name nor a text file can have.
        """
        for word in arguments:
            if NO_TEXT.search(word):
                raise UserError(f"argument '{word}' is not UTF-8 text: rename that file or type it again")
        given, rest = self.parse_known_args(_as_argparse_reads(arguments))
        for word in rest:
            if word.startswith("-"):
                self.error(unknown("flag", word, [flag.lstrip("-") for flag in self._option_string_actions]))
        if rest:
            self.error(f"unexpected argument {rest[0]!r}")
        return vars(given)


def parser_of_settings(
    program: str, description: str, defaults: Callable[[], Mapping[str, Any]] = dict
) -> Parser:
    """Return a parser with a flag for every setting; `--help` prints the most used, `--help all` every flag.

    Args:
        program: The command, as the user called it.
        description: One sentence on what it does.
        defaults: Returns the values that the help shows, by name.
    """
    parser = Parser(
        prog=program, description=description, allow_abbrev=False, argument_default=argparse.SUPPRESS,
        add_help=False,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=INDENT, width=WIDTH),
    )  # fmt: skip
    text = "most used flags; all: every flag"
    parser.add_argument("-h", "--help", action=_Help, nargs="?", metavar="all", help=text)
    text = "run your own file or module first; it registers games, networks, rules; see docs/modify.md"
    parser.add_argument("--import", type=_of_the_command, metavar="FILE.py", help=text)
    parser.add_settings(defaults)
    return parser


def _of_the_command(_word: str) -> NoReturn:
    raise argparse.ArgumentTypeError("give it to the whole command")  # which takes it before this parser


class _Help(argparse.Action):
    """Prints the short help, or with `all` the whole, and ends the command."""

    def __call__(self, parser: argparse.ArgumentParser, *arguments: Any) -> NoReturn:
        assert isinstance(parser, Parser)
        parser.show_help(every=arguments[1] == "all")


def _name(action: argparse.Action) -> str:
    return str(action.metavar or action.dest.upper())


def _line(action: argparse.Action, whole: bool = False) -> str:
    """Return the help on `action`: the clauses that fit in a line, or the `whole`, and the default."""
    text, _, default = ((action.help or "") % vars(action)).partition(" (default: ")
    value = "|".join(map(str, action.choices or ())) or _name(action).strip("{}").replace(",", "|")
    value = "" if action.nargs == "?" else f" {value if len(value) < 20 else 'NAME'}"
    flag = action.option_strings[-1] + value if action.option_strings else _name(action)
    room = WIDTH - INDENT - (len(default) + 11 if default else 0)
    clauses = text.split(";")
    while not whole and len(clauses) > 1 and len(";".join(clauses)) > room:
        clauses.pop()
    end = f" (default: {default}" if default else ""
    first, *rest = textwrap.wrap(f"{';'.join(clauses)}{end}", WIDTH - INDENT) or [""]
    return "\n".join([f"  {flag.ljust(INDENT - 3)} {first}", *(" " * INDENT + line for line in rest)])


def _as_argparse_reads(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with two dashes before each flag, and each negative number joined to its flag.

    simple_dqn's own examples have one dash (`-csv_file FILE`), but argparse reads `-history_length` as the
    flag -h, and some negative numbers (`-1e-3`, `-inf`) as flags. After `--` nothing is a flag.
    """
    words: list[str] = []
    for place, word in enumerate(arguments):
        if word == "--":
            return [*words, *arguments[place:]]
        negative = False
        with suppress(ValueError):
            negative = word.startswith("-") and float(word) is not None
        if negative and words and re.fullmatch(r"--\w+", words[-1]):
            words[-1] += f"={word}"
        else:
            words.append(f"-{word}" if re.match(r"-[A-Za-z]\w", word) else word)
    return words


def number(kind: type[float], **limits: Any) -> Callable[[str], Any]:
    """Return a function from a word to an int or float within `limits`, for a flag's `type`."""
    return partial(config.number, kind, **limits)
