"""The concurrent schedule: act and learn at the same time (Daley & Amato, 2021, "fast-dqn").

Training is cut into periods of `target_steps` steps. At the start of each, the target network becomes a copy
of the online network. Then three threads run side by side:

- the actor plays the steps of the period ε-greedily with the *target* network, into a private buffer;
- the sampler draws minibatches from the replay memory, which does not change meanwhile, and computes their
  targets with the target network, a few minibatches ahead of
- the trainer, which updates the online network.

At the end of the period they wait for each other. Then the memory receives the TD errors of the updates and
the steps of the actor. No thread writes what another reads, so the result is the same, bit for bit, as when
the three run one after the other. The trainer is the calling thread; on the CPU it uses all cores but one,
which the actor and the sampler share.
"""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from simple_dqn.agent import Agent
from simple_dqn.training.serial import AtRest, SerialSchedule, Stopped
from simple_dqn.types import Step

if TYPE_CHECKING:
    from simple_dqn.deepqnetwork import PreparedBatch

MINIBATCHES_AHEAD = 3  # how many minibatches the sampler prepares before the trainer needs them


class ConcurrentSchedule(SerialSchedule):
    """Acts, samples and learns in three threads; fills the memory as `SerialSchedule` does."""

    def train(self, agent: Agent, steps: int, stopped: Stopped, at_rest: AtRest = lambda _: None) -> None:
        """Train for `steps` steps, a multiple of `target_steps`.

        After each period `at_rest` is called and `stopped` is checked.
        """
        with (
            ThreadPoolExecutor(1, "actor", agent.network.use_one_thread) as actor,
            ThreadPoolExecutor(1, "sampler", agent.network.use_one_thread) as sampler,
        ):
            for _ in range(0, steps, agent.config.target_steps):
                if stopped():
                    return
                _train_one_period(agent, actor, sampler)
                at_rest(agent.config.target_steps)


def _train_one_period(agent: Agent, actor: ThreadPoolExecutor, sampler: ThreadPoolExecutor) -> None:
    agent.network.update_target_network()
    failed, steps_before = False, agent.total_train_steps
    acting: Future[list[Step]] = actor.submit(act, agent, lambda: failed)
    try:
        learn(agent, sampler, steps_before, lambda: _has_failed(acting))
    except BaseException:
        failed = True  # Ends the actor's loop; the executor waits for it.
        raise
    with agent.profiler.section("wait"):
        steps = acting.result()
    store(agent, steps)


def act(agent: Agent, stopped: Stopped) -> list[Step]:
    """Return the steps of one period, which are not in the replay memory yet."""
    steps = []
    for _ in range(0, agent.config.target_steps, agent.games):
        if stopped():
            break
        steps.append(agent.act())
    return steps


def learn(agent: Agent, sampler: ThreadPoolExecutor, steps: int, stopped: Stopped) -> None:
    """Make the updates of one period, which begins after `steps` training steps.

    The thread `sampler` prepares the minibatches. `stopped` is checked before each update.
    """
    updates = updates_due(agent)
    prepared = deque(sampler.submit(agent.prepare, steps) for _ in range(min(MINIBATCHES_AHEAD, updates)))
    try:
        for update in range(updates):
            if stopped():
                break
            with agent.profiler.section("wait"):
                batch = prepared.popleft().result()
            if update + MINIBATCHES_AHEAD < updates:
                prepared.append(sampler.submit(agent.prepare, steps))
            agent.update(batch)
    finally:
        _stop_sampling(prepared)


def updates_due(agent: Agent) -> int:
    """Return the number of updates in one period."""
    return agent.config.updates_in(agent.config.target_steps)


def store(agent: Agent, steps: list[Step]) -> None:
    """Give the replay memory the TD errors of a period's updates, then its steps."""
    agent.update_priorities()
    for step in steps:
        agent.store(step)


def _has_failed(acting: Future[list[Step]]) -> bool:
    return acting.done() and acting.exception() is not None


def _stop_sampling(prepared: "deque[Future[PreparedBatch]]") -> None:
    """Cancel the remaining minibatches, and wait for the one in progress: the memory changes next."""
    for future in prepared:
        if not future.cancel():
            future.exception()  # waits for its end
