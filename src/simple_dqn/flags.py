"""The command line, made from the dataclasses of `config`."""

import argparse
import difflib
import math
import re
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from typing import Any, NoReturn, get_args, get_type_hints

from simple_dqn.config import (
    CLASS_FILE,
    AgentConfig,
    BackendConfig,
    ClusterConfig,
    EnvironmentConfig,
    MemoryConfig,
    NetworkConfig,
    RunConfig,
    Share,
)
from simple_dqn.errors import UserError
from simple_dqn.presets import PRESETS

# Headings of --help, in its order, and the dataclass whose fields stand under each.
GROUPS: dict[str, type] = {
    "Environment": EnvironmentConfig,
    "Replay memory": MemoryConfig,
    "Deep Q-learning network": NetworkConfig,
    "Backend": BackendConfig,
    "Agent": AgentConfig,
    "Main loop": RunConfig,
    "Cluster": ClusterConfig,
}
LATER_GROUPS = ("Common",)
SETTINGS = {setting.name for room in GROUPS.values() for setting in fields(room)} - {"game"}
WIDTH, INDENT = 110, 38  # columns of --help, and the column where its texts start

# The names of flags in other projects.
OTHER_NAMES = {
    "lr": "learning_rate",
    "alpha": "learning_rate",
    "gamma": "discount_rate",
    "discount": "discount_rate",
    "epsilon": "exploration_rate_start",
    "eps_start": "exploration_rate_start",
    "eps_end": "exploration_rate_end",
    "exploration_fraction": "exploration_decay_steps",
    "epsilon_decay": "exploration_decay_steps",
    "buffer_size": "replay_size",
    "memory_size": "replay_size",
    "learning_starts": "random_steps",
    "total_timesteps": "epochs",
    "env": "environment",
    "env_id": "environment",
    "num_envs": "workers",
    "n_envs": "workers",
    "seed": "random_seed",
    "target_network_frequency": "target_steps",
    "target_update_interval": "target_steps",
    "model": "load_weights",
    "checkpoint": "load_weights",
    "cpu": "backend",
    "gpu": "backend",
    "cuda": "backend",
    "dtype": "datatype",
    "per": "prioritized",
    "frameskip": "frame_skip",
    "sticky_actions": "repeat_action_probability",
    "n_steps": "n_step",
    "num_epochs": "epochs",
}

YES = ("yes", "true", "t", "1")
NO = ("no", "false", "f", "0")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and name the nearest flag.

    With the action `ShortHelp`, `--help` prints the verb's own flags and the most used settings.
    """

    example = ""  # of its arguments
    most_used: Sequence[str] = ()  # names of settings

    def short_help(self) -> str:
        """Return the usage, an example, the verb's own flags and the most used settings."""
        actions = [action for action in self._actions if action.dest != "help"]
        arguments = [action for action in actions if not action.option_strings]
        own = [action for action in actions if action.dest not in SETTINGS and action.option_strings]
        used = [action for name in self.most_used for action in actions if action.dest == name]
        words = [f"[{_name(action)}]" if action.nargs == "?" else _name(action) for action in arguments]
        lines = [f"usage: {' '.join((self.prog, *words))} [flags]"]
        lines += textwrap.wrap(self.description or "", WIDTH)
        lines += [f"example: {self.prog} {self.example}", ""] if self.example else [""]
        lines += [_line(action) for action in (*arguments, *own)]
        lines += ["", "most used:", *map(_line, used)] if used else []
        return "\n".join([*lines, "", f"{self.prog} --help all lists every flag"])

    def error(self, message: str) -> NoReturn:
        """Raise the error as a `UserError`."""
        raise UserError(f"{message} (see {self.prog} --help)")

    def parse(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Return the flags given, by name.

        Raises:
            UserError: A flag is unknown, or a value has the wrong type or is out of range.
        """
        given, unknown = self.parse_known_args(_as_argparse_reads(arguments))
        for word in unknown:
            if word.startswith("-"):
                raise UserError(f"unknown flag {word}{self._nearest(word)} (see {self.prog} --help)")
        if unknown:
            raise UserError(f"unexpected argument {unknown[0]!r} (see {self.prog} --help)")
        return vars(given)

    def _nearest(self, word: str) -> str:
        """Return a question that names the flag meant by `word`; nothing if none is near."""
        name = word.split("=")[0].lstrip("-").lower().replace("-", "_")
        known = [flag.lstrip("-") for action in self._actions for flag in action.option_strings]
        near = [OTHER_NAMES[name]] if name in OTHER_NAMES else difflib.get_close_matches(name, known, n=1)
        return f": did you mean --{near[0]}?" if near and near[0] in known else ""


class ShortHelp(argparse.Action):
    """Prints the short help, or with `all` the whole, and ends the command."""

    def __call__(self, parser: argparse.ArgumentParser, *arguments: Any) -> NoReturn:
        """See `argparse.Action`; `arguments` are the namespace, the value and the flag."""
        assert isinstance(parser, Parser)
        print(parser.format_help().rstrip() if arguments[1] == "all" else parser.short_help())
        parser.exit()


def _name(action: argparse.Action) -> str:
    name = action.metavar or action.dest
    assert isinstance(name, str)
    return name.upper()


def _line(action: argparse.Action) -> str:
    """Return one line of help on `action`: its first clause, and the default."""
    words = (action.help or "").replace("%%", "%")
    text, _, default = words.partition(" (default: ")
    value = "" if action.nargs == "?" else f" {_value(action)}"
    flag = action.option_strings[-1] + value if action.option_strings else _name(action)
    room = WIDTH - INDENT - (len(default) + 11 if default else 0)
    clauses = text.split(";")
    while len(clauses) > 1 and len(";".join(clauses)) > room:
        clauses.pop()
    end = f" (default: {default}" if default else ""
    return f"  {flag.ljust(INDENT - 3)} {textwrap.shorten(';'.join(clauses), room, placeholder=' ...')}{end}"


def _value(action: argparse.Action) -> str:
    """Return how the value of a flag is shown: its type, or its choices where they are short."""
    choices = "|".join(map(str, action.choices or ()))
    return (
        choices
        if 0 < len(choices) < 20
        else str(action.metavar or ("NAME" if choices else action.dest.upper()))
    )


def _as_argparse_reads(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with two dashes before each flag, and each negative number joined to its flag.

    simple_dqn's own examples have one dash (`-csv_file FILE`), but argparse reads `-history_length` as the
    flag -h, and some negative numbers (`-1e-3`, `-inf`) as flags. After `--` nothing is a flag.
    """
    words: list[str] = []
    for number, word in enumerate(arguments):
        if word == "--":
            return [*words, *arguments[number:]]
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


def yes_or_no(word: str) -> bool:
    """Return the boolean that `word` means, as in simple_dqn."""
    if word.lower() in YES:
        return True
    if word.lower() in NO:
        return False
    raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(YES + NO)}")


def number(
    kind: type[float],
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    endless: bool = False,
) -> Callable[[str], Any]:
    """Return a function from a word to a number of `kind`, int or float, within limits, as argparse needs it.

    Args:
        kind: int or float.
        minimum: The least value allowed.
        above: A bound that the value must exceed.
        maximum: The greatest value allowed.
        endless: Whether infinity is allowed.
    """

    def convert(word: str) -> float:
        try:
            value = _whole(word) if kind is int else kind(word)
        except (ValueError, OverflowError):
            words = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{word!r} is not {words}") from None
        if math.isnan(value):
            raise argparse.ArgumentTypeError(f"{word!r} is not a number")
        if math.isinf(value) and not endless:
            raise argparse.ArgumentTypeError(f"{word} is not finite: give a number")
        if minimum is not None and value < minimum:
            raise argparse.ArgumentTypeError(f"{word} is too small: give at least {minimum:g}")
        if above is not None and value <= above:
            raise argparse.ArgumentTypeError(f"{word} is too small: give more than {above:g}")
        if maximum is not None and value > maximum:
            raise argparse.ArgumentTypeError(f"{word} is too large: give at most {maximum:g}")
        return value

    return convert


def _whole(word: str) -> int:
    """Return the whole number that `word` writes, such as 1000, 1_000 or 1e3."""
    try:
        return int(word)
    except ValueError:
        value = float(word)
        if int(value) != value:
            raise
        return int(value)


def parser(
    program: str,
    description: str,
    example: str = "",
    most_used: Sequence[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> Parser:
    """Return a parser with a flag for every setting, in simple_dqn's groups.

    Args:
        program: The command, as the user called it.
        description: One sentence on what it does.
        example: A command line, without `program`.
        most_used: The settings that `--help` shows, by name.
        defaults: The values to show as defaults, where they are not those of `config`.
    """
    result = Parser(
        prog=program,
        description=description,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
        add_help=False,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=INDENT, width=WIDTH),
    )
    result.example, result.most_used = example, most_used
    result.add_argument(
        "-h",
        "--help",
        action=ShortHelp,
        nargs="?",
        metavar="all",
        help="most used flags; all: every flag",
    )
    headings = {name: result.add_argument_group(name) for name in (*GROUPS, *LATER_GROUPS)}
    for heading, settings in GROUPS.items():
        for setting in fields(settings):
            if not setting.metadata.get("positional"):
                default = (defaults or {}).get(setting.name, setting.default)
                _add_flag(headings[setting.metadata["group"] or heading], setting, settings, default)
    return result


def add_presets(parser: Parser, usual: str) -> None:
    """Add `--preset`, with the default `usual`, and `--print_config`."""
    group = parser.add_argument_group("Preset")
    group.add_argument(
        "--preset", choices=tuple(PRESETS),
        help=f"a set of settings, over the defaults above; flags beside it win (default: {usual})",
    )  # fmt: skip
    group.add_argument(
        "--print_config", type=yes_or_no, nargs="?", const=True, metavar="BOOL",
        help="print every setting and exit (default: false)",
    )  # fmt: skip


def as_word(value: Any) -> str:
    """Return `value` as written on the command line."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def words(given: Mapping[str, Any]) -> list[str]:
    """Return the flags `given` as on the command line."""
    return [f"--{name}={as_word(value)}" for name, value in given.items()]


def _add_flag(group: Any, setting: "Field[Any]", settings: type, default: Any) -> None:
    hint = get_type_hints(settings)[setting.name]
    kind = _plain_type(hint)
    arguments: dict[str, Any] = {
        "help": f"{setting.metadata['help']} (default: {as_word(default)})".replace("%", "%%")
    }
    if kind is bool:
        words = tuple(setting.metadata["choices"] or ())
        arguments |= {
            "type": _yes_no_or(words),
            "nargs": "?",
            "const": True,
            "metavar": "|".join(("BOOL", *words[1:])),
        }
    elif setting.metadata["choices"] and setting.metadata["file"]:
        words = (*setting.metadata["choices"], setting.metadata["file"])
        arguments |= {"type": _one_of(words), "metavar": f"{{{','.join(words)}}}"}
    elif setting.metadata["choices"]:
        arguments |= {"choices": setting.metadata["choices"]}
    else:
        limits = {name: setting.metadata[name] for name in ("minimum", "above", "maximum", "endless")}
        arguments |= {
            "type": kind if kind is str else number(kind, **limits),
            "metavar": kind.__name__.upper(),
        }
    if setting.metadata["share_of"]:
        arguments |= {"type": _or_share(arguments["type"]), "metavar": "INT|N%"}
    if isinstance(hint, types.UnionType):
        arguments["type"] = _or_none(arguments["type"])
    group.add_argument(f"--{setting.name}", **arguments)


def _or_share(convert: Any) -> Any:
    """Return `convert`, but with a `Share` of the run for a word such as 10%."""
    percent = number(float, minimum=0, maximum=100)
    return lambda word: Share(percent(word[:-1])) if word.endswith("%") else convert(word)


def _or_none(convert: Any) -> Any:
    """Return `convert`, but with None for the word none."""
    return lambda word: None if word == "none" else convert(word)


def _yes_no_or(words: tuple[str, ...]) -> Any:
    """Return `yes_or_no`, for which the first of `words` means yes, and the others themselves."""

    def convert(word: str) -> bool | str:
        return word if word in words[1:] else yes_or_no("yes" if word in words else word)

    return convert if words else yes_or_no


def _one_of(words: tuple[str, ...]) -> Any:
    """Return a converter that accepts one of `words`, or a file name of the form of the last."""

    def convert(word: str) -> str:
        if word not in words[:-1] and not CLASS_FILE.fullmatch(word):
            raise argparse.ArgumentTypeError(f"invalid choice: {word!r} (choose from {', '.join(words)})")
        return word

    return convert


def _plain_type(hint: Any) -> type:
    """Return T for the type hint T or T | None."""
    if isinstance(hint, types.UnionType):
        hint = next(kind for kind in get_args(hint) if kind is not types.NoneType)
    assert isinstance(hint, type)
    return hint
