"""An agent whose environment and network log what is called, for runs of the loops on tape."""

from typing import Any

import numpy as np

from simple_dqn.agent import Agent, Player
from simple_dqn.config import Config
from simple_dqn.dqn import UpdateOutcome
from simple_dqn.random_streams import stream
from simple_dqn.replay import ReplayMemory
from simple_dqn.schedules import SerialSchedule
from simple_dqn.types import Actions, Ids, Minibatch, QValues, States, Step


class TapedEnvironment:
    """Games that never end and log each step."""

    screen_shape, actions, name, device = (4, 4), 3, "taped", None

    def __init__(self, games: int, tape: list[Any]) -> None:
        self.games, self.tape = games, tape

    def reset(self) -> Step:
        return Step.start(np.zeros((self.games, 4, 4), np.uint8))

    def step(self, actions: Actions) -> Step:
        self.tape.append("step")
        step = Step.start(np.full((self.games, 4, 4), len(self.tape) % 256, np.uint8))
        step.starts[:], step.actions[:] = False, actions
        return step


class TapedNetwork:
    """A network that logs; the errors of an update depend on its number and on the transitions."""

    def __init__(self, tape: list[Any]) -> None:
        self.tape, self.updates = tape, 0
        self.outcomes: list[UpdateOutcome] = []

    def predict(self, states: States, **_whose: bool) -> QValues:
        return np.tile(np.array([0, 2, 1], np.float32), (len(states), 1))

    def use_one_thread(self) -> None:
        pass

    def prepare(self, minibatch: Minibatch) -> Ids:
        return minibatch.numbers

    def update(self, batch: Ids) -> None:
        self.tape.append("update")
        self.updates += 1
        errors = (self.updates + batch % 7).astype(np.float32)
        self.outcomes.append(UpdateOutcome(float(len(batch)), errors, batch))

    def take_outcomes(self) -> list[UpdateOutcome]:
        outcomes, self.outcomes = self.outcomes, []
        return outcomes

    def update_target_network(self) -> None:
        self.tape.append("copy")


class Listener:
    """Keeps the exploration rates and losses of a run."""

    def __init__(self) -> None:
        self.rates, self.losses = list[float](), list[float]()
        self.on_train = self.losses.append

    def on_step(self, _step: Step, exploration_rate: float) -> None:
        self.rates.append(exploration_rate)


def make(
    games: int = 1, memory: dict[str, Any] | None = None, **settings: Any
) -> tuple[Any, list[Any], Listener]:
    """Return an agent that has stored 8 steps of each game, its empty tape, and its listener."""
    tape: list[Any] = []
    listener: Any = Listener()
    environment: Any = TapedEnvironment(games, tape)
    network: Any = TapedNetwork(tape)
    memory_config = Config.from_flags({"replay_size": 500, **(memory or {})}).memory
    remembered = ReplayMemory(memory_config, games, (4, 4), 0.99, stream(0, "sampling"))
    config = Config.from_flags(settings).agent
    player = Player(environment, network.predict, 4, stream(0, "exploration"))
    agent = Agent(player, remembered, network, config, 8, listener)
    schedule = SerialSchedule()
    schedule.start(agent)
    list(schedule.fill(agent, 8 * games, 1.0))
    tape.clear()
    listener.rates.clear()
    return agent, tape, listener
