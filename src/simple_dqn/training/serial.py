"""The serial schedule: act, store and learn in turn, as in Mnih et al. (2015), Algorithm 1."""

from collections.abc import Callable
from typing import TypeAlias

from simple_dqn.agent import Agent

Stopped: TypeAlias = Callable[[], bool]  # returns whether to stop early
# Receives how many steps were made since its last call, over all games. No thread writes meanwhile, so a
# checkpoint can be made.
AtRest: TypeAlias = Callable[[int], None]


class SerialSchedule:
    """Acts, stores and learns in turn, in one thread; the other schedules replace its methods."""

    def start(self, agent: Agent) -> None:
        """Start a new episode in every game."""
        agent.start()

    def fill(
        self,
        agent: Agent,
        steps: int,
        exploration_rate: float | None,
        stopped: Stopped,
        at_rest: AtRest = lambda _: None,
    ) -> None:
        """Fill the replay memory with `steps` steps over all games, in whole steps of all, without learning.

        `exploration_rate` is ε; None: the agent's own. `stopped` is checked before each step of all games,
        and `at_rest` is called after it.
        """
        for _ in range(0, steps, agent.games):
            if stopped():
                return
            rate = agent.exploration_rates if exploration_rate is None else exploration_rate
            agent.store(agent.play(rate))
            at_rest(agent.games)

    def train(self, agent: Agent, steps: int, stopped: Stopped, at_rest: AtRest = lambda _: None) -> None:
        """Train, which is the loop of Algorithm 1; see `fill` for the arguments."""
        for _ in range(0, steps, agent.games):
            if stopped():
                return
            step = agent.act()  # with probability ε a random action, otherwise argmax_a Q(s, a; θ)
            agent.store(step)  # the transition (s, a, r, s') goes into the replay memory D
            agent.learn_due(agent.games)  # every train_frequency steps an update, every target_steps θ⁻ = θ
            at_rest(agent.games)

    def report(self) -> dict[str, float | None]:
        """Return the values of additional CSV columns by name; there are none."""
        return {}

    def close(self) -> None:
        """Release what the schedule holds, which is nothing."""
