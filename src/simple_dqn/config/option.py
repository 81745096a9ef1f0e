"""A setting that is also a flag."""

from dataclasses import field
from typing import Any


def option(
    default: Any,
    help: str,  # noqa: A002 - argparse's own word
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    endless: bool = False,
    choices: tuple[str, ...] | None = None,
    file: str | None = None,
    group: str | None = None,
    local: bool = False,
) -> Any:
    """Return a dataclass field that is also a flag.

    Args:
        default: The value without the flag; None means "not given".
        help: What it does and in which unit, for `--help`.
        minimum: The least value allowed.
        above: A bound that the value must exceed.
        maximum: The greatest value allowed.
        endless: Whether infinity is a value, too.
        choices: The words allowed.
        file: What else is allowed, a file that is named so.
        group: The heading in `--help`, where it is not that of the dataclass.
        local: It is about this machine, and so stays out of files that are shared.
    """
    limits = {"minimum": minimum, "above": above, "maximum": maximum, "endless": endless}
    words = {"choices": choices, "file": file}
    return field(default=default, metadata={"help": help, **limits, **words, "group": group, "local": local})
