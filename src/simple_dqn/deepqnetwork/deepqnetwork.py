"""The deep Q-network of Mnih et al. 2015, "Human-level control through deep reinforcement learning"."""

import copy
import logging
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from simple_dqn.config import BackendConfig, NetworkConfig
from simple_dqn.deepqnetwork.backend import (
    CPU,
    choose_datatype,
    choose_device,
    lay_out,
    place,
    set_up,
    tensor,
)
from simple_dqn.deepqnetwork.building import build
from simple_dqn.deepqnetwork.device_screens import DeviceScreens, screens_on
from simple_dqn.deepqnetwork.engines import ENGINES, TorchEngine
from simple_dqn.deepqnetwork.guided_backpropagation import Insight
from simple_dqn.deepqnetwork.learner import Learner
from simple_dqn.deepqnetwork.master_weights import MasterWeights
from simple_dqn.deepqnetwork.networks import NATURE, NetworkSpec
from simple_dqn.deepqnetwork.noisy import Noise
from simple_dqn.deepqnetwork.optimizers import annealed
from simple_dqn.deepqnetwork.outcomes import Outcomes, UpdateOutcome
from simple_dqn.deepqnetwork.targets import PreparedBatch
from simple_dqn.deepqnetwork.tensors import check_fit, copy_arrays, floating_tensors, write_tensors
from simple_dqn.deepqnetwork.threads import use_one_thread, use_threads
from simple_dqn.errors import UserError
from simple_dqn.types import Minibatch, QValues, State, States

logger = logging.getLogger(__name__)


class DeepQNetwork:
    """Predicts the Q-value of each action in a state, and learns to from transitions.

    The online network θ predicts and learns; the target network θ⁻, an older copy of it, values
    the states that follow. Letters in shapes are those of `simple_dqn.types`.
    """

    updates: int  # behind its weights
    datatype: str  # the precision of its hidden layers
    threads: int  # CPU threads that it computes with

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
        """Draw a network from `rng`.

        Args:
            actions: A.
            history_length: Screens in a state, S.
            screen_shape: H and W, in pixels.
            network: How it learns.
            backend: What it runs on.
            rng: The only source of its initial weights.
            use_target_network: False: the online network values the states that follow too.
            spec: Its hidden layers.
            spare_cores: CPU cores that are left to others, such as a thread that acts, where
                `backend` leaves the number of threads to measurement.

        Raises:
            UserError: The screens are too small for the network, there is no such GPU, a batch of one
                is to be normalised, or `backend.engine` cannot be used.
        """
        if network.batch_norm and network.batch_size < 2:
            raise UserError("--batch_norm true cannot normalise over one experience: raise --batch_size")
        self._config = network
        self._screen_shape = screen_shape
        self._device = choose_device(backend)
        set_up(self._device)
        self.datatype = choose_datatype(backend, self._device)
        self._place = place(self._device, self.datatype)
        precision = self._place.precision
        online = build(spec, actions, history_length, screen_shape, network, rng, precision.master)
        self._online = online.to(self._device).eval()
        lay_out(self._online, self._place.layout)
        self._master = MasterWeights(self._online, precision, network)
        self._target = (
            copy.deepcopy(self._online).requires_grad_(False) if use_target_network else self._online
        )
        self._noise = Noise(self._online.noise_size, rng, self._device)
        self._outcomes = Outcomes()
        self._learner = self._new_learner()
        self.updates, self.threads = 0, backend.threads
        if self._device == CPU:
            states = np.zeros((min(network.batch_size, 32), history_length, *screen_shape), np.uint8)
            kind = (self.datatype, network, spec, states.shape)
            self.threads = use_threads(
                backend.threads, spare_cores, kind, lambda: self._gradients_of_nothing(states)
            )
        new_engine, state_shape = ENGINES[backend.engine], (history_length, *screen_shape)
        self._torch = TorchEngine(self._online, self._place)
        self._playing = new_engine(self._online, self._place, state_shape, self.threads)
        self._acting = new_engine(self._target, self._place, state_shape, 1)

    def predict(self, states: States) -> QValues:
        """Return the Q-values, float32 [B, A], of `states` uint8 [B, S, H, W]; the array is the caller's.

        They are what the network holds to be true: noisy layers are still.
        """
        return self._torch.predict(states)

    def predict_to_play(self, states: States) -> QValues:
        """Do the same by the engine of choice, for which the weights had better stand still meanwhile."""
        return self._playing.predict(states)

    def predict_to_explore(self, states: States) -> QValues:
        """Do the same as training acts by it: with fresh noise for each state, if there is any."""
        return self._torch.predict(states, self._noise.draw("acting", len(states)))

    def predict_target(self, states: States) -> QValues:
        """Do the same by the target network and the engine of choice, also with fresh noise.

        Another thread may call it while `train` runs in this one, since both only read the target network;
        but not during `update_target_network`. That thread had better call `use_one_thread` first.
        """
        assert self._target is not self._online, "there is no target network"
        return self._acting.predict(states, self._noise.draw("acting", len(states)))

    @staticmethod
    def use_one_thread() -> None:
        """Compute on one core in the calling thread from now on, and in others as before."""
        use_one_thread()

    def prepare(self, minibatch: Minibatch) -> PreparedBatch:
        """Return `minibatch` as `update` needs it, with its targets y; nothing of the minibatch is kept.

        With a target network another thread may call it while `update` runs in this one; see
        `predict_target`.
        """
        actions, rewards, terminals, discounts, weights = (
            tensor(getattr(minibatch, name), self._device)
            for name in ("actions", "rewards", "terminals", "discounts", "weights")
        )
        actions, wide = actions.unsqueeze(1), self._place.precision.master
        rewards, weights = rewards.to(wide), weights.to(wide)
        prestates = self._place.floats(minibatch.prestates)
        poststates = self._place.floats(minibatch.poststates)
        noise = self._noise.draw("targets")
        targets = self._learner.value(prestates, actions, rewards, poststates, terminals, discounts, noise)
        follows = poststates if self._config.double else None
        return PreparedBatch(prestates, actions, targets, weights, minibatch.numbers, follows)

    def train(self, minibatch: Minibatch) -> float:
        """Make one update from `minibatch`, and return its mean loss."""
        self.update(self.prepare(minibatch))
        return self.take_losses()[-1]

    def update(self, batch: PreparedBatch) -> None:
        """Make one update (Algorithm 1) from `batch`; on a GPU it may go on while this has returned."""
        if batch.poststates is None:
            targets = batch.targets.squeeze(1)
        else:
            targets = self._learner.choose(batch.poststates, batch.targets, self._noise.draw("updates"))
        noise = self._noise.draw("updates")
        self._learner.anneal(self.updates)
        outcome = self._learner.descend(batch.prestates, batch.actions, targets, batch.weights, noise)
        self._outcomes.add(outcome, batch.numbers)
        self._playing.weights_changed()
        self.updates += 1

    def take_outcomes(self) -> list[UpdateOutcome]:
        """Return what came of each update since this was last asked, and wait for the last."""
        return self._outcomes.take()

    def take_losses(self) -> list[float]:
        """Return the loss of each update since this was last asked, and wait for the last."""
        return [outcome.loss for outcome in self.take_outcomes()]

    def update_target_network(self) -> None:
        """Make the target network the same as the online network; θ⁻ ← θ."""
        if self._target is not self._online:
            self._target.load_state_dict(self._online.state_dict())
            self._acting.weights_changed()

    def look_into(self) -> Insight:
        """Return the online network, as it is now, to be looked into."""
        return Insight(self._online, self._screen_shape, self._device)

    def get_weights(self) -> dict[str, NDArray[np.float32]]:
        """Return fresh copies of the online network's weights, and running means, by name."""
        arrays = write_tensors(self._master.tensors())
        return {name: np.asarray(values, np.float32) for name, values in arrays.items()}

    def set_weights(self, weights: Mapping[str, NDArray[np.float32]]) -> None:
        """Make `weights`, from `get_weights`, those of the online network.

        The target network keeps its own until it is updated.

        Raises:
            UserError: They are another network's; nothing has changed then.
        """
        check_fit(weights, self._master.tensors())
        self._master.load(weights)
        self._playing.weights_changed()

    def get_state(self) -> State:
        """Return all that learning goes on from: networks, optimizer, random streams, count of updates."""
        has_target = self._target is not self._online
        return {
            "updates": self.updates,
            "online": write_tensors(self._master.tensors()),
            "target": write_tensors(floating_tensors(self._target)) if has_target else None,
            "training": self._master.get_state(),
            "noise": self._noise.get_state(),
        }

    def set_state(self, state: State) -> None:
        """Go on from what `get_state` returned; the updates that follow are the same, bit for bit.

        Without a target network in `state`, it becomes the same as the online network.

        Raises:
            UserError: It is another network's, or another optimizer's; nothing has changed then.
        """
        online, target, training = state["online"], state["target"], state["training"]
        check_fit(online, self._master.tensors())
        if target is not None:
            check_fit(target, floating_tensors(self._target))
        self._master.check_state(training)
        self._master.load(online)
        self._master.set_state(training)
        self._playing.weights_changed()
        self.update_target_network()  # and the engine that acts by it hears of that
        if target is not None and self._target is not self._online:
            copy_arrays(target, floating_tensors(self._target))
        self._noise.set_state(state["noise"])
        self.updates = state["updates"]
        self._learner = self._new_learner()  # the optimizer's tensors are new ones
        if self._config.learning_rate_decay_updates:  # then --learning_rate alone does not say it
            rate = self._config.learning_rate * annealed(self._config, self.updates)
            logger.info("The learning rate is %g after %d updates", rate, self.updates)

    def make_screens(self, rows: int, games: int, screen_shape: tuple[int, int]) -> DeviceScreens | None:
        """Return room for replay memory's screens on the GPU; None: there is no GPU, or too little room."""
        return screens_on(self._device, rows, games, screen_shape)

    def _gradients_of_nothing(self, states: States) -> None:
        """Do the bulk of an update's work, and leave everything as it is."""
        noise = torch.zeros((1, self._online.noise_size), device=self._device)
        outputs = self._online.outputs(self._place.floats(states), noise)
        torch.autograd.grad(outputs.sum(), list(self._online.parameters()))

    def _new_learner(self) -> Learner:
        # Loss scaling asks the host at each update whether a gradient has overflowed.
        record = self._device != CPU and not self._place.precision.loss_scaling
        return Learner(self._online, self._target, self._master, self._config, record)
