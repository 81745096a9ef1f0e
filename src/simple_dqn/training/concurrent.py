"""The concurrent schedule: playing and learning at the same time (Daley & Amato, 2021, "fast-dqn").

Time is cut into periods of `target_steps`. At the start of each the target network becomes a copy of
the online network. Then, side by side,

- the actor plays the period's steps ε-greedily by the *target* network, and keeps them to itself;
- the trainer makes the updates due for as many steps, from a memory that holds still.

At the end each waits for the other, and the memory takes in what was played. As neither writes what the
other reads, playing and learning at the same time comes to the same as one after the other, bit for bit.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from simple_dqn.agent import Agent
from simple_dqn.types import Step

ACTOR = "actor"  # name of the thread that plays


def train(agent: Agent, steps: int, stopped: Callable[[], bool]) -> None:
    """Play and learn for `steps` steps over all games, a multiple of `target_steps`.

    Args:
        agent: Who plays by the target network, and learns.
        steps: Steps over all games.
        stopped: Says whether to end early; what was played until then is kept.
    """
    with ThreadPoolExecutor(1, ACTOR, agent.network.use_one_thread) as actor:
        for _ in range(0, steps, agent.config.target_steps):
            if stopped():
                return
            _period(agent, actor, stopped)


def train_in_sequence(agent: Agent, steps: int, stopped: Callable[[], bool]) -> None:
    """Do the same without a second thread: learn, then play. Slower, and plainer to follow."""
    for _ in range(0, steps, agent.config.target_steps):
        agent.network.update_target_network()
        learn(agent, stopped)
        remember(agent, play(agent, stopped))


def _period(agent: Agent, actor: ThreadPoolExecutor, stopped: Callable[[], bool]) -> None:
    agent.network.update_target_network()
    failed = False

    def over() -> bool:
        return failed or stopped()

    playing: Future[list[Step]] = actor.submit(play, agent, over)
    try:
        learn(agent, lambda: over() or _has_failed(playing))
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


def learn(agent: Agent, over: Callable[[], bool]) -> None:
    """Make the updates that are due for a period."""
    for _ in range(agent.config.target_steps // agent.config.train_frequency):
        if over():
            break
        agent.learn()


def remember(agent: Agent, experience: list[Step]) -> None:
    """Let the memory take in a period."""
    for step in experience:
        agent.remember(step)


def _has_failed(playing: Future[list[Step]]) -> bool:
    return playing.done() and playing.exception() is not None
