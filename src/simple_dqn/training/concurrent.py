"""The concurrent schedule: playing and learning at the same time (Daley & Amato, 2021, "fast-dqn").

Time is cut into periods of `target_steps`. At the start of each the target network becomes a copy of
the online network. Then, side by side,

- the actor plays the period's steps ε-greedily by the *target* network, and keeps them to itself;
- the sampler draws minibatches from a memory that holds still, and values them by the target network,
  a few ahead of
- the trainer, which updates the online network from them.

At the end all wait for each other, and the memory takes in what was learnt of its transitions' priorities,
then what was played. As none writes what another reads, all at the same time comes to the same as one after
the other, bit for bit. The trainer is the thread that calls; on the CPU it has all cores but one, which the
other two share.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from simple_dqn.agent import Agent
from simple_dqn.training.serial import AtRest
from simple_dqn.types import Step

if TYPE_CHECKING:
    from simple_dqn.deepqnetwork import PreparedBatch

AHEAD = 3  # minibatches that the sampler is ahead of the trainer


def train(agent: Agent, steps: int, stopped: Callable[[], bool], at_rest: AtRest = lambda _: None) -> None:
    """Play and learn for `steps` steps over all games, a multiple of `target_steps`.

    Args:
        agent: Who plays by the target network, and learns.
        steps: Steps over all games.
        stopped: Says whether to end early; what was played until then is kept.
        at_rest: Is called after every period.
    """
    with (
        ThreadPoolExecutor(1, "actor", agent.network.use_one_thread) as actor,
        ThreadPoolExecutor(1, "sampler", agent.network.use_one_thread) as sampler,
    ):
        for _ in range(0, steps, agent.config.target_steps):
            if stopped():
                return
            _period(agent, actor, sampler, stopped)
            at_rest(agent.config.target_steps)


def train_in_sequence(
    agent: Agent, steps: int, stopped: Callable[[], bool], at_rest: AtRest = lambda _: None
) -> None:
    """Do the same without other threads: learn, then play. Slower, and plainer to follow."""
    for _ in range(0, steps, agent.config.target_steps):
        agent.network.update_target_network()
        steps_before = agent.total_train_steps
        for _ in range(updates_due(agent)):
            if not stopped():
                agent.update(agent.prepare(steps_before))
        remember(agent, play(agent, stopped))
        at_rest(agent.config.target_steps)


def _period(
    agent: Agent, actor: ThreadPoolExecutor, sampler: ThreadPoolExecutor, stopped: Callable[[], bool]
) -> None:
    agent.network.update_target_network()
    failed, steps_before = False, agent.total_train_steps

    def over() -> bool:
        return failed or stopped()

    playing: Future[list[Step]] = actor.submit(play, agent, over)
    try:
        learn(agent, sampler, steps_before, lambda: over() or _has_failed(playing))
    except BaseException:
        failed = True  # Lets the actor go, for whose end the executor waits.
        raise
    with agent.ledger.section("wait"):
        experience = playing.result()
    remember(agent, experience)


def play(agent: Agent, over: Callable[[], bool]) -> list[Step]:
    """Play a period, and return it step by step; the memory does not see it yet."""
    experience = []
    for _ in range(0, agent.config.target_steps, agent.games):
        if over():
            break
        experience.append(agent.play_to_learn())
    return experience


def learn(agent: Agent, sampler: ThreadPoolExecutor, steps: int, over: Callable[[], bool]) -> None:
    """Make the updates that are due for a period, from minibatches that `sampler` prepares.

    Args:
        agent: Who learns.
        sampler: The thread that prepares.
        steps: Steps of training before the period: those of the agent grow meanwhile.
        over: Says whether to end early.
    """
    updates = updates_due(agent)
    prepared = deque(sampler.submit(agent.prepare, steps) for _ in range(min(AHEAD, updates)))
    try:
        for update in range(updates):
            if over():
                break
            with agent.ledger.section("wait"):
                batch = prepared.popleft().result()
            if update + AHEAD < updates:
                prepared.append(sampler.submit(agent.prepare, steps))
            agent.update(batch)
    finally:
        _let_go(prepared)


def updates_due(agent: Agent) -> int:
    """Return how many updates a period is worth."""
    return agent.config.target_steps // agent.config.train_frequency * agent.config.train_repeat


def remember(agent: Agent, experience: list[Step]) -> None:
    """Let the memory take in a period: what it taught of what was there before, then what was played."""
    agent.tell_errors()
    for step in experience:
        agent.remember(step)


def _has_failed(playing: Future[list[Step]]) -> bool:
    return playing.done() and playing.exception() is not None


def _let_go(prepared: "deque[Future[PreparedBatch]]") -> None:
    """See to it that nothing is sampled any more: the memory is about to change."""
    for future in prepared:
        if not future.cancel():
            future.exception()  # Waits for its end.
