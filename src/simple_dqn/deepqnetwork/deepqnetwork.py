"""The deep Q-network of Mnih et al. 2015, "Human-level control through deep reinforcement learning".

`update.py` is the algorithm. This class runs it on a device, with its two networks and an optimizer.
"""

import copy
import logging
import math
from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simple_dqn.config import BackendConfig, NetworkConfig
from simple_dqn.deepqnetwork.building import build
from simple_dqn.deepqnetwork.compute.device import DeviceScreens, choose_device, screens_on
from simple_dqn.deepqnetwork.compute.mixed_precision import MasterWeights
from simple_dqn.deepqnetwork.compute.peak import share_of_peak
from simple_dqn.deepqnetwork.compute.threads import use_copying_threads, use_one_thread, use_threads
from simple_dqn.deepqnetwork.guided_backpropagation import GuidedBackpropagation
from simple_dqn.deepqnetwork.networks import NATURE, NetworkSpec
from simple_dqn.deepqnetwork.noisy import Noise
from simple_dqn.deepqnetwork.optimizers import learning_rate_share
from simple_dqn.deepqnetwork.returns import Values, lambda_returns
from simple_dqn.deepqnetwork.update import PreparedBatch, Update, UpdateOutcome, fetch_outcomes
from simple_dqn.deepqnetwork.weight_average import WeightAverage
from simple_dqn.deepqnetwork.weights import check_fit, copy_arrays, floating_tensors, write_tensors
from simple_dqn.types import CheckpointState, Ids, Minibatch, QValues, Rollout, States

logger = logging.getLogger(__name__)

RATES = 100  # learning rates while annealing on a GPU: each needs a new recording


class DeepQNetwork:
    """Predicts the Q-value of each action in a state, and learns from transitions.

    The online network θ predicts and learns. The target network θ⁻, an older copy of it, values the next
    states. Letters in shapes are those of `simple_dqn.types`.
    """

    updates: int  # updates made so far
    datatype: str  # of the hidden layers
    threads: int  # CPU threads that compute it

    def __init__(
        self,
        actions: int,
        history_length: int,
        screen_shape: tuple[int, int],
        network: NetworkConfig,
        backend: BackendConfig,
        rng: np.random.Generator,
        *,
        use_target_network: bool = True,
        spec: NetworkSpec = NATURE,
        spare_cores: int = 0,
    ) -> None:
        """Build a network with A = `actions` outputs, for states of S = `history_length` screens.

        Its initial weights and its noise come from `rng` alone. Without `use_target_network` the online
        network values the next states too. `spec` lists the hidden layers. If the number of CPU threads is
        chosen by measurement, `spare_cores` are left to other threads.

        Raises:
            UserError: The GPU does not exist, or the network cannot be built; see `build`.
        """
        self._config = network
        # The shape of a small minibatch, for measurements of an update.
        self._sample_shape = (min(network.batch_size, 32), history_length, *screen_shape)
        self._device = choose_device(backend)
        self.datatype, precision = self._device.datatype, self._device.precision
        self._online = build(spec, actions, history_length, screen_shape, network, rng, precision.master)
        self._device.move(self._online.eval())
        self._master = MasterWeights(self._online, precision, network)
        self._target = self._online
        if use_target_network:
            self._target = copy.deepcopy(self._online).requires_grad_(False)
        span, weights = network.average_updates, self._master.tensors()
        self._average = WeightAverage(self._online, weights, span) if span else None
        self._noise = Noise(self._online.noise_size, rng)
        self._no_noise = self._device.tensor(np.empty((1, 0), np.float32))
        self._results: list[tuple[Tensor, Ids]] = []  # of updates, still on the device
        self._set_up_graphs()
        self.updates, self.threads = 0, backend.threads
        if self._device.is_cpu:
            kind = (self.datatype, network, spec, self._sample_shape)
            self.threads = use_threads(self.threads, spare_cores, kind, self._dry_run)
        else:
            self.threads = use_copying_threads(self.threads)

    @torch.inference_mode()
    def predict(
        self, states: States, *, explore: bool = False, target: bool = False, average: bool = False
    ) -> QValues:
        """Return the Q-values, float32 [B, A], of `states` uint8 [B, S, H, W]; the array is the caller's.

        `explore` draws fresh noise for each state, if the network has noisy layers. `target` uses the target
        network, and `average` the mean of the online network's weights, if one is kept.
        Another thread may predict by the target network while `update` runs in this one, but not during
        `update_target_network`. That thread should call `use_one_thread` first.
        """
        network = self._target if target else self._online
        network = self._average.network if average and self._average else network
        assert not target or network is not self._online, "there is no target network"
        inputs = [self._device.floats(states)]
        if explore:
            inputs.append(self._draw_noise("acting", len(states)))
        qvalues = self._forward[network](*inputs)  # network(*inputs), on a GPU as one graph
        return cast(QValues, qvalues.float().cpu().numpy())

    def prepare(self, minibatch: Minibatch) -> PreparedBatch:
        """Return `minibatch` with its targets y, on the device; the minibatch's arrays are not kept.

        With a target network another thread may call this while `update` runs in this one.
        """
        tensor, wide = self._device.tensor, self._device.precision.master
        actions, weights = tensor(minibatch.actions).unsqueeze(1), tensor(minibatch.weights).to(wide)
        prestates = self._device.floats(minibatch.prestates)
        if minibatch.returns is not None:
            targets = tensor(minibatch.returns).to(wide)[:, None, None]
            return PreparedBatch(prestates, actions, targets, weights, minibatch.numbers, None)
        rewards, discounts = tensor(minibatch.rewards).to(wide), tensor(minibatch.discounts)
        terminals = tensor(minibatch.terminals)
        poststates = self._device.floats(minibatch.poststates)
        noise = self._draw_noise("targets")
        targets = self._targets(prestates, actions, rewards, poststates, terminals, discounts, noise)
        undecided = poststates if targets.shape[1] > 1 else None
        return PreparedBatch(prestates, actions, targets, weights, minibatch.numbers, undecided)

    def returns(self, rollout: Rollout, values: Values) -> Values:
        """Return the targets of the T steps of `rollout`, float32 [T, E]; see `lambda_returns`.

        `values` are max_a Q(s, a) of the T + 1 states of each game, float32 [T + 1, E].
        """
        config = self._config
        rewards = rollout.rewards.clip(config.min_reward, config.max_reward)
        return lambda_returns(rollout, rewards, values, config.discount_rate, config.trace_decay)

    def update(self, batch: PreparedBatch) -> None:
        """Make one update (Algorithm 1) from `batch`; a GPU may still be computing when this returns."""
        if batch.poststates is None:
            targets = batch.targets.squeeze(1)
        else:
            targets = self._choose(batch.poststates, batch.targets, self._draw_noise("updates"))
        noise = self._draw_noise("updates")
        self._anneal()
        result = self._descend(batch.prestates, batch.actions, targets, batch.weights, noise)
        self._results.append((result, batch.numbers))
        self.updates += 1
        if self._average:
            self._average.after_update(self.updates)

    def take_outcomes(self) -> list[UpdateOutcome]:
        """Return the outcome of each update since the last call; waits for the last update."""
        results, self._results = self._results, []
        return fetch_outcomes(results)

    def update_target_network(self) -> None:
        """Copy the online network to the target network; θ⁻ ← θ."""
        if self._target is not self._online:
            self._target.load_state_dict(self._online.state_dict())

    @staticmethod
    def use_one_thread() -> None:
        """Compute on one core in the calling thread from now on; other threads keep their number."""
        use_one_thread()

    def guided_backpropagation(self) -> GuidedBackpropagation:
        """Return a copy of the online network for guided backpropagation."""
        return GuidedBackpropagation(self._online, self._sample_shape[2:], self._device.torch_device)

    def make_screens(self, rows: int, games: int, screen_shape: tuple[int, int]) -> DeviceScreens | None:
        """Return GPU storage for the replay memory's screens, or None without a GPU with enough memory."""
        return screens_on(self._device.torch_device, rows, games, screen_shape)

    def get_weights(self, average: bool = False) -> dict[str, NDArray[np.float32]]:
        """Return copies of the online network's weights (or their `average`) and running means, by name."""
        tensors = self._average.mean if average and self._average else self._master.tensors()
        return {name: np.asarray(values, np.float32) for name, values in write_tensors(tensors).items()}

    def set_weights(self, weights: Mapping[str, NDArray[np.float32]]) -> None:
        """Copy `weights`, from `get_weights`, to the online network; the target network keeps its own.

        Raises:
            UserError: They are the weights of another network; nothing has changed.
        """
        check_fit(weights, self._master.tensors())
        self._master.load(weights)
        if self._average:
            self._average.restart()

    def get_state(self) -> CheckpointState:
        """Return everything that a resume needs: networks, optimizer, random streams, update count."""
        has_target = self._target is not self._online
        return {
            "updates": self.updates,
            "online": write_tensors(self._master.tensors()),
            "target": write_tensors(floating_tensors(self._target)) if has_target else None,
            "training": self._master.get_state(),
            "noise": self._noise.get_state(),
            "average": self._average.get_state() if self._average else None,
        }

    def set_state(self, state: CheckpointState) -> None:
        """Continue from what `get_state` returned; later updates are the same, bit for bit.

        If `state` has no target network, the target network becomes a copy of the online network.

        Raises:
            UserError: It is the state of another network or optimizer; nothing has changed.
        """
        online, target, training = state["online"], state["target"], state["training"]
        check_fit(online, self._master.tensors())
        if target is not None:
            check_fit(target, floating_tensors(self._target))
        self._master.check_state(training)
        self._master.load(online)
        self._master.set_state(training)
        self.update_target_network()
        if target is not None and self._target is not self._online:
            copy_arrays(target, floating_tensors(self._target))
        if self._average:
            self._average.set_state(state.get("average"))
        self._noise.set_state(state["noise"])
        self.updates = state["updates"]
        self._set_up_graphs()  # because the optimizer has new tensors
        if self._config.learning_rate_decay_updates:
            rate = self._config.learning_rate * learning_rate_share(self._config, self.updates)
            logger.info("The learning rate is %g after %d updates", rate, self.updates)

    def _set_up_graphs(self) -> None:
        """Create the functions that a GPU records as graphs: predictions, targets and updates."""
        self._update = Update(self._online, self._target, self._config, self._master.step)
        self._targets = self._device.record(self._update.targets)
        self._choose = self._device.record(self._update.choose)
        self._descend = self._device.record(self._update.descend)
        networks = [self._online, self._target, *([self._average.network] if self._average else [])]
        self._forward = {network: self._device.record(network) for network in networks}

    def _anneal(self) -> None:
        """Set the learning rate of the next update."""
        updates, span = float(self.updates), self._config.learning_rate_decay_updates
        if self._device.records and span:
            updates = math.floor(updates / span * RATES) * span / RATES
        changed = self._master.scale_learning_rate(learning_rate_share(self._config, updates))
        if changed and self._device.records:  # the old rate is a constant of the recording
            self._descend = self._device.record(self._update.descend)

    def _draw_noise(self, stream: str, count: int = 1) -> Tensor:
        """Return fresh noise [count, K] on the device."""
        return self._device.tensor(self._noise.draw(stream, count)) if self._noise.size else self._no_noise

    def share_of_peak(self, updates: int, seconds: float) -> str:
        """Return a line that compares the arithmetic of `updates` in `seconds` with the machine's peak."""
        minibatches = self._config.batch_size / self._sample_shape[0]
        return share_of_peak(self._device, self._dry_run, updates * minibatches, seconds)

    def _dry_run(self) -> None:
        """Compute the targets and the gradients of an update on black states, without changing anything."""
        states = np.zeros(self._sample_shape, np.uint8)
        noise = torch.zeros((1, self._online.noise_size), device=self._device.torch_device)
        with torch.no_grad():
            self._target.outputs(self._device.floats(states), noise)
        outputs = self._online.outputs(self._device.floats(states), noise)
        torch.autograd.grad(outputs.sum(), list(self._online.parameters()))
