"""Trains this project for a while, in a process of its own, and returns the measurement.

Each measurement starts a new process, `python measurement.py TASK`, because threads and memory left over from
an earlier training would change the speed. TASK is JSON: a key of `MEASURES` and its arguments. The process
prints the outcome as JSON in its last line.
"""

import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, TypeAlias

from common import FailedError
from peers import FILL_STEPS, WARM_UP_STEPS
from profiler import Profiler

from simple_dqn import rules
from simple_dqn.agent import Agent
from simple_dqn.command_line import parser_of_settings
from simple_dqn.config import SETTINGS, Config, Share
from simple_dqn.environment import game_name
from simple_dqn.errors import UserError
from simple_dqn.presets import PRESETS
from simple_dqn.run import device_of_games, make_agent, make_environment, make_network, make_schedule
from simple_dqn.statistics import Statistics

Flags: TypeAlias = dict[str, Any]
Outcome: TypeAlias = dict[str, Any]

DEFAULTS: Flags = {
    "replay_size": 20_000, "target_steps": 800, "random_steps": 0, "train_steps": 0, "backend": "cpu",
    "random_seed": 1,
}  # fmt: skip
LAST_GAMES = 100
REFUSED = 2  # exit code of a process that got bad input
SLACK_SECONDS = 900  # allowed besides the measurement for importing, compiling and filling the memory


def measure(command: Sequence[str], task: Any, seconds: float, gpu: bool = True) -> Outcome:
    """Run `command` with `task` as its last argument, and return the JSON in the last line of its output.

    Args:
        command: A program that measures, without its last argument.
        task: What to measure; passed on as JSON.
        seconds: Duration of the measurement; the process is stopped after `SLACK_SECONDS` more.
        gpu: Whether the process may use a GPU.

    Raises:
        UserError: The program refused the task; the message gives the reason.
        FailedError: It failed, or did not end in time.
    """
    environment = os.environ if gpu else os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    try:
        words, limit = [*command, json.dumps(task)], seconds + SLACK_SECONDS
        done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=limit)
    except subprocess.TimeoutExpired as error:
        raise FailedError(f"no answer in {error.timeout:.0f} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        last = lines[-1].strip() if lines else f"ended with exit code {done.returncode}"
        raise UserError(last) if done.returncode == REFUSED else FailedError(last, done.stderr)
    outcome: Outcome = json.loads(done.stdout.splitlines()[-1])
    return outcome


def train(arguments: Namespace, flags: Flags, name: str = "rate", **limits: float) -> Outcome:
    """Measure a training of this project in a new process.

    Args:
        arguments: The command line: the game, flags of training for all rows, the seconds of a measurement.
        flags: The flags of this row; they replace those of the command line.
        name: A key of `MEASURES`.
        limits: Arguments of that measurement besides the flags; by default the seconds.

    Raises:
        UserError: The flags are not valid.
        FailedError: The training failed.
    """
    flags = {"game": arguments.game, **arguments.flags, **flags}
    limits = limits or {"seconds": arguments.seconds}
    return measure([sys.executable, __file__], [name, {"flags": flags, **limits}], max(limits.values()))


def settings(flags: Flags) -> Config:
    """Return the settings from `flags`, which include the game, and the benchmarks' defaults.

    Raises:
        UserError: A flag, a value or the game does not exist, or the flags contradict each other.
    """
    words = [f"--{name}={value}" for name, value in flags.items() if name != "game"]
    given = parser_of_settings("./train.sh", "").parse(words)
    game = {"game": flags["game"]} | ({"environment": "catch"} if flags["game"] == "catch" else {})
    config = Config.from_flags({**DEFAULTS, **given, **game})
    rules.check(config)
    game_name(config.environment)
    return config


def of_preset(name: str) -> Flags:
    """Return the flags of a preset for a short training: 1,000 in place of each share of a whole one."""
    flags = {name: 1000 if isinstance(value, Share) else value for name, value in PRESETS[name].items()}
    if "rollout_steps" in flags:  # no replay memory, which `DEFAULTS` has
        flags["replay_size"] = SETTINGS["replay_size"]["default"]
    # On a GPU, each new learning rate records the updates again: too often in a short training.
    return {**flags, "train_steps": 0, "learning_rate_decay_updates": 0}


STRONG: Flags = {**of_preset("strong"), "emulator": "warp"}


class LastGames(Statistics):
    """Statistics that also compute the mean score of the last `LAST_GAMES` games."""

    def __init__(self) -> None:
        super().__init__([])
        self._scores_of_last: deque[float] = deque(maxlen=LAST_GAMES)

    @property
    def mean(self) -> float | None:
        """The mean score; None until `LAST_GAMES` games have ended."""
        last = self._scores_of_last
        return sum(last) / LAST_GAMES if len(last) == LAST_GAMES else None

    def on_steps(self, steps: int, scores: Sequence[float], exploration_rate: float) -> None:
        """Count steps, and keep the `scores` of the games that ended in them."""
        super().on_steps(steps, scores, exploration_rate)
        self._scores_of_last.extend(scores)


def new_agent(config: Config, statistics: Statistics, profiler: Profiler | None = None) -> Agent:
    """Return a new agent that reports to `statistics`, and whose parts the `profiler` measures."""
    environment = make_environment(config, training=True, device=device_of_games(config))
    network = make_network(config, environment)
    if profiler:
        profiler.watch(network, environment)
    agent = make_agent(config, environment, network, statistics)
    if profiler:
        profiler.watch(agent.memory)
    return agent


def rate(flags: Flags, seconds: float) -> Outcome:
    """Train for about `seconds`; return the steps/s and the profile."""
    config = settings(flags)
    statistics, profiler = Statistics([]), Profiler()
    agent = new_agent(config, statistics, profiler)
    schedule = make_schedule(config, agent.player.environment, statistics)
    with agent.player.environment:
        schedule.start(agent)
        deque(schedule.fill(agent, FILL_STEPS, 1.0), maxlen=0)
        agent.total_train_steps = config.agent.exploration_decay_steps  # the ε of most of a training
        deque(schedule.train(agent, max(WARM_UP_STEPS, config.agent.target_steps)), maxlen=0)
        start, updates = time.perf_counter(), agent.network.updates
        with profiler.phase("train") as profile:
            for steps in schedule.train(agent, 10**9):
                profile.steps += steps
                if time.perf_counter() - start > seconds:
                    break
    # Steps are counted by updates, because the concurrent actor plays ahead within a target period.
    steps = (agent.network.updates - updates) * config.agent.train_frequency
    return {"rate": steps / profile.wall, "lines": profile.lines()}


def time_to_reward(flags: Flags, reward: float, limit: float) -> Outcome:
    """Train until the mean score of the last games reaches `reward`, for at most `limit` seconds.

    Returns:
        The wall time in seconds, random play included, or None if `reward` was not reached.
    """
    config = settings(flags)
    statistics = LastGames()
    agent = new_agent(config, statistics)
    schedule = make_schedule(config, agent.player.environment, statistics)
    start = time.perf_counter()

    def reached() -> bool:
        return statistics.mean is not None and statistics.mean >= reward

    with agent.player.environment:
        schedule.start(agent)
        for _ in chain(schedule.fill(agent, config.run.random_steps, 1.0), schedule.train(agent, 10**9)):
            if reached() or time.perf_counter() - start > limit:
                break
    return {"seconds": time.perf_counter() - start if reached() else None}


MEASURES: dict[str, Callable[..., Outcome]] = {"rate": rate, "time_to_reward": time_to_reward}


def main(task: str) -> int:
    """Run the measurement `task`, JSON, and return the exit code."""
    name, arguments = json.loads(task)
    try:
        print(json.dumps(MEASURES[name](**arguments)))
    except UserError as error:
        print(error, file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
