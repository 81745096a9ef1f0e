"""Checks of the values in a snapshot, which may come from a stranger."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simple_dqn import flags
from simple_dqn.config import Config
from simple_dqn.errors import UserError

# A game's name or a Gymnasium id, but not `module:id`, for which Gymnasium would import a module.
GAME = re.compile(r"\w[\w.-]{0,63}(/\w[\w.-]{0,63})?", re.ASCII)
LONGEST_WORD = 200
# Trained weights are below 10. Five layers of weights up to this limit cannot overflow a float32 at 84x84.
LARGEST_WEIGHT = 1e4


def game(name: Any) -> str:
    """Return `name`.

    Raises:
        ValueError: It is not the name of a game.
    """
    if not isinstance(name, str) or not GAME.fullmatch(name):
        raise ValueError("its game is not named like one")
    return name


def count(number: Any, name: str, least: int = 0) -> int:
    """Return `number`.

    Raises:
        ValueError: It is not an integer from `least` to 2⁶³ - 1.
    """
    if type(number) is not int or not least <= number < 2**63:
        raise ValueError(f"its {name} is not a whole number of at least {least}")
    return number


def settings(given: Any) -> dict[str, Any]:
    """Return the settings in `given`, checked like flags on the command line.

    Settings that this version does not have, and paths on a machine, are left out.

    Raises:
        ValueError: A value has the wrong type, or is out of range.
    """
    known = Config().shared_flags()
    values = {name: value for name, value in dict(given).items() if name in known}
    for name, value in values.items():
        if not isinstance(value, bool | int | float | str | None) or len(str(value)) > LONGEST_WORD:
            raise ValueError(f"its setting {name} is neither a number nor a word")
    unset = {name for name, value in values.items() if value is None and known[name] is None}
    words = [f"--{name}={'none' if name in unset else value}" for name, value in values.items()]
    try:
        return flags.parser("settings", "").parse(words)
    except UserError as error:
        raise ValueError(str(error).removesuffix(" (see settings --help)")) from None


def weights(arrays: Any) -> dict[str, NDArray[np.float32]]:
    """Return the weights as float32; the dict `arrays` is emptied, so that no array is in memory twice.

    Raises:
        ValueError: A weight is not finite, or so large that the network could overflow.
    """
    names, result = list(arrays), {}
    for name in names:
        array = arrays.pop(name)
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or not array.size:
            raise ValueError(f"its weights {name!r} are not floats")
        variance = name.endswith("running_var")  # of batch normalisation, which divides by its square root
        least, most = (0.0, np.inf) if variance else (-LARGEST_WEIGHT, LARGEST_WEIGHT)
        # The minimum of an array with a NaN is NaN, and compares as false.
        if not (least <= array.min() and array.max() <= most and array.max() < np.inf):
            raise ValueError(f"its weights {name!r} hold NaN, infinity or values too large to be learnt ones")
        result[name] = array.astype(np.float32, copy=False)
    return result
