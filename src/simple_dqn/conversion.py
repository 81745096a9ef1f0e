"""Text to the value of a setting and back, the same for flags, settings files, snapshots and keywords."""

import difflib
import math
import re
from argparse import ArgumentTypeError
from collections.abc import Mapping
from typing import Any

from simple_dqn.config import BOOLEANS, GONE, GONE_VALUES, Share, as_word, known
from simple_dqn.errors import UserError

NO_TEXT = re.compile("[\0\ud800-\udfff]")  # with surrogates Python marks bytes that are not UTF-8
LARGEST = 3e38  # a number that 32-bit floats have
LONGEST = 40  # characters of a wrong number that its message quotes
LIMITS = ("minimum", "above", "maximum", "endless")
OPEN = ("sampler", "target_rule")  # a snapshot may have names that are not registered here; see `rules`
YES, NO = ("yes", "true", "t", "1"), ("no", "false", "f", "0")


def read(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings from a file, a snapshot or keywords, converted and checked as flags are.

    Args:
        values: Words, or values of the settings' types, by name.

    Raises:
        UserError: A name is unknown or gone, or a value is not of its setting.
    """
    result = {}
    for name, value in values.items():
        if name in known() or name in BOOLEANS:
            try:
                result[name] = convert(name, as_word(value))
            except ArgumentTypeError as error:
                raise UserError(f"{name}: {error}") from None
        else:
            raise UserError(unknown_setting(name))
    return result


def unknown_setting(name: str) -> str:
    """Return the message on a name that is no setting."""
    if name in GONE:
        return f"the setting {name} is gone: {GONE[name]}"
    near = difflib.get_close_matches(name, known(), n=1)
    return f"unknown setting {name}" + (f": did you mean {near[0]}?" if near else "")


def convert(name: str, word: str) -> Any:
    """Return the value of the setting `name` that `word` means, or of one of `BOOLEANS`.

    Raises:
        ArgumentTypeError: It means none; the message is the reason.
    """
    if name in BOOLEANS:
        return yes_or_no(word)
    one, kind, optional = known()[name]
    limits, choices = one.metadata, one.metadata.get("choices")
    if optional and word == "none":
        return None
    if limits.get("share_of") and word.endswith("%"):
        return Share(number(float, word[:-1], minimum=0, maximum=100))
    if kind is bool:
        if choices and word in choices:  # the first of them means yes
            return word == choices[0] or word
        return yes_or_no(word)
    if choices and word not in choices and name not in OPEN:
        if gone := GONE_VALUES.get("FILE.py" if re.fullmatch(r".+\.py(:\w*)?", word) else word):
            raise ArgumentTypeError(gone)
        raise ArgumentTypeError(f"invalid choice: {word!r} (choose from {', '.join(choices)})")
    if kind is str:
        if NO_TEXT.search(word):
            raise ArgumentTypeError(f"'{word}' is not UTF-8 text")
        return word
    return number(kind, word, **{key: limits[key] for key in LIMITS if key in limits})


def number(
    kind: Any,
    word: str,
    minimum: float = -math.inf,
    above: float = -math.inf,
    maximum: float = math.inf,
    endless: bool = False,
) -> Any:
    """Return `word` as an int or float within limits; 1e3 and 1_000 are whole numbers.

    Raises:
        ArgumentTypeError: It is none; the message is the reason.
    """
    shown = word if len(word) <= LONGEST else f"{word[:LONGEST]}..."
    try:
        value = float(word)
        whole = kind is int and (int(word) if re.fullmatch(r"[+-]?[\d_]+", word.strip()) else int(value))
    except (ValueError, OverflowError):
        value, whole = math.nan, None
    if math.isnan(value) or (kind is int and whole != value):
        raise ArgumentTypeError(f"{shown!r} is not {'a whole number' if kind is int else 'a number'}")
    if kind is float and abs(value) > LARGEST and not endless:
        raise ArgumentTypeError(f"{shown} is not finite or too large: give a smaller number")
    if value < minimum:
        raise ArgumentTypeError(f"{shown} is too small: give at least {minimum:g}")
    if value <= above and not endless:
        raise ArgumentTypeError(f"{shown} is too small: give more than {above:g}")
    if value > maximum:
        raise ArgumentTypeError(f"{shown} is too large: give at most {maximum:g}")
    return whole if kind is int else value


def yes_or_no(word: str) -> bool:
    """Return the boolean that `word` means, as in simple_dqn.

    Raises:
        ArgumentTypeError: It means none.
    """
    if word.lower() not in YES + NO:
        raise ArgumentTypeError(f"{word!r} is not one of {', '.join(YES + NO)}")
    return word.lower() in YES
