"""What a cluster costs on one machine: actors through Ray, against the same games in our own processes.

    ./bench.sh cluster --actors 2 --workers 4

Both do the same in turns: play by the network and remember, without learning, and train. Needs the extra
`cluster`. The last columns are the shares of the learner's time in which it stores trajectories (`store`) and
waits for them (`wait`).
"""

import os
import pickle
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields
from typing import Any

import command
from command import positive
from table import machine, print_table

from simple_dqn import rules
from simple_dqn.agent import Agent
from simple_dqn.cluster import RemoteEnvironment, make_cluster_schedule
from simple_dqn.cluster.trajectory import TrajectoryStream
from simple_dqn.config import Config
from simple_dqn.ledger import Ledger
from simple_dqn.snapshot import pack, unpack
from simple_dqn.statistics import Statistics
from simple_dqn.training import Schedule, SerialSchedule
from simple_dqn.types import Experience
from simple_dqn.wiring import make_agent, make_environment, make_network

FILL = 4000  # steps that the memory begins with
SETTINGS: dict[str, Any] = {
    "replay_size": 50_000, "target_steps": 800, "backend": "cpu", "random_seed": 1, "color_averaging": False,
    "exploration_rate_start": 0.1,
}  # fmt: skip


class Contender:
    """A way to have steps played, ready to be measured in rounds."""

    def __init__(self, config: Config, agent: Agent, schedule: Schedule, listener: Statistics) -> None:
        self.agent, self.config, self._schedule = agent, config, schedule
        listener.on_phase_start("train", 1, 0)
        schedule.start(agent)
        schedule.fill(agent, FILL, 1.0, lambda: False)
        self.rates: dict[str, list[float]] = {"play": [], "train": []}

    def round(self, task: str, seconds: float) -> None:
        """Do `task` for so long."""
        act = {"play": self._play, "train": self._train}[task]
        act(time.perf_counter() + seconds / 5)  # what has waited since the last round is not measured
        with self.agent.ledger.phase(task):
            start = time.perf_counter()
            steps = act(start + seconds)
            self.rates[task].append(steps / (time.perf_counter() - start))

    def _play(self, until: float) -> int:
        return self._counted("fill", until)

    def _train(self, until: float) -> int:
        return self._counted("train", until)

    def _counted(self, what: str, until: float) -> int:
        steps = 0

        def at_rest(made: int) -> None:
            nonlocal steps
            steps += made

        def over() -> bool:
            return time.perf_counter() > until

        if what == "fill":
            self._schedule.fill(self.agent, 10**9, None, over, at_rest)
        else:
            self._schedule.train(self.agent, 10**9, over, at_rest)
        return steps


def one_machine(config: Config) -> Contender:
    environment, listener = make_environment(config, training=True), Statistics([])
    agent = make_agent(config, environment, make_network(config, environment), listener, Ledger())
    return Contender(config, agent, SerialSchedule(), listener)


def cluster(config: Config, open_things: ExitStack) -> Contender:
    games, listener = RemoteEnvironment(make_environment(config, training=False)), Statistics([])
    agent = make_agent(config, games, make_network(config, games), listener, Ledger())
    schedule = make_cluster_schedule(config, games, listener)
    open_things.callback(schedule.close)
    return Contender(config, agent, schedule, listener)


def measured_inputs(one: Contender) -> list[tuple[str, str]]:
    """Return what `cluster_plan` asks for, as measured here."""
    agent, memory = one.agent, one.config.memory
    held = agent.memory.contents()
    rows = one.config.cluster.chunk_steps
    steps = rows * agent.games
    trajectory = Experience(*(getattr(held, field.name)[-rows:] for field in fields(Experience)))
    stream = TrajectoryStream(memory.history_length, memory.n_step)
    packed = pack(list(stream.append(trajectory).steps()))
    repeats, start = 20, time.perf_counter()
    for _ in range(repeats):
        for step in stream.append(unpack(packed)).steps():
            agent.memory.add(step)
    ingest = repeats * steps / (time.perf_counter() - start)
    start = time.perf_counter()
    for _ in range(50):
        agent.learn()
    update = (time.perf_counter() - start) / 50
    weights = pickle.dumps(agent.network.get_weights())
    return [
        ("bytes of a step, compressed", f"{len(packed) / steps:.0f}"),
        ("bytes of the weights", f"{len(weights) / 1e6:.2f} MB"),
        ("steps a second that can be taken in", f"{ingest:,.0f}"),
        ("an update", f"{1e3 * update:.1f} ms"),
    ]


def main(words: Sequence[str]) -> None:
    """Print the table.

    Raises:
        UserError: The flags contradict each other, or there is no cluster.
    """
    parser = command.parser("cluster", __doc__)
    add = parser.add_argument
    add("--game", type=command.game, default="pong")
    add("--actors", type=positive(int), default=2)
    add("--workers", type=positive(int), default=4, help="games of an actor")
    add("--seconds", type=positive(float), default=10, help="of a round")
    add("--rounds", type=positive(int), default=5)
    add("--train_frequency", type=positive(int), default=4)
    flags = Namespace(**parser.parse(words))
    base = Config.from_flags({**SETTINGS, "game": flags.game, "train_frequency": flags.train_frequency})
    games = flags.actors * flags.workers
    alone = base.with_flags({"workers": games, "processes": flags.actors})
    spread = base.with_flags({"workers": flags.workers, "actors": flags.actors, "cluster": "local"})
    for config in (alone, spread):
        rules.check(config)
    print(machine(), f"; load {os.getloadavg()[0]:.1f}")
    with ExitStack() as open_things:
        contenders = {"one process, games in processes": one_machine(alone)}
        contenders["actors through Ray"] = cluster(spread, open_things)
        for _ in range(flags.rounds):
            for task in ("play", "train"):
                for contender in contenders.values():
                    contender.round(task, flags.seconds)
        rows = []
        for task in ("play", "train"):
            for name, contender in contenders.items():
                rates = contender.rates[task]
                (shares,) = contender.agent.ledger.books[task].shares().values()
                rows.append(
                    (
                        f"{task}: {name}", f"{statistics.median(rates):,.0f}", f"{min(rates):,.0f}",
                        f"{max(rates):,.0f}", f"{shares.get('store', 0):.1%}", f"{shares.get('wait', 0):.1%}",
                    )
                )  # fmt: skip
        header = ("", "steps/s", "least", "most", "store", "wait")
        print_table(f"{flags.game}, {games} games, in turns", header, rows)
        inputs = measured_inputs(contenders["actors through Ray"])
        print_table("What cluster_plan asks for", ("", "measured"), inputs)


if __name__ == "__main__":
    sys.exit(command.console("cluster", main))
