"""Numpy arrays of numbers in a pickle. Any other object is refused.

Nothing here calls numpy because a file says so. An array is first recorded as shape, datatype and bytes; it
is created only if the number of bytes fits the shape.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

MOST_DIMENSIONS = 4
LONGEST_DIMENSION = 2**31
ARRAY, TYPE, RECONSTRUCT, ENCODE = "numpy.ndarray", "numpy.dtype", "_reconstruct", "_codecs.encode"
# All globals that a file may name: those that create an array, as numpy 1 and numpy 2 name them, and the one
# with which Python 3 writes bytes in the older protocols.
ADMITTED = {
    "numpy.core.multiarray._reconstruct": RECONSTRUCT,
    "numpy._core.multiarray._reconstruct": RECONSTRUCT,
    ARRAY: ARRAY,
    TYPE: TYPE,
    ENCODE: ENCODE,
}
NUMBER = re.compile(r"b1|[iu][1248]|f[248]")  # numpy's codes for the datatypes that hold no objects
PLAIN = (None, None, None, -1, -1, 0)  # of a datatype: no fields, no names, no alignment of its own

# Bytes of Python 2, and of Python 3 in an old protocol, are strings with one latin1 character for each byte.
Bytes: TypeAlias = bytes | str


class RefusedError(ValueError):
    """A file contains something that an array does not need; the message names it."""


@dataclass(frozen=True, slots=True)
class Global:
    """One of the admitted names."""

    name: str


@dataclass(slots=True)
class PickledType:
    """A numpy datatype, which a pickle describes in two steps."""

    code: str  # such as "f4"
    order: str | None = None  # byte order: "<", ">" or "|"


@dataclass(slots=True)
class PickledArray:
    """The description of an array: empty at first, then set by `complete`."""

    shape: tuple[int, ...] = ()
    dtype: str = ""  # such as "<f4"
    by_columns: bool = False
    data: Bytes = b""

    def values(self) -> NDArray[np.generic]:
        """Return the array itself; it is read-only.

        Raises:
            ValueError, TypeError: A character is not a byte, or the array was never completed.
        """
        data = self.data.encode("latin1") if isinstance(self.data, str) else self.data
        values: NDArray[np.generic] = np.frombuffer(data, np.dtype(self.dtype))
        return values.reshape(self.shape, order="F" if self.by_columns else "C")


def find(name: str) -> Global:
    """Return the global `name`, such as "numpy.ndarray".

    Raises:
        RefusedError: It is not admitted.
    """
    if name not in ADMITTED:
        raise RefusedError(name)
    return Global(ADMITTED[name])


def call(function: Any, arguments: Any) -> Any:
    """Return the description of what a call would create, without calling.

    Raises:
        RefusedError: The function, or one of its arguments, is not admitted.
        TypeError: It is not a function, or the number of arguments is wrong.
    """
    if type(function) is not Global or type(arguments) is not tuple:
        raise TypeError("a call of something that is no function")
    if function.name not in CALLS:
        raise RefusedError(f"{function.name} as a function")
    return CALLS[function.name](*arguments)


def complete(target: Any, state: Any) -> None:
    """Set the state of an array or of a datatype.

    Raises:
        RefusedError: `target` is something else, or has a state that arrays of numbers do not need.
        ValueError, TypeError: The state is inconsistent.
    """
    if type(target) is PickledType:
        version, order, *layout = state
        if version != 3 or order not in ("<", ">", "|") or tuple(layout) != PLAIN:
            raise RefusedError(f"{TYPE} with a state of its own")
        target.order = order
    elif type(target) is PickledArray:
        _complete_array(target, *state)
    else:
        raise RefusedError("state for something that is no array")


def _complete_array(
    array: PickledArray, version: Any, shape: Any, dtype: Any, by_columns: Any, data: Any
) -> None:
    sizes = shape if type(shape) is tuple and len(shape) <= MOST_DIMENSIONS else (None,)
    if version != 1 or not all(type(size) is int and 0 <= size < LONGEST_DIMENSION for size in sizes):
        raise ValueError("an array without a shape")
    if type(dtype) is not PickledType or dtype.order is None or type(data) not in (bytes, str):
        raise ValueError("an array without a datatype or without values")
    if math.prod(sizes) * int(dtype.code[1:]) != len(data):
        raise ValueError("an array that is not of the shape that it says")
    array.shape, array.dtype = sizes, dtype.order + dtype.code
    array.by_columns, array.data = bool(by_columns), data


def _encode(text: Bytes, encoding: Any) -> Bytes:
    if encoding != "latin1":
        raise RefusedError(f"{ENCODE} in another way than by latin1")
    return text


def _reconstruct(kind: Any, shape: Any, code: Any) -> PickledArray:
    if kind != Global(ARRAY) or shape != (0,) or code not in (b"b", "b"):
        raise RefusedError(f"{RECONSTRUCT} of something that is no array")
    return PickledArray()


def _datatype(code: str, _align: Any, _copy: Any) -> PickledType:
    if not NUMBER.fullmatch(code):
        raise RefusedError(f"{TYPE} {code}")
    return PickledType(code)


CALLS: dict[str, Callable[..., Any]] = {ENCODE: _encode, RECONSTRUCT: _reconstruct, TYPE: _datatype}
