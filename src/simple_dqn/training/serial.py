"""The serial schedule: act, store, learn, in turn, as in simple_dqn and Mnih et al. (2015), Algorithm 1."""

from collections.abc import Callable
from typing import TypeAlias

from simple_dqn.agent import Agent

AtRest: TypeAlias = Callable[[int], None]  # is told, while all stands still, how many steps were made


def fill(
    agent: Agent,
    steps: int,
    exploration_rate: float | None,
    stopped: Callable[[], bool],
    at_rest: AtRest = lambda _: None,
) -> None:
    """Play `steps` steps without learning, so that the memory holds something to learn from.

    Args:
        agent: Who plays.
        steps: Steps over all games; whole rounds of all games are played.
        exploration_rate: Share of random actions; None: the agent's own.
        stopped: Says whether to end early.
        at_rest: Is called after every step of all games.
    """
    for _ in range(0, steps, agent.games):
        if stopped():
            return
        agent.remember(agent.play(agent.exploration_rates if exploration_rate is None else exploration_rate))
        at_rest(agent.games)


def train(agent: Agent, steps: int, stopped: Callable[[], bool], at_rest: AtRest = lambda _: None) -> None:
    """Play `steps` steps over all games, and learn every `train_frequency` of them.

    Args:
        agent: Who plays and learns.
        steps: Steps over all games; whole rounds of all games are played.
        stopped: Says whether to end early.
        at_rest: Is called after every step of all games.
    """
    for _ in range(0, steps, agent.games):
        if stopped():
            return
        agent.remember(agent.play_to_learn())
        agent.learn_due(agent.games)
        at_rest(agent.games)
