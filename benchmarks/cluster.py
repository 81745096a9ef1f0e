"""Overhead of Ray on one machine: remote actors, compared with the same games in local processes.

    ./bench.sh cluster --actors 2 --workers 4

Both alternate at two tasks: playing and storing without updates, and training. It needs the extra `cluster`.
The last columns are the shares of the learner's time spent on storing trajectories (`store`) and on waiting
for them (`wait`).
"""

import os
import pickle
import statistics
import sys
import time
from argparse import Namespace
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import common
import numpy as np
from common import machine, positive, print_table
from profiler import Profiler

from simple_dqn import rules
from simple_dqn.agent import Agent
from simple_dqn.cluster.actor import TrajectoryStream
from simple_dqn.config import Config
from simple_dqn.replay import ReplayMemory
from simple_dqn.run import make_agent, make_environment, make_network, make_schedule
from simple_dqn.schedules import SerialSchedule
from simple_dqn.snapshot.checkpoint import pack, unpack
from simple_dqn.statistics import Statistics
from simple_dqn.types import Experience, on_host

FILL = 4000  # steps in the memory before the measurement
SETTINGS: dict[str, Any] = {
    "replay_size": 50_000, "target_steps": 800, "backend": "cpu", "random_seed": 1, "color_averaging": False,
    "exploration_rate_start": 0.1,
}  # fmt: skip


class Setup:
    """One of the two rows, with its rates by task."""

    def __init__(self, config: Config, agent: Agent, schedule: SerialSchedule, listener: Statistics) -> None:
        self.agent, self.config, self._schedule = agent, config, schedule
        listener.on_phase_start("train", 1, 0)
        schedule.start(agent)
        deque(schedule.fill(agent, FILL, 1.0), maxlen=0)
        self.profiler = Profiler()
        self.profiler.watch(agent.memory)
        self.rates: dict[str, list[float]] = {"play": [], "train": []}

    def round(self, task: str, seconds: float) -> None:
        """Measure `task`, "play" or "train", for `seconds`."""
        phase = {"play": "fill", "train": "train"}[task]
        self._run(phase, seconds / 5)  # uses up the trajectories that have waited since the last round
        with self.profiler.phase(task):
            start = time.perf_counter()
            steps = self._run(phase, seconds)
            self.rates[task].append(steps / (time.perf_counter() - start))

    def _run(self, phase: str, seconds: float) -> int:
        """Run the schedule for `seconds`, and return the number of steps."""
        steps, until = 0, time.perf_counter() + seconds
        for made in getattr(self._schedule, phase)(self.agent, 10**9):
            steps += made
            if time.perf_counter() > until:
                break
        return steps


def one_machine(config: Config) -> Setup:
    environment, listener = make_environment(config, training=True), Statistics([])
    agent = make_agent(config, environment, make_network(config, environment), listener)
    return Setup(config, agent, SerialSchedule(), listener)


def cluster(config: Config, open_things: ExitStack) -> Setup:
    games, listener = make_environment(config, training=False), Statistics([])
    agent = make_agent(config, games, make_network(config, games), listener)
    schedule: Any = make_schedule(config, games, listener)
    open_things.callback(schedule.close)
    setup = Setup(config, agent, schedule, listener)
    setup.profiler.watch(schedule._pool)
    return setup


def first_rows(memory: ReplayMemory, rows: int) -> Experience:
    """Return the first `rows` rows of the ring of `memory`."""
    ring, screens = memory._ring, memory._screens
    indices = np.arange(rows * ring.games)[:, np.newaxis]
    shown = np.array(on_host(screens.gather(indices, np.zeros((len(indices), 0), np.bool_))))
    shown = shown.reshape(rows, ring.games, *shown.shape[2:])
    flags = ring.terminals[:rows], ring.starts[:rows]
    return Experience(shown, memory._actions[:rows], memory._rewards[:rows], *flags)


def measured_inputs(setup: Setup) -> list[tuple[str, str]]:
    """Return the inputs of `cluster_plan`, measured on this machine."""
    agent, memory = setup.agent, setup.config.memory
    rows = setup.config.cluster.chunk_steps
    steps = rows * agent.games
    trajectory = first_rows(agent.memory, rows)
    stream = TrajectoryStream(memory.history_length, memory.n_step)
    packed = pack(stream.append(trajectory)[0])
    repeats, start = 20, time.perf_counter()
    for _ in range(repeats):
        for step in stream.append(unpack(packed))[0]:
            agent.memory.add(step)
    ingest = repeats * steps / (time.perf_counter() - start)
    start = time.perf_counter()
    for _ in range(50):
        agent.learn(agent.config.train_frequency)
    update = (time.perf_counter() - start) / 50
    weights = pickle.dumps(agent.network.get_weights())
    return [
        ("size of a step, compressed (--step_bytes)", f"{len(packed) / steps:.0f} bytes"),
        ("size of the weights (--weights_mb)", f"{len(weights) / 1e6:.2f} MB"),
        ("steps/s that the learner can store (--ingest_rate)", f"{ingest:,.0f}"),
        ("time per update (--update_ms)", f"{1e3 * update:.1f} ms"),
    ]


def main(words: Sequence[str]) -> None:
    """Print the table, or raise UserError if the flags contradict each other or Ray is not installed."""
    parser = common.parser("cluster", __doc__)
    add = parser.add_argument
    add("--game", type=common.game, default="pong", help="(default: %(default)s)")
    add("--actors", type=positive(int), default=2, help="(default: %(default)s)")
    add("--workers", type=positive(int), default=4, help="games per actor (default: %(default)s)")
    add("--seconds", type=positive(float), default=10, help="per round (default: %(default)s)")
    add("--rounds", type=positive(int), default=5, help="(default: %(default)s)")
    add("--train_frequency", type=positive(int), default=4, help="steps per update (default: %(default)s)")
    flags = Namespace(**parser.parse(words))
    base = Config.from_flags({**SETTINGS, "game": flags.game, "train_frequency": flags.train_frequency})
    games = flags.actors * flags.workers
    alone = base.with_flags({"workers": games, "processes": flags.actors})
    spread = base.with_flags({"workers": flags.workers, "actors": flags.actors, "cluster": "local"})
    for config in (alone, spread):
        rules.check(config)
    print(machine(), f"; load {os.getloadavg()[0]:.1f}")
    with ExitStack() as open_things:
        setups = {"serial schedule, games in processes": one_machine(alone)}
        setups["actors through Ray"] = cluster(spread, open_things)
        for _ in range(flags.rounds):
            for task in ("play", "train"):
                for setup in setups.values():
                    setup.round(task, flags.seconds)
        rows = []
        for task in ("play", "train"):
            for name, setup in setups.items():
                rates = setup.rates[task]
                (shares,) = setup.profiler.phases[task].shares().values()
                rows.append(
                    (
                        f"{task}: {name}", f"{statistics.median(rates):,.0f}", f"{min(rates):,.0f}",
                        f"{max(rates):,.0f}", f"{shares.get('store', 0):.1%}", f"{shares.get('wait', 0):.1%}",
                    )
                )  # fmt: skip
        header = ("", "steps/s", "minimum", "maximum", "store", "wait")
        print_table(f"{flags.game}, {games} games, alternating", header, rows)
        inputs = measured_inputs(setups["actors through Ray"])
        print_table("Inputs of cluster_plan", ("", "measured"), inputs)


if __name__ == "__main__":
    sys.exit(common.console("cluster", main))
