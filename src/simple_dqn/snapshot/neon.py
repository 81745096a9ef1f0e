"""Reads snapshots of the original simple_dqn, which Neon pickled in Python 2, as data, and converts them.

They fit `--network neon`: the layers of Nature's network without biases, and states divided by 255.
"""

import pickle
import pickletools
import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from simple_dqn.config import RunConfig
from simple_dqn.errors import UserError
from simple_dqn.types import CheckpointState

FILE_NAME = re.compile(r"(?P<game>.+)_(?P<epoch>\d{1,6})(\.[^.]*)?")
LAYERS = ("hidden.conv1", "hidden.conv2", "hidden.conv3", "hidden.dense1", "output")  # as in our network
MOST_BYTES = 64 << 20  # of a pickle; Neon's own have 19 MB
MOST_INSTRUCTIONS = 20_000  # of a pickle; Neon's own have about 1,000
# Codes of the instructions for numbers, strings, lists, tuples, dicts, calls and states. Sets would hash
# their items, and the rest makes objects or is of protocols that Neon does not write.
INSTRUCTIONS = set("\x80\x95.(NJKM\x88\x89\x8a\x8bGUTXB\x8c\x8dC\x8e)\x85\x86\x87t]ae}suqr\x94hjc\x93Rb")
NUMBER = re.compile(r"[<>|](b1|[iu][1248]|f[248])")  # numpy's datatypes that hold no objects


def read(content: bytes, name: str, game: str | None = None) -> CheckpointState:
    """Return a Neon snapshot, converted to the content of a snapshot of this project.

    The file contains neither game nor epoch: they are in its `name`, `<game>_<epoch>.pkl` (else UserError),
    or `game` is given and the epoch is 0. One of `MALFORMED` is raised for all but this network's arrays.
    """
    arrays = list(_matrices(unpickle(content)))
    shapes = [array.shape for array in arrays]
    history, actions = shapes[0][0] // 64, len(arrays[-1])
    if shapes != [(64 * history, 32), (512, 64), (576, 64), (512, 3136), (actions, 512)]:
        raise ValueError("its layers are not those of simple_dqn's network for screens of 84 x 84 pixels")
    for i, size in enumerate((8, 4, 3)):  # of the filters of each convolution, in pixels
        arrays[i] = arrays[i].T.reshape(shapes[i][1], -1, size, size)
    named = FILE_NAME.fullmatch(name)
    if not (named or game):
        raise UserError(f"{name} does not say its game: rename it GAME_EPOCH.pkl, such as breakout_77.pkl")
    epoch = int(named["epoch"]) if named else 0
    return {
        "game": game or (named and named["game"]),
        "epoch": epoch,
        "actions": actions,
        "total_train_steps": epoch * RunConfig().train_steps,  # as simple_dqn counted when it resumed
        "flags": {"network": "neon", "history_length": history, "screen_height": 84, "screen_width": 84},
        "weights": {f"{layer}.weight": array for layer, array in zip(LAYERS, arrays, strict=True)},
    }


def _matrices(model: Any) -> Iterator[NDArray[np.float32]]:
    """Yield the weights in Neon's shapes: [C·R·S, K] for a convolution, [out, in] for a dense layer.

    Newer files list the layers in `model.config.layers`, older ones in `layer_params_states`; each layer's
    `params` is a dict with the weights as `W`, or the weights themselves.
    """
    layers = model["model"]["config"]["layers"] if "model" in model else model["layer_params_states"]
    for params in (layer["params"] for layer in layers if layer.get("params") is not None):
        table = params if isinstance(params, dict) else {"W": params}
        if strange := table.keys() - {"W", "name"}:
            raise ValueError(f"a layer has {min(strange)!r} beside its weights")
        if (values := table["W"].values).dtype.kind != "f":
            raise ValueError(f"its weights are {values.dtype}")
        yield values.astype(np.float32)


class _Object:
    """In place of numpy's array or datatype: the arguments and the state that were pickled."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = ()

    @property
    def values(self) -> NDArray[Any]:
        """The array; it shares the file's bytes, so it is no larger than the file."""
        _version, shape, datatype, by_columns, content = self.state
        kind = datatype.state[1] + datatype.arguments[0]
        if not NUMBER.fullmatch(kind):
            raise ValueError(f"an array of {kind}")
        content = content.encode("latin1") if isinstance(content, str) else content  # Python 2's bytes
        values = np.frombuffer(content, kind).reshape(shape, order="F" if by_columns else "C")
        if values.shape != shape:
            raise ValueError(f"an array of the shape {shape}")
        return values


# The globals that a pickle may name, and their replacements.
NAMES: dict[str, Any] = {
    "numpy.ndarray": None,  # an argument of the next two
    "numpy.core.multiarray._reconstruct": _Object,
    "numpy._core.multiarray._reconstruct": _Object,
    "numpy.dtype": _Object,
    "_codecs.encode": lambda text, _latin1: text.encode("latin1"),  # with which Python 3 writes bytes
}


class _Table(dict[Any, Any]):
    """A dict that refuses keys whose hash could take unlimited time, such as tuples of tuples."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) not in (str, int):
            raise TypeError("a key that is neither a string nor a number")
        super().__setitem__(key, value)


class _Reader(pickle._Unpickler):  # in Python: its memo is a dict, so a large index allocates no memory
    """An unpickler that calls no function but those of `NAMES`."""

    stack: list[Any]

    def find_class(self, module: Any, name: Any) -> Any:
        if f"{module}.{name}" not in NAMES:
            raise ValueError(f"it contains {module}.{name}, which no snapshot needs; no code was run")
        return NAMES[f"{module}.{name}"]

    def load_build(self) -> None:
        state = self.stack.pop()
        if type(self.stack[-1]) is not _Object:  # the attributes of others could be set
            raise ValueError("it contains a state for something other than an array; no code was run")
        self.stack[-1].state = state

    dispatch: ClassVar[dict[int, Any]] = {
        **pickle._Unpickler.dispatch,
        pickle.EMPTY_DICT[0]: lambda self: self.append(_Table()),
        pickle.BUILD[0]: load_build,
    }


def unpickle(content: bytes) -> Any:
    """Return the value of a pickle of dicts, lists, numbers, strings and arrays, the last as `_Object`.

    One of `MALFORMED` is raised if it is damaged or contains something else, which was not executed.
    """
    for count, (instruction, _, _) in enumerate(pickletools.genops(content)):
        if instruction.code not in INSTRUCTIONS or count > MOST_INSTRUCTIONS or len(content) > MOST_BYTES:
            raise ValueError(f"it contains {instruction.name}, or too much, for a snapshot; no code was run")
    return _Reader(BytesIO(content), encoding="latin1").load()
