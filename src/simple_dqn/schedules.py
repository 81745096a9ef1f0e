"""The schedules: when the agent acts, stores and learns.

Each is a class with two loops, `fill` and `train`. They are generators: after each round they yield the
number of steps made since the last time, over all games. That is a safe point: no other thread writes, so the
caller can make a checkpoint, or end the loop.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from simple_dqn.machine import usable_cores

if TYPE_CHECKING:
    from simple_dqn.agent import Agent
    from simple_dqn.dqn import PreparedBatch
    from simple_dqn.types import Actions, CheckpointState, Step

MINIBATCHES_AHEAD = 3  # how many minibatches the sampler prepares before the trainer needs them
SAFE_POINT_STEPS = 256  # steps over all games between two safe points of the overlapped schedule


class SerialSchedule:
    """Acts, stores and learns in turn, in one thread; the other schedules replace its methods."""

    def start(self, agent: Agent) -> None:
        """Start a new episode in every game."""
        agent.memory.add(agent.player.start())

    def fill(self, agent: Agent, steps: int, exploration_rate: float | None = None) -> Iterator[int]:
        """Act and store for `steps` steps over all games, rounded up to whole steps of all; learn nothing.

        `exploration_rate` is ε; None: that of each game in training.
        """
        for _ in range(0, steps, agent.games):
            rates = agent.exploration_rates() if exploration_rate is None else exploration_rate
            step = agent.execute(agent.player.choose(rates), float(np.mean(rates)))
            agent.memory.add(step)
            yield agent.games

    def train(self, agent: Agent, steps: int) -> Iterator[int]:
        """Train for `steps` steps over all games: the loop of Mnih et al. (2015), Algorithm 1."""
        for _ in range(0, steps, agent.games):
            rates = agent.exploration_rates()  # ε of each game
            actions = agent.player.choose(rates)  # with probability ε random, otherwise argmax_a Q(s, a; θ)
            step = agent.execute(actions)  # the rewards r and the next screens
            agent.memory.add(step)  # the transition (s, a, r, s') goes into the replay memory D
            agent.learn(agent.games)  # every train_frequency steps an update, every target_steps θ⁻ = θ
            yield agent.games

    def report(self) -> dict[str, float | None]:
        """Return the values of additional CSV columns by name; there are none."""
        return {}

    def get_state(self) -> CheckpointState:
        """Return the state for a checkpoint; there is none."""
        return {}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned."""

    def close(self) -> None:
        """Release what the schedule holds, which is nothing."""


class RolloutSchedule(SerialSchedule):
    """PQN: play a rollout, learn from it, forget it (Gallici et al. 2024, Algorithm 1).

    It plays T = `rollout_steps` steps of each game, then makes the updates that are due, from these alone.
    There is no replay memory and no target network: the targets are λ-returns, by the weights that played the
    rollout. Each step is used about B · `train_repeat` / `train_frequency` times, in minibatches of B.
    """

    def train(self, agent: Agent, steps: int) -> Iterator[int]:
        """Train for `steps` steps over all games, in whole rollouts."""
        network, length = agent.network, agent.memory.rollout_steps
        count = length * agent.games
        for _ in range(0, steps, count):
            values = []  # max_a Q(s, a) of each state
            for t in range(length):
                qvalues = network.predict(agent.player.states, explore=True, keep=(t, length))
                actions = agent.player.choose(agent.exploration_rates(), qvalues)
                agent.memory.add(agent.execute(actions))
                values.append(qvalues.max(axis=1))
            values.append(agent.player.predict().max(axis=1))
            returns = network.returns(*agent.memory.rollout(), np.stack(values))
            updates = agent.updates_due(count)
            for minibatch in agent.memory.sample_rollout(updates, agent.batch_size, returns):
                agent.learn_from(network.prepare_rollout(*minibatch))
            yield count


class ConcurrentSchedule(SerialSchedule):
    """Acts and learns at the same time (Daley & Amato, 2021, "fast-dqn").

    Training is cut into periods of `target_steps` steps. At the start of each, the target network becomes a
    copy of the online network. Then three threads run side by side:

    - the actor plays the steps of the period ε-greedily with the *target* network, into a private buffer;
    - the sampler draws minibatches from the replay memory, which does not change meanwhile, and computes
      their targets with the target network, a few minibatches ahead of
    - the trainer, the calling thread, which updates the online network.

    At the end of the period they wait for each other. Then the memory receives the TD errors of the updates
    and the steps of the actor. No thread writes what another reads, so the result is the same, bit for bit,
    as when the three run one after the other.
    """

    def train(self, agent: Agent, steps: int) -> Iterator[int]:
        """Train for `steps` steps, a multiple of `target_steps`, with a safe point after each period."""
        with (
            ThreadPoolExecutor(1, "actor", agent.network.use_one_thread) as actor,
            ThreadPoolExecutor(1, "sampler", agent.network.use_one_thread) as sampler,
        ):
            for _ in range(0, steps, agent.config.target_steps):
                agent.network.update_target_network()
                failed, steps_before = threading.Event(), agent.total_train_steps
                acting = actor.submit(play_period, agent, failed.is_set)
                try:
                    learn_period(agent, sampler, steps_before, acting)
                except BaseException:
                    failed.set()  # ends the actor's loop; the executor waits for it
                    raise
                played = acting.result()  # raises the actor's error, if any, before the memory changes
                agent.update_priorities()
                for step in played:
                    agent.memory.add(step)
                yield agent.config.target_steps


def play_period(agent: Agent, stopped: Callable[[], bool]) -> list[Step]:
    """Return the steps of one period, which are not in the replay memory yet."""
    steps = []
    for _ in range(0, agent.config.target_steps, agent.games):
        if stopped():
            break
        steps.append(agent.execute(agent.player.choose(agent.exploration_rates())))
    return steps


def learn_period(agent: Agent, sampler: ThreadPoolExecutor, steps: int, acting: Future[list[Step]]) -> None:
    """Make the updates of the period that began after `steps` training steps; stop if `acting` has failed."""
    updates = agent.config.updates_in(agent.config.target_steps)
    prepared = deque(sampler.submit(agent.prepare, steps) for _ in range(min(MINIBATCHES_AHEAD, updates)))
    for update in range(updates):
        if acting.done() and acting.exception() is not None:
            break
        batch = prepared.popleft().result()
        if update + MINIBATCHES_AHEAD < updates:
            prepared.append(sampler.submit(agent.prepare, steps))
        agent.learn_from(batch)


class OverlappedSchedule(SerialSchedule):
    """The games play on while the network learns, at most one round of all games behind.

    A round is one step of all E games. Two threads share each round:

    - the player executes the round's actions, stores the step, and samples the minibatches of the updates
      that are now due, with their targets;
    - the trainer makes the updates that were due one round before.

    Both wait for each other at the end of a round. Then the memory receives the TD errors, the target network
    is copied if that is due, and the newest weights choose the actions of the next round. So actions, targets
    and priorities are one round of updates behind the serial schedule. No thread writes what the other reads:
    the result is the same whether they overlap or not, bit for bit.
    """

    def train(self, agent: Agent, steps: int) -> Iterator[int]:
        """Train for `steps` steps, in whole rounds; on one core, without a second thread.

        Every `SAFE_POINT_STEPS` steps the last updates are made before the games go on, so that a checkpoint
        has no minibatch in flight.
        """
        rounds, per_safe_point = -(-steps // agent.games), max(1, SAFE_POINT_STEPS // agent.games)
        one_core = usable_cores() == 1
        with ThreadPoolExecutor(1, "player", agent.network.use_one_thread) as player:
            for done in range(0, rounds, per_safe_point):
                some = min(per_safe_point, rounds - done)
                play_rounds(agent, some, None if one_core else player)
                yield some * agent.games


def play_rounds(agent: Agent, rounds: int, player: ThreadPoolExecutor | None) -> None:
    """Make `rounds` rounds with all their updates; without `player` in this thread, the updates first."""
    batches: list[PreparedBatch] = []
    for _ in range(rounds):
        actions = agent.player.choose(agent.exploration_rates())
        play: Callable[..., list[PreparedBatch]] = partial(play_and_prepare, agent, actions)
        if player:
            play = player.submit(play).result  # it plays from now on
        for batch in batches:
            agent.learn_from(batch)
        batches = play()
        agent.update_priorities()
        if agent.due(agent.config.target_steps, agent.games):
            agent.network.update_target_network()
    for batch in batches:
        agent.learn_from(batch)
    agent.update_priorities()


def play_and_prepare(agent: Agent, actions: Actions) -> list[PreparedBatch]:
    """Execute and store the actions of one round, and return the minibatches that are due after it."""
    agent.memory.add(agent.execute(actions))
    return [agent.prepare(agent.total_train_steps) for _ in range(agent.updates_due(agent.games))]
