"""Trains this project for a while in this process: `python ours.py TASK`, prints what came out as JSON.

TASK is JSON too: what to measure, the flags, and what else it takes (see `MEASURES`).
"""

import json
import resource
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing

import numpy as np
from fresh import REFUSED, Flags, Outcome
from peers import FILL_STEPS, WARM_UP_STEPS

from simple_dqn import rules
from simple_dqn.agent import Agent
from simple_dqn.config import Config
from simple_dqn.environment import game_name
from simple_dqn.errors import UserError
from simple_dqn.flags import parser
from simple_dqn.ledger import Ledger
from simple_dqn.statistics import Statistics
from simple_dqn.types import Step
from simple_dqn.wiring import make_agent, make_environment, make_network, make_schedule

DEFAULTS: Flags = {
    "replay_size": 20_000, "target_steps": 800, "random_steps": 0, "train_steps": 0, "backend": "cpu",
    "random_seed": 1,
}  # fmt: skip
LAST_GAMES = 100


def settings(flags: Flags) -> Config:
    """Return all settings, by `flags`, the game among them, and the benchmarks' defaults.

    Raises:
        UserError: There is no such flag, value or game, or the flags contradict each other.
    """
    words = [f"--{name}={value}" for name, value in flags.items() if name != "game"]
    given = parser("./train.sh", "").parse(words)
    place = {"game": flags["game"]} | ({"environment": "catch"} if flags["game"] == "catch" else {})
    config = Config.from_flags({**DEFAULTS, **given, **place})
    rules.check(config)
    game_name(config.environment)
    return config


class LastGames(Statistics):
    """Statistics that also know the mean score of the last `LAST_GAMES` games."""

    def __init__(self) -> None:
        super().__init__([])
        self.mean: float | None = None  # None until so many games were played
        self._games: deque[float] = deque(maxlen=LAST_GAMES)
        self._running = np.zeros(0)  # float64 [E], the scores so far of the games in progress

    def on_step(self, step: Step, exploration_rate: float) -> None:
        """Add the rewards of one step of E games, and keep the scores of those that it ends."""
        super().on_step(step, exploration_rate)
        if len(self._running) == 0:
            self._running = np.zeros(len(step.rewards))
        self._running += step.rewards
        for score in self._running[step.resets].tolist():
            self._games.append(score)
            if len(self._games) == LAST_GAMES:
                self.mean = sum(self._games) / LAST_GAMES
        self._running[step.resets] = 0


def new_agent(config: Config, statistics: Statistics) -> Agent:
    """Return an agent that has seen nothing yet, and tells `statistics` what it does."""
    ledger = Ledger()
    environment = make_environment(config, training=True, ledger=ledger)
    return make_agent(config, environment, make_network(config, environment), statistics, ledger)


def rate(flags: Flags, seconds: float) -> Outcome:
    """Train for about `seconds`; return the steps a second, the ledger's lines and the bytes of memory."""
    config = settings(flags)
    statistics = Statistics([])
    agent = new_agent(config, statistics)
    schedule = make_schedule(config, agent.player.environment, statistics)
    with closing(agent.player.environment):
        agent.start()
        schedule.fill(agent, FILL_STEPS, 1.0, stopped=lambda: False)
        agent.total_train_steps = config.agent.exploration_decay_steps  # the ε of most of a training
        schedule.train(agent, max(WARM_UP_STEPS, config.agent.target_steps), stopped=lambda: False)
        start, updates = time.perf_counter(), agent.network.updates
        with agent.ledger.phase("train"):
            schedule.train(agent, 10**9, stopped=lambda: time.perf_counter() - start > seconds)
    # By the updates, not by the steps played: the concurrent actor runs ahead within a period.
    steps = (agent.network.updates - updates) * config.agent.train_frequency
    return {
        "rate": steps / agent.ledger.books["train"].wall,
        "lines": agent.ledger.lines(),
        "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def time_to_reward(flags: Flags, reward: float, limit: float) -> Outcome:
    """Train until the mean of the last games of training reaches `reward`, or for `limit` seconds.

    Returns:
        The wall seconds since the first game began, random play included; None: it was not reached.
    """
    config = settings(flags)
    statistics = LastGames()
    agent = new_agent(config, statistics)
    schedule = make_schedule(config, agent.player.environment, statistics)
    start = time.perf_counter()

    def reached() -> bool:
        return statistics.mean is not None and statistics.mean >= reward

    def over() -> bool:
        return reached() or time.perf_counter() - start > limit

    with closing(agent.player.environment):
        agent.start()
        schedule.fill(agent, config.run.random_steps, 1.0, over)
        schedule.train(agent, 10**9, over)
    return {"seconds": time.perf_counter() - start if reached() else None}


MEASURES: dict[str, Callable[..., Outcome]] = {"rate": rate, "time_to_reward": time_to_reward}


def main(task: str) -> int:
    """Do `task`, and return the exit code."""
    what, arguments = json.loads(task)
    try:
        print(json.dumps(MEASURES[what](**arguments)))
    except UserError as error:
        print(error, file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
