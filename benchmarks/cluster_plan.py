"""Simulates a learner and N actors, and prints their steps/s, idle time, age of the weights and traffic.

    ./bench.sh cluster_plan --step_bytes 87 --actor_rate 1000 --update_ms 8

Each actor plays one trajectory after another, with at most two in flight. The learner stores each, makes the
updates that are due for its steps, and sends new weights every `--weights_every` updates. The flags are
measured figures; their defaults are those of docs/cluster.md. The time to play a trajectory is random.
"""

import heapq
import sys
from argparse import Namespace
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import common
import numpy as np
from common import positive, print_table

IN_FLIGHT = 2  # trajectories per actor, as in `cluster/learner.py`
ACTORS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
# Shares of the learner's time spent on updates, and on storing trajectories and sending weights; of the
# actors' time spent waiting; and mean number of updates between a trajectory's weights and its arrival.
HEADER = ("actors", "steps/s", "updating", "receiving", "actors wait", "age", "MB/s in", "MB/s out")


@dataclass(frozen=True)
class Plan:
    """The measured figures, and the settings."""

    trajectory_bytes: float  # of a trajectory, compressed
    weights_bytes: float  # of a version of the weights
    actor_rate: float  # steps/s of an actor that never waits
    ingest_rate: float  # steps/s that the learner can store if it does nothing else
    update: float  # seconds
    publish: float  # seconds that the learner needs to send weights
    trajectory_steps: int  # over an actor's games
    train_frequency: int  # steps between updates
    weights_every: int  # updates between versions
    actors_a_node: int
    link: float  # bytes/s into the learner's machine, and out of it


@dataclass
class Totals:
    """The sums over the trajectories that count."""

    start: float = 0.0  # time of the first
    busy: float = 0.0  # seconds of updates
    ingest: float = 0.0  # seconds of storing trajectories and sending weights
    idle: float = 0.0  # seconds that all actors waited
    ages: float = 0.0  # updates between the weights that played a trajectory and its arrival
    published: int = 0  # versions of the weights sent
    trajectories: int = 0

    def row(self, plan: Plan, actors: int, end: float) -> list[str]:
        """Return the row of the table, the figures at the time `end`; see `HEADER`."""
        elapsed = end - self.start
        nodes = -(-actors // plan.actors_a_node)
        return [
            str(actors),
            f"{self.trajectories * plan.trajectory_steps / elapsed:,.0f}",
            f"{self.busy / elapsed:.0%}",
            f"{self.ingest / elapsed:.1%}",
            f"{self.idle / elapsed / actors:.0%}",
            f"{self.ages / self.trajectories:,.0f}",
            f"{self.trajectories * plan.trajectory_bytes / elapsed / 1e6:.2f}",
            f"{self.published * plan.weights_bytes * nodes / elapsed / 1e6:.1f}",
        ]


def simulate(plan: Plan, actors: int, trajectories: int, rng: np.random.Generator) -> list[str]:
    """Simulate `trajectories` played by `actors`, and return the row; it leaves out the first fifth."""
    play = plan.trajectory_steps / plan.actor_rate
    travel = plan.trajectory_bytes / plan.link
    # The requests of each actor, in order; a request is the version of the weights to use.
    orders = [deque([0] * IN_FLIGHT) for _ in range(actors)]
    playing: list[tuple[float, int]] = []  # time of completion, actor
    arrived: list[tuple[float, int, int]] = []  # time of arrival, actor, version of the weights
    idle_since = [0.0] * actors
    clock = updates = version = owed = link_free = 0.0
    totals = Totals()

    def begin(actor: int, now: float) -> None:
        heapq.heappush(playing, (now + play * rng.lognormal(0, 0.1), actor))

    for actor in range(actors):
        begin(actor, play * rng.random())
    for taken in range(trajectories):
        while playing and (not arrived or playing[0][0] <= clock):
            done, actor = heapq.heappop(playing)
            link_free = max(link_free, done) + travel
            heapq.heappush(arrived, (link_free, actor, int(orders[actor].popleft())))
            idle_since[actor] = done
            if orders[actor]:
                begin(actor, done)
        came, actor, played_by = heapq.heappop(arrived)
        clock = max(clock, came)
        if taken == trajectories // 5:
            totals = Totals(start=clock)
        totals.trajectories += 1
        totals.ages += updates - played_by
        owed += plan.trajectory_steps / plan.train_frequency
        made, owed = int(owed), owed - int(owed)
        storing, learning = plan.trajectory_steps / plan.ingest_rate, made * plan.update
        updates += made
        if updates - version >= plan.weights_every:
            version = updates
            totals.published += 1
            storing += plan.publish
        clock += storing + learning
        totals.ingest += storing
        totals.busy += learning
        if not orders[actor]:
            totals.idle += clock - idle_since[actor]
            begin(actor, clock)
        orders[actor].append(int(version))
    return totals.row(plan, actors, clock)


def main(words: Sequence[str]) -> None:
    """Print the table."""
    parser = common.parser("cluster_plan", __doc__)
    add, count, number = parser.add_argument, positive(int), positive(float)
    add("--chunk_steps", type=count, default=50, help="steps per trajectory and game, as in train.sh")
    add("--workers", type=count, default=8, help="games per actor")
    add("--step_bytes", type=number, default=87, help="bytes sent per step, compressed")
    add("--weights_mb", type=number, default=6.75, help="size of the weights")
    add("--actor_rate", type=number, default=1600, help="steps/s of an actor that never waits")
    add("--ingest_rate", type=number, default=39_000, help="steps/s that the learner can store")
    add("--update_ms", type=number, default=8.5, help="milliseconds per update")
    add("--publish_ms", type=number, default=5, help="milliseconds to send weights")
    add("--train_frequency", type=count, default=4, help="steps between updates")
    add("--weights_every", type=count, default=100, help="updates between versions of the weights")
    add("--actors_a_node", type=count, default=16, help="actors per machine")
    add("--gigabits", type=number, default=1.0, help="bandwidth of the learner's machine, in each direction")
    flags = Namespace(**parser.parse(words))
    trajectory_steps = flags.chunk_steps * flags.workers
    plan = Plan(
        trajectory_bytes=flags.step_bytes * trajectory_steps, weights_bytes=flags.weights_mb * 1e6,
        actor_rate=flags.actor_rate, ingest_rate=flags.ingest_rate, update=flags.update_ms / 1e3,
        publish=flags.publish_ms / 1e3, trajectory_steps=trajectory_steps,
        train_frequency=flags.train_frequency, weights_every=flags.weights_every,
        actors_a_node=flags.actors_a_node, link=flags.gigabits * 1e9 / 8,
    )  # fmt: skip
    rows = [simulate(plan, actors, max(1000, 6 * actors), np.random.default_rng(0)) for actors in ACTORS]
    print_table(f"An update of {flags.update_ms:g} ms every {flags.train_frequency} steps", HEADER, rows)


if __name__ == "__main__":
    sys.exit(common.console("cluster_plan", main))
