"""Kills nodes of a cluster at random moments, and sees that training goes on and nothing is used twice.

A learner, a head with room for one actor, and a node with room for two, all on this machine's loopback
interface. The node is killed (`kill -9`, all of it at once) at a random moment, and another takes its place a
while later, again and again. Each time training must go on with the actor that is left, then with all three.

    PYTHONPATH=src:. .venv/bin/python tests/soak/kill_nodes.py --kills 20
"""

import argparse
import random
import time
from contextlib import closing
from types import SimpleNamespace
from typing import Any

from tests.cluster.conftest import Nodes  # first, for it sets what Ray reads when it is imported

# isort: split
from simple_dqn.cluster.actor import Trajectory
from simple_dqn.cluster.learner import ActorSlot, ClusterSchedule
from simple_dqn.config import Config
from simple_dqn.run import make_run

CATCH: dict[str, Any] = {
    "game": "catch", "environment": "catch", "screen_width": 36, "screen_height": 36, "history_length": 2,
    "replay_size": 20_000, "n_step": 3, "prioritized": True, "target_steps": 1000, "optimizer": "adam",
    "backend": "cpu", "threads": 1, "actors": 3, "workers": 2, "random_seed": 0, "train_frequency": 20,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="how often a node is killed")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--seconds", type=float, default=10, help="of training before a kill, at the most")
    flags = parser.parse_args()
    moments, taken = random.Random(flags.seed), list[tuple[int, int, int]]()
    store = ClusterSchedule._store

    def storing(self: ClusterSchedule, agent: Any, slot: ActorSlot, trajectory: Trajectory) -> None:
        taken.append((slot.number, slot.generation, trajectory.number))
        store(self, agent, slot, trajectory)

    ClusterSchedule._store = storing  # type: ignore[method-assign]
    nodes = Nodes()
    nodes.add(2)
    config = Config.from_flags({**CATCH, "cluster": nodes.address})
    with closing(nodes), closing(make_run(config, SimpleNamespace(requested=False))) as run:  # type: ignore[arg-type]
        agent, schedule = run.agent, run._schedule
        run._statistics.on_phase_start("train", 1, 0)
        list(schedule.fill(agent, 1000, 1.0))

        def train_until(alive: int, seconds: float) -> None:
            """Train until so many actors are alive, and for so long after."""
            since: list[float] = []

            def over() -> bool:
                if not since and schedule.report()["actors_alive"] == alive:
                    since.append(time.monotonic())
                return bool(since) and time.monotonic() - since[0] > seconds

            before = len(taken)
            for _ in schedule.train(agent, 10**9):
                if over():
                    break
            assert len(taken) > before, "training did not go on"

        for kill in range(1, flags.kills + 1):
            train_until(3, moments.uniform(0, flags.seconds))
            nodes.kill()
            train_until(1, moments.uniform(1, flags.seconds))
            nodes.add(2)
            print(f"kill {kill}: {agent.total_train_steps} steps, {len(taken)} trajectories", flush=True)
        train_until(3, 1)
    actors = {(number, generation) for number, generation, _ in taken}
    assert len(set(taken)) == len(taken), "a trajectory was used twice"
    for number, generation in actors:
        own = [one for which, when, one in taken if (which, when) == (number, generation)]
        assert own == list(range(len(own))), "a trajectory was used without the one before it"
    print(f"{flags.kills} kills, {len(actors)} actors, {len(taken)} trajectories; each used once, in order")


if __name__ == "__main__":
    main()
