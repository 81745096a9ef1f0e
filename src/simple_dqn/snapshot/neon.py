"""Reads snapshots of the original simple_dqn, which Neon pickled in Python 2, as data, and converts them.

They fit `--network neon`: the layers of Nature's network without biases, and states divided by 255.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simple_dqn.config import EnvironmentConfig, RunConfig
from simple_dqn.errors import UserError
from simple_dqn.snapshot.archive import damaged, quotable, unreadable
from simple_dqn.snapshot.neon_pickle import MALFORMED, RefusedError, unpickle
from simple_dqn.types import CheckpointState

MOST_BYTES = 64 << 20  # Neon's own files are 19 MB, and 40 MB as Python 2's text
FILE_NAME = re.compile(r"(?P<game>.+)_(?P<epoch>\d{1,6})(\.[^.]*)?")
# The convolutions of simple_dqn's network, first to last: filters, size and stride in pixels.
CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
DENSE_UNITS = 512


def read(path: Path, game: str | None = None) -> CheckpointState:
    """Return the Neon snapshot at `path`, converted to the content of a snapshot of this project.

    Args:
        path: The snapshot, `<game>_<epoch>.pkl`; the file itself contains neither.
        game: The game, if the name does not contain it; the epoch is 0 if the name has none.

    Raises:
        UserError: The file is damaged or too large, belongs to another network, contains more than arrays, or
            is not named after a game.
    """
    model = _load(path)
    try:
        weights = _weights(model)
        history = len(weights["hidden.conv1.weight"][0])
        height, width = _screen(model, weights["hidden.dense1.weight"].shape[1])
    except MALFORMED as error:
        reason = quotable(error)
        raise UserError(f"{path} is not of simple_dqn's network ({reason}): use another one") from None
    named, epoch = _name(path, game)
    return {
        "game": named,
        "epoch": epoch,
        "actions": len(weights["output.weight"]),
        "total_train_steps": epoch * RunConfig().train_steps,  # as simple_dqn counted when it resumed
        "flags": {
            "network": "neon",
            "history_length": history,
            "screen_height": height,
            "screen_width": width,
        },
        "weights": weights,
    }


def _load(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise unreadable(path, error) from None
    if len(content) > MOST_BYTES:
        raise damaged(path, ValueError(f"larger than {MOST_BYTES >> 20} MB"))
    try:
        return unpickle(content)
    except RefusedError as refused:
        raise UserError(
            f"{path} contains {quotable(refused)}, which no snapshot needs: no code was run; delete the file"
        ) from None
    except MALFORMED as error:
        raise damaged(path, error) from None


def _name(path: Path, game: str | None) -> tuple[str, int]:
    """Return the game and the epoch."""
    name = FILE_NAME.fullmatch(path.name)
    if name is None and game is None:
        raise UserError(
            f"{path} is one of Neon's snapshots, which do not name their game: rename it GAME_EPOCH.pkl, "
            "such as breakout_77.pkl"
        )
    return game or (name["game"] if name else ""), int(name["epoch"]) if name else 0


def _weights(model: Any) -> dict[str, NDArray[np.float32]]:
    """Return the weights with the names and shapes of this project; damage raises one of `MALFORMED`."""
    arrays = list(_matrices(model))
    if len(arrays) != len(CONVOLUTIONS) + 2:
        raise ValueError(f"{len(arrays)} layers with weights, not {len(CONVOLUTIONS) + 2}")
    weights = {}
    for number, ((filters, size, _), array) in enumerate(zip(CONVOLUTIONS, arrays, strict=False), 1):
        if array.shape[1] != filters or array.shape[0] % size**2:
            raise ValueError(f"convolution {number} has weights {array.shape}")
        weights[f"hidden.conv{number}.weight"] = array.T.reshape(filters, -1, size, size)
    *_, dense, output = arrays
    if len(dense) != DENSE_UNITS or output.shape[1:] != (DENSE_UNITS,):
        raise ValueError(f"dense layers have weights {dense.shape} and {output.shape}")
    return {**weights, "hidden.dense1.weight": dense, "output.weight": output}


def _matrices(model: Any) -> Iterator[NDArray[np.float32]]:
    """Yield the weights in Neon's shapes: [C·R·S, K] for a convolution, [out, in] for a dense layer.

    Newer files list the layers in `model.config.layers`, older ones in `layer_params_states`; each layer's
    `params` is a dict with the weights as `W`, or the weights themselves.
    """
    layers = model["model"]["config"]["layers"] if "model" in model else model["layer_params_states"]
    for layer in layers:
        params = layer.get("params")
        if params is None:
            continue
        if isinstance(params, dict):
            if strange := params.keys() - {"W", "name"}:
                raise ValueError(f"a layer has {min(strange)!r} beside its weights")
            params = params["W"]
        values = params.values
        if values.ndim != 2 or values.dtype.kind != "f" or not values.size:
            raise ValueError(f"weights {values.dtype} {values.shape}")
        yield values.astype(np.float32)


def _screen(model: Any, inputs: int) -> tuple[int, int]:
    """Return the screen's height and width, given the number of `inputs` of the first dense layer."""
    usual = EnvironmentConfig()
    sizes = [(usual.screen_height, usual.screen_width)]
    said = model.get("train_input_shape")  # (history length, height, width) in some of Neon's versions
    if type(said) is tuple and [type(size) for size in said] == [int, int, int]:
        sizes.append(said[1:])
    for height, width in sizes:
        if _outputs(height) * _outputs(width) * CONVOLUTIONS[-1][0] == inputs:
            return height, width
    raise ValueError(f"{inputs} inputs of the dense layer do not match any known size of the screen")


def _outputs(side: int) -> int:
    """Return the side of the last convolution's output for a screen of side `side`, in pixels."""
    for _, size, stride in CONVOLUTIONS:
        side = (side - size) // stride + 1
    return side
