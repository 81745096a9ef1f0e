"""Converts weights to numpy arrays and back."""

from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simple_dqn.errors import UserError
from simple_dqn.types import CheckpointState

# The flags that determine the shapes of weights: in the output layer, and in the others.
OUTPUT_FLAGS = "game, --minimal_action_set, --distributional, --atoms and --quantiles"
HIDDEN_FLAGS = "--network, --history_length, --screen_width and --screen_height"


def floating_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Return the weights of `network` and its running means, by name; they share its memory.

    Batch normalisation's integer counter is left out, since nothing uses it.
    """
    return {name: values for name, values in network.state_dict().items() if values.is_floating_point()}


def write_tensors(tensors: Mapping[str, Tensor]) -> CheckpointState:
    """Return fresh arrays of the values of `tensors`; bfloat16 and float16 become float32, which is exact."""
    return {name: _array(values) for name, values in tensors.items()}


def _array(values: Tensor) -> NDArray[np.generic]:
    wide = values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
    return cast(NDArray[np.generic], wide.cpu().numpy().copy(order="C"))


def read_tensors(arrays: CheckpointState, like: Tensor) -> dict[str, Tensor]:
    """Return `arrays` as new tensors; those with the shape of `like` get its memory layout."""
    result = {}
    for name, values in arrays.items():
        source = torch.as_tensor(np.array(values))
        result[name] = torch.empty_like(like).copy_(source) if source.shape == like.shape else source
    return result


def check_fit(arrays: Mapping[str, object], tensors: Mapping[str, Tensor]) -> None:
    """Check that `arrays` have the names and shapes of a network's `tensors`.

    Raises:
        UserError: They differ; the message names the flags to give.
    """
    if arrays.keys() != tensors.keys():
        odd = min(arrays.keys() ^ tensors.keys())
        raise UserError(
            f"the snapshot is of a network with other layers ({odd} is in only one of the two): give "
            "the --network, --dueling, --noisy, and --normalization that it was trained with"
        )
    for name, values in tensors.items():
        theirs, ours = np.shape(cast(NDArray[np.generic], arrays[name])), tuple(values.shape)
        if theirs == ours:
            continue
        flags = OUTPUT_FLAGS if name.startswith("output.") and theirs[1:] == ours[1:] else HIDDEN_FLAGS
        raise UserError(
            f"the snapshot's {name} has the shape {theirs} and the network's {ours}: give "
            f"the {flags} that it was trained with"
        )


@torch.no_grad()
def copy_arrays(arrays: Mapping[str, object], tensors: Mapping[str, Tensor]) -> None:
    """Copy `arrays`, which `check_fit` has accepted, into the memory of `tensors`."""
    for name, values in tensors.items():
        values.copy_(torch.as_tensor(np.array(arrays[name])))
