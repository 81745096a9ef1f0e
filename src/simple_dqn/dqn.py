"""Deep Q-learning (Mnih et al. 2015, "Human-level control through deep reinforcement learning", Algorithm 1).

The targets, the loss and the step are next to each other here, as in `examples/dqn.py`.
"""

import copy
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from simple_dqn.config import BackendConfig, NetworkConfig
from simple_dqn.device import choose_device, take, use_threads
from simple_dqn.errors import UserError
from simple_dqn.guided import GuidedBackpropagation
from simple_dqn.machine import gigabytes
from simple_dqn.networks import NATURE, Network, NetworkSpec, build, copy_arrays, write_tensors
from simple_dqn.optimizers import AVERAGE_EVERY, MasterWeights, WeightAverage, check_fit, learning_rate_share
from simple_dqn.types import Actions, CheckpointState, Floats, Ids, Indices, Mask, Minibatch, QValues, States
from simple_dqn.value_heads import ImplicitHead

logger = logging.getLogger(__name__)

RATES = 100  # different learning rates while annealing on a GPU, because each needs a new graph


class Transitions(NamedTuple):
    """The arguments of a target rule: B transitions, on the network's device."""

    prestates: Tensor  # s, floats [B, S, H, W], as `Device.floats` returns them
    actions: Tensor  # a, int64 [B, 1]
    rewards: Tensor  # r, floats [B, 1, 1]: the discounted sum of the clipped rewards of n steps
    poststates: Tensor  # s', like the prestates
    discounts: Tensor  # γ (1 - terminal), or γ^m (1 - terminal) after m steps, floats [B, 1, 1]


def max_targets(target: Network, _config: NetworkConfig, transitions: Transitions, noise: Tensor) -> Tensor:
    """Return y = r + γ (1 - terminal) z(s', argmax_a' Q(s', a'; θ⁻); θ⁻) [B, 1, N] (equation 2).

    The N numbers z represent an action's return; see `ValueHead`. For DQN itself z is Q, and y is
    r + γ (1 - terminal) max_a' Q(s', a'; θ⁻).
    """
    z = target.outputs(transitions.poststates, noise)
    best = target.value_head.qvalues(z).argmax(1, keepdim=True)
    return target.value_head.bellman(transitions.rewards, transitions.discounts, of_actions(z, best))


def descend(
    online: Network, optimizer: MasterWeights, prestates: Tensor, actions: Tensor, targets: Tensor,
    weights: Tensor, noise: Tensor,
) -> Tensor:  # fmt: skip
    """Make one step down the gradient of the loss between y and Q(s, a; θ); return loss and errors [1 + B].

    Shapes are those of `PreparedBatch`, with one target for each transition; the noise is [1 or B, K]. The
    loss is the weighted mean over the transitions; `ValueHead.losses` defines their errors, |δ| for DQN.
    """
    q = of_actions(online.outputs(prestates, noise, learning=True), actions)
    losses, errors = online.value_head.losses(q.squeeze(1), targets.squeeze(1), noise)
    loss = losses.dot(weights / len(weights))
    online.zero_grad()
    torch.autograd.backward(optimizer.scale(loss))
    optimizer.step()
    return torch.cat((loss.detach().unsqueeze(0), errors))


def of_actions(outputs: Tensor, actions: Tensor) -> Tensor:
    """Return those of the `outputs` [B, A, N] that belong to `actions` int64 [B, 1]: [B, 1, N]."""
    return outputs.gather(1, actions.unsqueeze(2).expand(-1, -1, outputs.shape[2]))


def double_targets(
    target: Network, _config: NetworkConfig, transitions: Transitions, noise: Tensor
) -> Tensor:
    """Return y = r + γ z(s', a'; θ⁻) [B, A, N] for each a'.

    `DeepQNetwork.update` then takes argmax_a' Q(s', a'; θ) (van Hasselt et al. 2016, equation 4): other
    updates may change the online network θ between the two.
    """
    z = target.outputs(transitions.poststates, noise)
    return target.value_head.bellman(transitions.rewards, transitions.discounts, z)


def munchausen_targets(
    target: Network, config: NetworkConfig, transitions: Transitions, noise: Tensor
) -> Tensor:
    """Return the y [B, 1, N] of Munchausen reinforcement learning (Vieillard et al. 2020, equation 1).

    y = r + α [τ ln π(a|s)]_l₀^0 + γ Σ_a' π(a'|s') (z(s', a'; θ⁻) - τ ln π(a'|s')) with π = softmax(Q / τ) of
    the target network, and the N numbers z in place of Q, as in their M-IQN. Only the first of n steps has
    the added reward: by now the policy might choose other actions in the later steps.
    """
    tau, head = config.munchausen_tau, target.value_head
    both = torch.cat((transitions.prestates, transitions.poststates))
    noise = noise if len(noise) == 1 else torch.cat((noise, noise))
    before, after = target.outputs(both, noise).chunk(2)
    log_policy = tau * functional.log_softmax(head.qvalues(before) / tau, 1)  # τ ln π(·|s) [B, A]
    next_log_policy = tau * functional.log_softmax(head.qvalues(after) / tau, 1)
    bonus = config.munchausen_alpha * log_policy.gather(1, transitions.actions).clamp(config.munchausen_floor)
    policy = (next_log_policy / tau).exp().unsqueeze(2)
    z = (policy * (after - next_log_policy.unsqueeze(2))).sum(1, keepdim=True)
    return head.bellman(transitions.rewards + bonus.unsqueeze(2), transitions.discounts, z)


def lambda_returns(
    rewards: Floats, terminals: Mask, starts: Mask, values: Floats, discount_rate: float, trace_decay: float
) -> Floats:
    """Return the λ-returns float32 [T, E] of T steps of E games, which are the targets of PQN.

    G_t = r_t + γ ((1 - λ) V_t+1 + λ G_t+1), and G_t = r_t where the episode ends. At the end of the rollout,
    and where a time limit ended the game, G_t+1 = V_t+1 (Peng & Williams 1996; Gallici et al. 2024). The
    clipped `rewards` r are float32 [T, E], `terminals` and `starts` bool [T, E] as in `Step`, and the
    `values` V = max_a Q(s, a) of all states float32 [T + 1, E]; γ is `discount_rate`, λ `trace_decay`.
    """
    returns, after = np.empty_like(rewards), values[-1]
    for t in reversed(range(len(rewards))):
        following = (1 - trace_decay) * values[t + 1] + trace_decay * after
        after = rewards[t] + discount_rate * following * ~terminals[t]
        after = returns[t] = np.where(starts[t], values[t], after)
    return returns


# (target network, settings, transitions, noise [1 or B, K]) -> y [B, 1, N] or [B, A, N]
TargetRule: TypeAlias = Callable[[Network, NetworkConfig, Transitions, Tensor], Tensor]

TARGET_RULES: dict[str, TargetRule] = {
    "max": max_targets,
    "double": double_targets,
    "munchausen": munchausen_targets,
}


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """A minibatch with its targets, on the network's device."""

    prestates: Tensor  # s, floats [B, S, H, W], as `Device.floats` returns them
    actions: Tensor  # a, int64 [B, 1]
    targets: Tensor  # y, floats [B, 1, N]; or [B, A, N], one for each next action
    weights: Tensor  # floats [B], importance-sampling weights
    numbers: Ids  # [B], the transitions' numbers in the replay memory, on the host
    poststates: Tensor | None = None  # s', where the next action is yet to be chosen


@dataclass(frozen=True, slots=True)
class UpdateOutcome:
    """The result of one update from B transitions."""

    loss: float  # the mean over the transitions
    errors: Floats  # [B], ≥ 0: |δ|, or as `ValueHead.losses` defines the error
    numbers: Ids  # [B], the transitions' numbers in the replay memory


class DeepQNetwork:
    """Predicts the Q-value of each action in a state, and learns from transitions.

    The online network θ predicts and learns; the target network θ⁻, an older copy, values the next states.
    An update has two parts, which two threads may do at the same time: `prepare` reads only θ⁻, and `update`
    uses only θ. Both call functions of tensors whose control flow does not depend on values, so that a GPU
    can capture them as CUDA graphs. Letters in shapes are those of `simple_dqn.types`.
    """

    def __init__(
        self, actions: int, history_length: int, screen_shape: tuple[int, ...], network: NetworkConfig,
        backend: BackendConfig, rng: np.random.Generator, *, use_target_network: bool = True,
        spec: NetworkSpec = NATURE, spare_cores: int = 0, initialize: bool = True,
    ) -> None:  # fmt: skip
        """Build a network with A = `actions` outputs, for states of S = `history_length` screens.

        Weights and noise come from `rng` alone; without `initialize` the weights of a snapshot must follow.
        `spec` lists the hidden layers. Without `use_target_network` the online network values the next states
        too. `spare_cores` are left to other threads, unless `backend` says how many threads to use.

        Raises:
            UserError: The GPU does not exist, or the network cannot be built; see `build`.
        """
        self._config, self._rule = network, TARGET_RULES[network.target_rule]
        self._screen_shape, self._actions = screen_shape, actions
        self.device = device = choose_device(backend)  # on which it computes
        self.updates = 0  # so far
        self.threads = use_threads(backend.threads, device, spare_cores)  # of the CPU
        draw = rng if initialize else None
        self._online = build(spec, actions, history_length, screen_shape, network, draw, device.wide)
        device.move(self._online.eval())
        self._floats = partial(device.floats, block=self._online.block)
        self._master = MasterWeights(self._online, device.hidden, network, device.loss_scaling)
        self._target = self._online
        if use_target_network:
            self._target = copy.deepcopy(self._online).requires_grad_(False)
        span, weights = network.average_updates, self._master.tensors()
        self._average = WeightAverage(self._online, weights, span) if span else None
        threads = ("acting", "targets", "updates") if self._online.noise_size else ()
        self._streams = dict(zip(threads, rng.spawn(len(threads)), strict=True))  # of noise, one per thread
        self._no_noise = device.tensor(np.empty((1, 0)))
        self._rollout: Tensor | None = None  # its states, floats [T · E, S, H, W]
        self._results: list[tuple[Tensor, Ids]] = []  # of updates, still on the device
        self._set_up_graphs()

    @torch.inference_mode()
    def predict(
        self, states: States, *, explore: bool = False, target: bool = False, average: bool = False,
        keep: tuple[int, int] | None = None,
    ) -> QValues:  # fmt: skip
        """Return the Q-values of `states` uint8 [B, S, H, W]: a new array, float32 [B, A].

        `explore` draws fresh noise for each state, if the network has noisy layers. `target` uses the target
        network, and `average` the mean of the online network's weights, if there is one. `keep` = (t, T) says
        that these are the states of step t of a rollout of T steps, and keeps them for `prepare_rollout`.
        Another thread, after `use_one_thread`, may predict by the target network during `update`, but not
        during `update_target_network`.
        """
        network = self._target if target else self._online
        network = self._average.network if average and self._average else network
        assert not target or network is not self._online, "there is no target network"
        inputs = [self._keep_states(states, *keep) if keep else self._floats(states)]
        if explore:
            inputs.append(self._draw_noise("acting", len(states)))
        qvalues = self._forward[network](*inputs)  # network(*inputs), on a GPU as one graph
        return cast(QValues, qvalues.float().cpu().numpy())

    def _keep_states(self, states: States, step: int, steps: int) -> Tensor:
        """Return `states` as floats, stored as step `step` of a rollout of `steps` steps."""
        count = len(states)
        if self._rollout is None:
            floats = self._floats(states)
            if (needed := steps * floats.nbytes) > (spare := self.device.spare_memory()):
                raise UserError(
                    f"the states of --rollout_steps {steps} need {gigabytes(needed)} of memory and there is "
                    f"room for {gigabytes(spare)}: lower --rollout_steps or --workers"
                )
            self._rollout = torch.cat(steps * [floats])
        return self._floats(states, out=self._rollout[step * count : (step + 1) * count])

    def prepare_rollout(self, places: Indices, actions: Actions, returns: Floats) -> PreparedBatch:
        """Return the minibatch [B] of `sample_rollout`, with states that `predict` kept and y = `returns`."""
        assert self._rollout is not None, "no states were kept"
        tensor = self.device.tensor
        targets = tensor(returns).to(self.device.wide)[:, None, None]
        prestates = take(self._rollout, tensor(places))
        weights = torch.ones_like(targets[:, 0, 0])
        return PreparedBatch(prestates, tensor(actions).unsqueeze(1), targets, weights, places)

    def prepare(self, minibatch: Minibatch) -> PreparedBatch:
        """Return `minibatch` with its targets y, on the device; its states are copied.

        If there is a target network, another thread may call this while `update` runs.
        """
        config, tensor, wide = self._config, self.device.tensor, self.device.wide
        actions, weights = tensor(minibatch.actions).unsqueeze(1), tensor(minibatch.weights).to(wide)
        prestates = self._floats(minibatch.prestates)
        # r = Σ_k γ^k r_k over n steps (Sutton 1988), which is the reward itself for n = 1.
        steps = minibatch.rewards.T.astype(np.float64 if wide == torch.float64 else np.float32)
        *earlier, reward = steps.clip(config.min_reward, config.max_reward)
        for one in reversed(earlier):
            reward = one + config.discount_rate * reward
        discounts = minibatch.discounts * ~minibatch.terminals
        poststates = self._floats(minibatch.poststates)
        rewards, factors = (tensor(values[:, None, None]) for values in (reward, discounts))
        noise = self._draw_noise("targets", len(actions))
        targets = self._targets(prestates, actions, rewards, poststates, factors, noise)
        undecided = poststates if targets.shape[1] > 1 else None
        return PreparedBatch(prestates, actions, targets, weights, minibatch.numbers, undecided)

    def update(self, batch: PreparedBatch) -> None:
        """Make one update from `batch`; a GPU may still be computing it when this returns."""
        targets = batch.targets
        if batch.poststates is not None:
            targets = self._choose(batch.poststates, targets, self._draw_noise("updates", len(targets)))
        noise = self._draw_noise("updates", len(targets))
        if self._config.learning_rate_decay_updates:
            self._anneal()
        result = self._descend(batch.prestates, batch.actions, targets, batch.weights, noise)
        self._results.append((result, batch.numbers))
        self.updates += 1
        if self._average and self.updates % AVERAGE_EVERY == 0:
            self._average.add()

    @torch.no_grad()
    def _compute_targets(self, *tensors: Tensor) -> Tensor:
        """Return the targets y [B, 1, N] or [B, A, N], given the fields of `Transitions` and the noise."""
        *transitions, noise = tensors
        targets: object = self._rule(self._target, self._config, Transitions(*transitions), noise)
        batch, size = len(transitions[0]), self._target.value_head.size
        shape, right = list(getattr(targets, "shape", ())), [[batch, n, size] for n in (1, self._actions)]
        if not isinstance(targets, Tensor) or shape not in right:
            raise UserError(
                f"--target_rule {self._config.target_rule} returned {shape or type(targets).__name__}: "
                f"return targets {right[0]}, or one for each next action {right[1]}"
            )
        return targets

    @torch.no_grad()
    def _choose_action(self, poststates: Tensor, targets: Tensor, noise: Tensor) -> Tensor:
        """Return the y [B, 1, N] of argmax_a' Q(s', a'; θ) of the `targets` [B, A, N] of `double_targets`."""
        return of_actions(targets, self._online(poststates, noise).argmax(1, keepdim=True))

    def _anneal(self) -> None:
        """Set the learning rate of the next update."""
        updates, span = float(self.updates), self._config.learning_rate_decay_updates
        if self.device.captures:
            updates = math.floor(updates / span * RATES) * span / RATES
        changed = self._master.set_learning_rate(learning_rate_share(self._config, updates))
        if changed and self.device.captures:  # the old rate is a constant of the captured graph
            self._descend = self.device.capture(partial(descend, self._online, self._master))

    def _draw_noise(self, stream: str, states: int) -> Tensor:
        """Return fresh noise f(ε) on the device: [states, K] to act and for IQN's fractions, else [1, K]."""
        if not self._streams:
            return self._no_noise
        each = stream == "acting" or isinstance(self._online.value_head, ImplicitHead)
        shape = states if each else 1, self._online.noise_size
        normal = self._streams[stream].standard_normal(shape, np.float32)
        return self.device.tensor(np.copysign(np.sqrt(np.abs(normal)), normal))

    def _set_up_graphs(self) -> None:
        """Create the functions that a GPU captures as graphs: predictions, targets and updates."""
        capture = self.device.capture
        self._targets, self._choose = capture(self._compute_targets), capture(self._choose_action)
        self._descend = capture(partial(descend, self._online, self._master))
        networks = [self._online, self._target, *([self._average.network] if self._average else [])]
        self._forward = {network: capture(network) for network in networks}

    def returns(self, rewards: Floats, terminals: Mask, starts: Mask, values: Floats) -> Floats:
        """Return the targets of the T steps of a rollout, float32 [T, E]; see `lambda_returns`."""
        config = self._config
        clipped = rewards.clip(config.min_reward, config.max_reward)
        return lambda_returns(clipped, terminals, starts, values, config.discount_rate, config.trace_decay)

    def take_outcomes(self) -> list[UpdateOutcome]:
        """Return the outcome of each update since the last call; waits for the last update."""
        results, self._results = self._results, []
        if not results:
            return []
        # All results are copied from the device at once, because each copy waits for the device.
        values = torch.stack([result for result, _ in results]).cpu().numpy()
        return [
            UpdateOutcome(float(one[0]), one[1:].astype(np.float32), numbers)
            for one, (_, numbers) in zip(values, results, strict=True)
        ]

    def update_target_network(self) -> None:
        """Copy the online network to the target network; θ⁻ ← θ."""
        if self._target is not self._online:
            self._target.load_state_dict(self._online.state_dict())

    def use_threads(self) -> None:
        """Compute with this network's threads in the calling thread; building another changes them."""
        if torch.get_num_threads() != self.threads:  # setting them clears oneDNN's cache
            torch.set_num_threads(self.threads)

    @staticmethod
    def use_one_thread() -> None:
        """Compute on one core in the calling thread from now on; other threads keep their number."""
        torch.set_num_threads(1)

    def guided_backpropagation(self) -> GuidedBackpropagation:
        """Return a copy of the network for guided backpropagation or raise UserError if it sees no images."""
        if len(self._screen_shape) != 2:
            raise UserError("saliency needs images, and this agent observes numbers: leave it out")
        height, width = self._screen_shape
        return GuidedBackpropagation(self._online, (height, width), self.device.torch_device)

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
        return {
            "updates": self.updates,
            "online": write_tensors(self._master.tensors()),
            "target": None if self._target is self._online else write_tensors(self._target.tensors()),
            "training": self._master.get_state(),
            "noise": {name: dict(one.bit_generator.state) for name, one in self._streams.items()},
            "average": self._average.get_state() if self._average else None,
        }

    def set_state(self, state: CheckpointState) -> None:
        """Continue from what `get_state` returned, as `checkpoint.check_form` checks it, bit for bit.

        A target network and a mean of the weights that `state` lacks begin with the online network's weights.
        """
        target = state["target"]
        self._master.load(state["online"])
        self._master.set_state(state["training"])
        self.update_target_network()
        if target is not None and self._target is not self._online:
            copy_arrays(target, self._target.tensors())
        if self._average:
            self._average.set_state(state["average"])
        for name, position in state["noise"].items():
            self._streams[name].bit_generator.state = position
        self.updates = state["updates"]
        self._set_up_graphs()  # because the optimizer has new tensors
        if self._config.learning_rate_decay_updates:
            rate = self._config.learning_rate * learning_rate_share(self._config, self.updates)
            logger.info("The learning rate is %g after %d updates", rate, self.updates)
