"""Weights as plain arrays, to be written down, and back."""

from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simple_dqn.errors import UserError
from simple_dqn.types import State


def floating_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Return the weights of `network` and its running means, by name; they share its memory.

    What batch normalisation counts in integers is left out: it uses the count for nothing.
    """
    return {name: values for name, values in network.state_dict().items() if values.is_floating_point()}


def write_tensors(tensors: Mapping[str, Tensor]) -> State:
    """Return fresh arrays of the values of `tensors`; bfloat16 and float16 become float32, which is exact."""
    return {name: _array(values) for name, values in tensors.items()}


def _array(values: Tensor) -> NDArray[np.generic]:
    wide = values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
    return cast(NDArray[np.generic], wide.cpu().numpy().copy(order="C"))


def read_tensors(arrays: State, like: Tensor) -> dict[str, Tensor]:
    """Return fresh tensors of the values in `arrays`; those of `like`'s shape get its layout too."""
    result = {}
    for name, values in arrays.items():
        source = torch.as_tensor(np.array(values))
        result[name] = torch.empty_like(like).copy_(source) if source.shape == like.shape else source
    return result


def check_fit(arrays: Mapping[str, object], tensors: Mapping[str, Tensor]) -> None:
    """Refuse `arrays` that are not those of the network whose `tensors` these are.

    Raises:
        UserError: What differs, and what to do.
    """
    if arrays.keys() != tensors.keys():
        odd = min(arrays.keys() ^ tensors.keys())
        raise UserError(
            f"the snapshot is of a network with other layers ({odd} is in only one of the two): give "
            "the same --batch_norm as when it was trained"
        )
    for name, values in tensors.items():
        theirs, ours = np.shape(cast(NDArray[np.generic], arrays[name])), tuple(values.shape)
        if theirs == ours:
            continue
        if name.startswith("output."):
            raise UserError(
                f"the snapshot has {theirs[0]} actions and the game has {ours[0]}: give the game, and the "
                "--minimal_action_set, that it was trained with"
            )
        raise UserError(
            f"the snapshot's {name} has the shape {theirs} and the network's {ours}: give "
            "the --history_length, --screen_width and --screen_height that it was trained with"
        )


@torch.no_grad()
def copy_arrays(arrays: Mapping[str, object], tensors: Mapping[str, Tensor]) -> None:
    """Copy `arrays`, which have been checked to fit, into the memory of `tensors`."""
    for name, values in tensors.items():
        values.copy_(torch.as_tensor(np.array(arrays[name])))
