"""Parsers of command lines: errors in one line that name the nearest flag, a short help, checked numbers."""

import argparse
import difflib
import math
import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from simple_dqn.errors import UserError

WIDTH, INDENT = 110, 38  # columns of --help, and the column where its texts start

NO_TEXT = re.compile("[\0\ud800-\udfff]")  # with surrogates Python marks bytes that are not UTF-8
YES = ("yes", "true", "t", "1")
NO = ("no", "false", "f", "0")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and name the nearest flag.

    With the action `ShortHelp`, `--help` prints the verb's own flags and the most used settings.
    """

    example = ""  # of its arguments
    settings: Collection[str] = ()  # flags that are not the verb's own
    most_used: Collection[str] = ()  # those of them that `--help` shows
    other_names: Mapping[str, str] = MappingProxyType({})  # flags of other projects -> ours

    def short_help(self) -> str:
        """Return the usage, an example, the verb's own flags and the most used settings."""
        actions = [action for action in self._actions if action.dest != "help"]
        arguments = [action for action in actions if not action.option_strings]
        own = [action for action in actions if action.dest not in self.settings and action.option_strings]
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
            UserError: A flag is unknown, or a value has the wrong type or is out of range, or contains a
                character that neither a file's name nor a text file can have.
        """
        for word in arguments:
            if NO_TEXT.search(word):
                raise UserError(f"argument '{word}' is not UTF-8 text: rename that file or type it again")
        given, unknown = self.parse_known_args(_as_argparse_reads(arguments))
        for word in unknown:
            if word.startswith("-"):
                raise UserError(f"unknown flag {word}{self.nearest(word)} (see {self.prog} --help)")
        if unknown:
            raise UserError(f"unexpected argument {unknown[0]!r} (see {self.prog} --help)")
        return vars(given)

    def nearest(self, word: str) -> str:
        """Return a question that names the flag meant by `word`; nothing if none is near."""
        name = word.split("=")[0].lstrip("-").lower().replace("-", "_")
        known = [flag.lstrip("-") for action in self._actions for flag in action.option_strings]
        near = (
            [self.other_names[name]]
            if name in self.other_names
            else difflib.get_close_matches(name, known, n=1)
        )
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
    """Return a function from a word to an int or float within limits, as argparse needs it.

    The value is at least `minimum`, above `above` and at most `maximum`, and infinite only if `endless`.
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


def or_none(convert: Any) -> Any:
    """Return `convert`, but with None for the word none."""
    return lambda word: None if word == "none" else convert(word)


def yes_no_or(words: tuple[str, ...]) -> Any:
    """Return `yes_or_no`, for which the first of `words` means yes, and the others themselves."""

    def convert(word: str) -> bool | str:
        return word if word in words[1:] else yes_or_no("yes" if word in words else word)

    return convert if words else yes_or_no
