"""What computes Q-values by a network whose weights stand still, by the name of `--engine`."""

from collections.abc import Callable
from typing import Protocol, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from simple_dqn.deepqnetwork.backend import CPU, Placement
from simple_dqn.deepqnetwork.layers import Network
from simple_dqn.deepqnetwork.returns import Categorical
from simple_dqn.errors import UserError
from simple_dqn.types import QValues, States

# How far an engine may be off PyTorch, as a part of the largest Q-value of a fresh network. In bfloat16 both
# round the same sums, but add them up in another order, so that now and then one is rounded the other way.
BOUNDS = {torch.float32: 1e-4, torch.bfloat16: 0.05}
PROOFS = (1, 8)  # states in the batches by which that is seen


class Engine(Protocol):
    """Predicts by one network, in one thread at a time."""

    def predict(self, states: States, noise: Tensor | None = None) -> QValues:
        """Return the Q-values, float32 [B, A], of `states` uint8 [B, S, H, W]; the array is the caller's.

        Args:
            states: They may be strided and read-only.
            noise: [B, K]; None: noisy layers are still.
        """

    def weights_changed(self) -> None:
        """Hear that the network's weights are not what they were at the last call."""


class TorchEngine:
    """PyTorch, which reads the weights anew at every call."""

    def __init__(self, network: Network, place: Placement) -> None:
        """Predict by `network`, which computes at `place`."""
        self._network = network
        self._place = place

    @torch.inference_mode()
    def predict(self, states: States, noise: Tensor | None = None) -> QValues:
        """Return the Q-values [B, A] of `states`; see `Engine`."""
        qvalues: Tensor = self._network(self._place.floats(states), noise)
        return cast(QValues, qvalues.float().cpu().numpy())

    def weights_changed(self) -> None:
        """Do nothing."""


def _torch(network: Network, place: Placement, _state_shape: tuple[int, ...], _threads: int) -> Engine:
    return TorchEngine(network, place)


def _openvino(network: Network, place: Placement, state_shape: tuple[int, ...], threads: int) -> Engine:
    """Return OpenVINO, once it was seen to come to what PyTorch does.

    Raises:
        UserError: It is not installed, cannot compute at `place`, or computes something else.
    """
    if place.device != CPU:
        raise UserError(
            "--engine openvino computes on the CPU, and the network is on the GPU: leave it out, or give "
            "--backend cpu"
        )
    if place.precision.hidden not in BOUNDS:
        raise UserError(
            "--engine openvino computes in float32 and bfloat16: give one of them as --datatype, or leave "
            "out --engine"
        )
    try:
        from simple_dqn.deepqnetwork.openvino_engine import OpenVinoEngine
    except ImportError as error:
        raise UserError(
            "--engine openvino needs OpenVINO, which is not installed: leave it out, or run "
            ".venv/bin/python -m pip install openvino, the extra `openvino` of pyproject.toml"
        ) from error
    engine = OpenVinoEngine(network, threads)
    require_equal(engine, network, place, state_shape)
    return engine


def require_equal(engine: Engine, network: Network, place: Placement, state_shape: tuple[int, ...]) -> None:
    """See that `engine` predicts what PyTorch does, before a run depends on it.

    It is another program, which optimizes for the processor that it finds: its GroupNormalization, for one,
    is wrong in bfloat16 for more than one state.

    Raises:
        UserError: It does not.
    """
    rng, bound = np.random.default_rng(0), BOUNDS[place.precision.hidden]
    for batch in PROOFS:
        states = rng.integers(0, 256, (batch, *state_shape), np.uint8)
        noise = torch.from_numpy(rng.standard_normal((batch, network.noise_size), np.float32))
        theirs, ours = engine.predict(states, noise), TorchEngine(network, place).predict(states, noise)
        largest, off = np.abs(ours).max(), np.abs(theirs - ours).max()
        if isinstance(network.returns, Categorical):  # a mean of atoms far apart, which may lie near 0
            largest += 0.01 * float(network.returns.atoms.abs().max())
        if not off <= bound * largest:
            raise UserError(
                f"--engine openvino predicts something else than PyTorch on this machine ({off:.2g} off, "
                f"where the largest Q-value is {largest:.2g}): leave it out"
            )


# (network, where it computes, shape of a state [S, H, W], CPU threads) -> what predicts by it
NewEngine: TypeAlias = Callable[[Network, Placement, tuple[int, ...], int], Engine]

ENGINES: dict[str, NewEngine] = {"torch": _torch, "openvino": _openvino}
