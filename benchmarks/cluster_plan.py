"""A simulation of a learner and N actors: trajectories, updates and weights, as a table.

    ./bench.sh cluster_plan --step_bytes 87 --actor_rate 1000 --update_ms 8

Each actor plays one trajectory after the other, with at most two in flight. The learner stores each, makes
the updates that are due for its steps, and sends out new weights every `--weights_every` updates. The flags
are measured figures; their defaults are those of docs/cluster.md. The time to play a trajectory is random.
"""

import heapq
import sys
from argparse import Namespace
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import command
import numpy as np
from command import positive
from table import print_table

IN_FLIGHT = 2  # as in `cluster/actor_pool.py`
ACTORS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)


@dataclass(frozen=True)
class Plan:
    """The measured figures, and the settings."""

    trajectory_bytes: float  # of a trajectory, compressed
    weights_bytes: float  # of a version of the weights
    actor_rate: float  # steps a second of an actor alone
    ingest_rate: float  # steps a second that the learner can store, if it does nothing else
    update: float  # seconds
    publish: float  # seconds that the learner spends on sending out weights
    trajectory_steps: int  # over an actor's games
    train_frequency: int  # steps between updates
    weights_every: int  # updates between versions
    actors_a_node: int
    link: float  # bytes a second into the learner's machine, and out of it


@dataclass
class Outcome:
    """The figures of N actors, as the table shows them."""

    rate: float  # steps a second, learnt from
    busy: float  # share of time in which the learner updates
    ingest: float  # share in which it stores trajectories and sends out weights
    idle: float  # share of the actors' time in which they wait
    age: float  # mean updates since the weights that a trajectory was played by
    arriving: float  # bytes a second
    leaving: float  # bytes a second


def simulate(plan: Plan, actors: int, trajectories: int, rng: np.random.Generator) -> Outcome:
    """Return the outcome of `trajectories` that `actors` play; the first fifth is not counted."""
    play = plan.trajectory_steps / plan.actor_rate
    travel = plan.trajectory_bytes / plan.link
    # An order is the version that it is to be played by; an actor plays its orders one after the other.
    orders = [deque([0] * IN_FLIGHT) for _ in range(actors)]
    playing: list[tuple[float, int]] = []  # when it is done, and who plays
    arrived: list[tuple[float, int, int]] = []  # when, by whom, by which version
    idle_since, idle = [0.0] * actors, 0.0
    clock = updates = version = owed = 0.0
    link_free = busy = ingest = ages = published = start = 0.0
    counted = 0

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
            start, busy, ingest, idle, ages, published, counted = clock, 0.0, 0.0, 0.0, 0.0, 0.0, 0
        counted += 1
        ages += updates - played_by
        owed += plan.trajectory_steps / plan.train_frequency
        made, owed = int(owed), owed - int(owed)
        storing, learning = plan.trajectory_steps / plan.ingest_rate, made * plan.update
        updates += made
        if updates - version >= plan.weights_every:
            version, published, storing = updates, published + 1, storing + plan.publish
        clock += storing + learning
        ingest, busy = ingest + storing, busy + learning
        if not orders[actor]:
            idle += clock - idle_since[actor]
            begin(actor, clock)
        orders[actor].append(int(version))
    elapsed = clock - start
    nodes = -(-actors // plan.actors_a_node)
    return Outcome(
        rate=counted * plan.trajectory_steps / elapsed, busy=busy / elapsed, ingest=ingest / elapsed,
        idle=idle / elapsed / actors, age=ages / counted, arriving=counted * plan.trajectory_bytes / elapsed,
        leaving=published * plan.weights_bytes * nodes / elapsed,
    )  # fmt: skip


def main(words: Sequence[str]) -> None:
    """Print the table."""
    parser = command.parser("cluster_plan", __doc__)
    add, count, number = parser.add_argument, positive(int), positive(float)
    add("--chunk_steps", type=count, default=50, help="as train.sh has it")
    add("--workers", type=count, default=8, help="games of an actor")
    add("--step_bytes", type=number, default=87, help="on the wire, for each step")
    add("--weights_mb", type=number, default=6.75, help="a version of the weights")
    add("--actor_rate", type=number, default=1600, help="steps a second of an actor alone")
    add("--ingest_rate", type=number, default=39_000, help="steps a second that the learner can take in")
    add("--update_ms", type=number, default=8.5, help="an update")
    add("--publish_ms", type=number, default=5, help="handing out weights")
    add("--train_frequency", type=count, default=4, help="steps between updates")
    add("--weights_every", type=count, default=100, help="updates between versions of the weights")
    add("--actors_a_node", type=count, default=16, help="actors of a machine")
    add("--gigabits", type=number, default=1.0, help="a second, into and out of the learner's machine")
    add("--seed", type=int, default=0)
    flags = Namespace(**parser.parse(words))
    trajectory_steps = flags.chunk_steps * flags.workers
    plan = Plan(
        trajectory_bytes=flags.step_bytes * trajectory_steps, weights_bytes=flags.weights_mb * 1e6,
        actor_rate=flags.actor_rate, ingest_rate=flags.ingest_rate, update=flags.update_ms / 1e3,
        publish=flags.publish_ms / 1e3, trajectory_steps=trajectory_steps,
        train_frequency=flags.train_frequency, weights_every=flags.weights_every,
        actors_a_node=flags.actors_a_node, link=flags.gigabits * 1e9 / 8,
    )  # fmt: skip
    rows = []
    for actors in ACTORS:
        outcome = simulate(plan, actors, max(1000, 6 * actors), np.random.default_rng(flags.seed))
        rows.append(
            (
                actors, f"{outcome.rate:,.0f}", f"{outcome.busy:.0%}", f"{outcome.ingest:.1%}",
                f"{outcome.idle:.0%}", f"{outcome.age:,.0f}", f"{outcome.arriving / 1e6:.2f}",
                f"{outcome.leaving / 1e6:.1f}",
            )
        )  # fmt: skip
    header = ("actors", "steps/s", "updating", "ingest", "actors wait", "age", "MB/s in", "MB/s out")
    print_table(f"An update of {flags.update_ms:g} ms every {flags.train_frequency} steps", header, rows)


if __name__ == "__main__":
    sys.exit(command.console("cluster_plan", main))
