"""A network that predicts and learns nothing: for whoever plays by weights that are learnt elsewhere."""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simple_dqn.config import BackendConfig, NetworkConfig
from simple_dqn.deepqnetwork.backend import CPU, choose_datatype, lay_out, place, set_up
from simple_dqn.deepqnetwork.building import build
from simple_dqn.deepqnetwork.networks import NetworkSpec
from simple_dqn.deepqnetwork.noisy import Noise
from simple_dqn.deepqnetwork.tensors import check_fit, copy_arrays, floating_tensors
from simple_dqn.types import QValues, States

# In what a processor predicts, by what a network learns in: narrow only where it computes in that.
PREDICTS_IN = {
    "float32": "float32",
    "float64": "float64",
    "bfloat16": "auto",
    "float16": "auto",
    "auto": "auto",
}


class Predictor:
    """The Q-values of `DeepQNetwork.predict_to_explore`, on one core of the CPU; it has no optimizer."""

    def __init__(
        self,
        actions: int,
        history_length: int,
        screen_shape: tuple[int, int],
        network: NetworkConfig,
        backend: BackendConfig,
        rng: np.random.Generator,
        spec: NetworkSpec,
    ) -> None:
        """Make a network whose weights are yet to be told; see `DeepQNetwork`.

        The calling thread computes on one core from now on.
        """
        torch.set_num_threads(1)
        set_up(CPU)
        datatype = choose_datatype(replace(backend, datatype=PREDICTS_IN[backend.datatype]), CPU)
        self._place = place(CPU, datatype)
        precision = self._place.precision
        self._network = build(spec, actions, history_length, screen_shape, network, rng, precision.master)
        self._network.narrow_hidden_layers(precision.hidden)
        self._network.requires_grad_(False).eval()
        lay_out(self._network, self._place.layout)
        self._noise = Noise(self._network.noise_size, rng, CPU)

    def set_weights(self, weights: Mapping[str, NDArray[np.float32]]) -> None:
        """Predict by `weights`, from `DeepQNetwork.get_weights`, from now on; they are copied.

        Raises:
            UserError: They are another network's; nothing has changed then.
        """
        tensors = floating_tensors(self._network)
        check_fit(weights, tensors)
        copy_arrays(weights, tensors)

    @torch.inference_mode()
    def predict_to_explore(self, states: States) -> QValues:
        """Return the Q-values, float32 [B, A], of `states` uint8 [B, S, H, W], with fresh noise for each."""
        noise = self._noise.draw("acting", len(states))
        qvalues: Tensor = self._network(self._place.floats(states), noise)
        return cast(QValues, qvalues.float().numpy())
