"""Reads a pickle of dicts, lists, numbers, strings and numpy arrays, as Neon wrote them in Python 2.

Python's unpickler calls the functions that a file names. `_Reader` accepts only the five names of `GLOBALS`.
Their replacements here call nothing, and make no array that is larger than the file.
"""

import pickle
import re
import struct
from collections.abc import Callable
from io import BytesIO
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

MALFORMED = (ValueError, TypeError, LookupError, AttributeError, EOFError, struct.error, pickle.PickleError)
MOST_INSTRUCTIONS = 20_000  # Neon's own files have about 1,000
NUMBER = re.compile(r"b1|[iu][1248]|f[248]")  # numpy's codes for the datatypes that hold no objects
PLAIN = (None, None, None, -1, -1, 0)  # the state of a datatype without fields, names or alignment


class RefusedError(ValueError):
    """A file contains something that no array needs; the message names it."""


class _Datatype:
    """The replacement of `numpy.dtype`."""

    def __init__(self, code: str, _align: object, _copy: object) -> None:
        if not NUMBER.fullmatch(code):
            raise RefusedError(f"numpy.dtype {code}")
        self.code = code

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        version, self.order, *layout = state
        if version != 3 or self.order not in ("<", ">", "|") or tuple(layout) != PLAIN:
            raise RefusedError("numpy.dtype with a state of its own")


class _Array:
    """The replacement of `numpy.ndarray`: first empty, then with `values` that share the file's bytes."""

    values: NDArray[Any]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, datatype, by_columns, content = state
        content = content.encode("latin1") if isinstance(content, str) else content  # Python 2's bytes
        values = np.frombuffer(content, np.dtype(datatype.order + datatype.code))
        self.values = values.reshape(shape, order="F" if by_columns else "C")
        if self.values.shape != shape:
            raise ValueError("an array without a shape")


def _reconstruct(kind: object, shape: object, _code: object) -> _Array:
    """The replacement of the function that makes an empty array."""
    if kind is not _Array or shape != (0,):
        raise RefusedError("_reconstruct of something that is no array")
    return _Array()


def _encode(text: str, encoding: str) -> bytes:
    """The replacement of `_codecs.encode`, with which Python 3 writes bytes in the older protocols."""
    if encoding != "latin1":
        raise RefusedError("_codecs.encode in another way than by latin1")
    return text.encode("latin1")


# All globals that a file may name.
GLOBALS: dict[str, Any] = {
    "numpy.ndarray": _Array,
    "numpy.dtype": _Datatype,
    "numpy.core.multiarray._reconstruct": _reconstruct,
    "numpy._core.multiarray._reconstruct": _reconstruct,
    "_codecs.encode": _encode,
}


class _Table(dict[Any, Any]):
    """A dict that refuses keys whose hash could take unlimited time, such as tuples of tuples."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) not in (str, int):
            raise TypeError("a key that is neither a string nor a number")
        super().__setitem__(key, value)


# Instructions that no array needs: for sets, whose items are hashed; for byte arrays, whose size the file may
# claim at will; and for objects.
UNWANTED = b"".join((
    pickle.EMPTY_SET, pickle.ADDITEMS, pickle.FROZENSET, pickle.BYTEARRAY8, pickle.INST, pickle.OBJ,
    pickle.NEWOBJ, pickle.NEWOBJ_EX, pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.PERSID, pickle.BINPERSID,
))  # fmt: skip


class _Limited(dict[int, Any]):
    """The methods of the instructions; counts their uses, up to `MOST_INSTRUCTIONS`."""

    count = 0

    def __getitem__(self, code: int) -> Any:
        self.count += 1
        if self.count > MOST_INSTRUCTIONS:
            raise ValueError(f"more than {MOST_INSTRUCTIONS} instructions")
        return super().__getitem__(code)


class _Reader(pickle._Unpickler):  # in Python: its memo is a dict, so a large index allocates no memory
    """An unpickler of dicts, lists, numbers, strings and `_Array`s."""

    stack: list[Any]
    append: Callable[[Any], None]
    pop_mark: Callable[[], list[Any]]

    def find_class(self, module: Any, name: Any) -> Any:
        """Return the replacement of a global."""
        if f"{module}.{name}" not in GLOBALS:
            raise RefusedError(f"{module}.{name}")
        return GLOBALS[f"{module}.{name}"]

    def refuse(self) -> None:
        raise RefusedError("a pickle instruction for a set or another object")

    def load_empty_dict(self) -> None:
        self.append(_Table())

    def load_dict(self) -> None:
        if self.pop_mark():
            raise RefusedError("a dict with items of its own")  # which no pickler writes
        self.append(_Table())

    def load_build(self) -> None:
        state = self.stack.pop()
        if type(self.stack[-1]) not in (_Array, _Datatype):  # The attributes of others could be set.
            raise RefusedError("state for something that is no array")
        self.stack[-1].__setstate__(state)

    dispatch: ClassVar[dict[int, Any]] = {
        **pickle._Unpickler.dispatch,
        **dict.fromkeys(UNWANTED, refuse),
        pickle.EMPTY_DICT[0]: load_empty_dict,
        pickle.DICT[0]: load_dict,
        pickle.BUILD[0]: load_build,
    }


def unpickle(content: bytes) -> Any:
    """Return the value of a pickle of dicts, lists, numbers, strings and `_Array`s.

    Raises:
        RefusedError: It contains something else; none of it was executed.
        Exception: One of `MALFORMED`: it is damaged, or not a pickle.
    """
    reader = _Reader(BytesIO(content), encoding="latin1")
    reader.dispatch = _Limited(_Reader.dispatch)  # type: ignore[misc]
    return reader.load()
