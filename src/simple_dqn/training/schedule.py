"""How the steps of a run are made: the one thing that differs from one machine to many."""

from collections.abc import Callable
from typing import Protocol

from simple_dqn.agent import Agent
from simple_dqn.training import concurrent, serial
from simple_dqn.training.serial import AtRest


class Schedule(Protocol):
    """Who plays and learns, and in which order."""

    def start(self, agent: Agent) -> None:
        """Start every game anew."""

    def fill(
        self,
        agent: Agent,
        steps: int,
        exploration_rate: float | None,
        stopped: Callable[[], bool],
        at_rest: AtRest = ...,
    ) -> None:
        """Have `steps` steps played without learning; see `serial.fill`."""

    def train(self, agent: Agent, steps: int, stopped: Callable[[], bool], at_rest: AtRest = ...) -> None:
        """Have `steps` steps played, and learn; see `serial.train`."""

    def report(self) -> dict[str, float | None]:
        """Return what the CSV is to have in further columns for the phase that ends."""

    def close(self) -> None:
        """Let go of whoever plays elsewhere."""


class OneMachine:
    """A `Schedule` whose agent plays itself: in turn with learning, or at the same time."""

    def start(self, agent: Agent) -> None:
        """Start every game anew."""
        agent.start()

    def fill(
        self,
        agent: Agent,
        steps: int,
        exploration_rate: float | None,
        stopped: Callable[[], bool],
        at_rest: AtRest = lambda _: None,
    ) -> None:
        """See `serial.fill`."""
        serial.fill(agent, steps, exploration_rate, stopped, at_rest)

    def train(
        self, agent: Agent, steps: int, stopped: Callable[[], bool], at_rest: AtRest = lambda _: None
    ) -> None:
        """See `serial.train` and `concurrent.train`."""
        (concurrent if agent.config.concurrent else serial).train(agent, steps, stopped, at_rest)

    def report(self) -> dict[str, float | None]:
        """Return nothing."""
        return {}

    def close(self) -> None:
        """Do nothing."""
