"""Parsers of command lines: a flag for every setting, errors in one line, a short help."""

import argparse
import difflib
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, NoReturn

from simple_dqn import conversion
from simple_dqn.config import BOOLEANS, GONE, Config, as_word, known
from simple_dqn.conversion import NO_TEXT, convert, yes_or_no
from simple_dqn.errors import UserError
from simple_dqn.presets import PRESETS

WIDTH, INDENT = 110, 38  # columns of --help, and the column where its texts start

# The names of flags in other projects.
OTHER_NAMES = {
    "lr": "learning_rate", "alpha": "learning_rate", "gamma": "discount_rate", "discount": "discount_rate",
    "epsilon": "exploration_rate_start", "eps_start": "exploration_rate_start",
    "eps_end": "exploration_rate_end", "exploration_fraction": "exploration_decay_steps",
    "epsilon_decay": "exploration_decay_steps", "buffer_size": "replay_size", "memory_size": "replay_size",
    "learning_starts": "random_steps", "total_timesteps": "epochs", "env": "environment",
    "env_id": "environment", "num_envs": "workers", "n_envs": "workers", "seed": "random_seed",
    "target_network_frequency": "target_steps", "target_update_interval": "target_steps",
    "model": "load_weights", "checkpoint": "load_weights", "cpu": "backend", "gpu": "backend",
    "cuda": "backend", "dtype": "datatype", "per": "sampler", "frameskip": "frame_skip",
    "sticky_actions": "repeat_action_probability", "n_steps": "n_step", "num_epochs": "epochs",
}  # fmt: skip


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and name the nearest flag."""

    example = ""  # of its arguments
    most_used: Sequence[str] = ()  # the settings that `--help` shows
    _help_defaults: Callable[[], Mapping[str, Any]] = staticmethod(dict)

    def add_settings(self, defaults: Callable[[], Mapping[str, Any]]) -> None:
        """Add a flag for every setting, in simple_dqn's groups; `defaults` returns those of the help."""
        self._help_defaults = defaults
        headings = {group.name: HEADINGS[group.name] for group in fields(Config)}
        groups = {heading: self.add_argument_group(heading) for heading in (*headings.values(), "Common")}
        for name, (one, kind, _) in known().items():
            about = one.metadata
            if "positional" in about:
                continue
            choices = tuple(about.get("choices") or ())
            shown = f"{{{','.join(choices)}}}" if choices else "INT|N%" if "share_of" in about else ""
            bare: dict[str, Any] = {"nargs": "?", "const": True} if kind is bool else {}
            groups[about.get("group") or headings[GROUP_OF[name]]].add_argument(
                f"--{name}",
                type=partial(convert, name),
                metavar="|".join(("BOOL", *choices[1:])) if kind is bool else shown or kind.__name__.upper(),
                help=about["help"].replace("%", "%%"),
                **bare,
            )
        for name in BOOLEANS:
            self.add_argument(
                f"--{name}", type=partial(convert, name), nargs="?", const=True, help=argparse.SUPPRESS
            )

    def show_defaults(self) -> None:
        """Add the default of each setting to its help."""
        values = self._help_defaults()
        for action in self._actions:
            if action.dest in values and action.option_strings:
                action.help = f"{action.help} (default: {as_word(values[action.dest])})".replace("%)", "%%)")

    def add_presets(self, usual: str) -> None:
        """Add `--preset`, with the default `usual`, `--config` and `--print_config`."""
        group = self.add_argument_group("Preset")
        help_of_presets = (
            f"a set of settings, over the defaults above; flags beside it win (default: {usual})"
        )
        group.add_argument("--preset", choices=tuple(PRESETS), help=help_of_presets)
        group.add_argument("--print_config", type=yes_or_no, nargs="?", const=True, metavar="BOOL",
            help="print every setting and exit (default: false)")  # fmt: skip

    def short_help(self) -> str:
        """Return the usage, an example, the verb's own flags and the most used settings."""
        actions = [action for action in self._actions if action.dest != "help"]
        arguments = [action for action in actions if not action.option_strings]
        own = [one for one in actions if one.option_strings and one.dest not in (*known(), *BOOLEANS)]
        used = [action for name in self.most_used for action in actions if action.dest == name]
        words = [f"[{_name(action)}]" if action.nargs == "?" else _name(action) for action in arguments]
        lines = [f"usage: {' '.join((self.prog, *words))} [flags]"]
        lines += textwrap.wrap(self.description or "", WIDTH)
        lines += [f"example: {self.prog} {self.example}", ""] if self.example else [""]
        for action in (*arguments, *own):
            verbs = action._choices_actions if isinstance(action, argparse._SubParsersAction) else [action]
            lines += [_line(one, whole=not used) for one in verbs]
        if not used:
            return "\n".join(lines)
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
        given, unknown = self.parse_known_args(_as_argparse_reads(arguments))
        for word in unknown:
            if word.startswith("-"):
                self.error(self._unknown(word))
        if unknown:
            self.error(f"unexpected argument {unknown[0]!r}")
        return vars(given)

    def _unknown(self, word: str) -> str:
        """Return the message on an unknown flag: its replacement, or the flag with the nearest name."""
        name = word.split("=")[0].lstrip("-").lower().replace("-", "_")
        if name in GONE:
            return f"--{name} is gone: {GONE[name]}"
        flags = [flag.lstrip("-") for action in self._actions for flag in action.option_strings]
        near = [OTHER_NAMES[name]] if name in OTHER_NAMES else difflib.get_close_matches(name, flags, n=1)
        hint = f": did you mean --{near[0]}?" if near and near[0] in flags else ""
        return f"unknown flag {word}{hint}"


# The headings of --help for the groups of settings.
HEADINGS = {
    "environment": "Environment",
    "memory": "Replay memory",
    "network": "Deep Q-learning network",
    "backend": "Backend",
    "agent": "Agent",
    "run": "Main loop",
    "cluster": "Cluster",
}
GROUP_OF = {one.name: group.name for group in fields(Config) for one in fields(getattr(Config(), group.name))}


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
        prog=program,
        description=description,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
        add_help=False,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=INDENT, width=WIDTH),
    )
    parser.add_argument(
        "-h", "--help", action=_Help, nargs="?", metavar="all", help="most used flags; all: every flag"
    )
    parser.add_argument(
        "--import", type=_of_the_command, metavar="FILE.py",
        help="run your own file or module first; it registers games, networks, rules; see docs/modify.md",
    )  # fmt: skip
    parser.add_settings(defaults)
    return parser


def _of_the_command(_word: str) -> NoReturn:
    raise argparse.ArgumentTypeError("give it to the whole command")  # which takes it before this parser


class _Help(argparse.Action):
    """Prints the short help, or with `all` the whole, and ends the command."""

    def __call__(self, parser: argparse.ArgumentParser, *arguments: Any) -> NoReturn:
        assert isinstance(parser, Parser)
        parser.show_defaults()
        every = argparse.ArgumentParser.format_help(parser).rstrip()
        print(every if arguments[1] == "all" else parser.short_help())
        parser.exit()


def _name(action: argparse.Action) -> str:
    name = action.metavar or action.dest.upper()
    assert isinstance(name, str)
    return name


def _line(action: argparse.Action, whole: bool = False) -> str:
    """Return the help on `action`: the clauses that fit in a line, or the `whole`, and the default."""
    words = (action.help or "") % vars(action)
    text, _, default = words.partition(" (default: ")
    value = "" if action.nargs == "?" else f" {_value(action)}"
    flag = action.option_strings[-1] + value if action.option_strings else _name(action)
    room = WIDTH - INDENT - (len(default) + 11 if default else 0)
    clauses = text.split(";")
    while not whole and len(clauses) > 1 and len(";".join(clauses)) > room:
        clauses.pop()
    end = f" (default: {default}" if default else ""
    first, *rest = textwrap.wrap(f"{';'.join(clauses)}{end}", WIDTH - INDENT) or [""]
    return "\n".join([f"  {flag.ljust(INDENT - 3)} {first}", *(" " * INDENT + line for line in rest)])


def _value(action: argparse.Action) -> str:
    """Return how the value of a flag is shown: its type, or its choices where they are short."""
    word = (
        "|".join(map(str, action.choices)) if action.choices else str(action.metavar or action.dest.upper())
    )
    word = word.strip("{}").replace(",", "|") if word[0] == "{" else word
    return word if len(word) < 20 else "NAME"


def _as_argparse_reads(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with two dashes before each flag, and each negative number joined to its flag.

    simple_dqn's own examples have one dash (`-csv_file FILE`), but argparse reads `-history_length` as the
    flag -h, and some negative numbers (`-1e-3`, `-inf`) as flags. After `--` nothing is a flag.
    """
    words: list[str] = []
    for place, word in enumerate(arguments):
        if word == "--":
            return [*words, *arguments[place:]]
        if _is_negative_number(word) and words and re.fullmatch(r"--\w+", words[-1]):
            words[-1] += f"={word}"
        else:
            words.append(f"-{word}" if re.match(r"-[A-Za-z]\w", word) else word)
    return words


def _is_negative_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return word.startswith("-")


def number(kind: type[float], **limits: Any) -> Callable[[str], Any]:
    """Return a function from a word to an int or float within `limits`, for a flag's `type`."""
    return partial(conversion.number, kind, **limits)
