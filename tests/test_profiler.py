"""The profiler: shares of the wall time by thread, and phases."""

import threading
from types import SimpleNamespace

import pytest

from simple_dqn.profiler import Profiler


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now

    def pass_time(self, seconds: float) -> None:
        self.now += seconds


def test_shares_of_each_thread_add_up_to_the_wall_time() -> None:
    clock = Clock()
    profiler = Profiler(clock)
    network, games = (SimpleNamespace() for _ in range(2))
    network.predict = network.update = games.step = games.reset = clock.pass_time
    profiler.watch(network, games, games)
    network.update(100)  # outside of a phase
    assert profiler.lines() == []
    with profiler.phase("train") as profile:
        for _ in range(4):
            network.predict(1)
            network.update(2)
            games.reset(1)  # which is not measured
            profile.steps += 3
        actor = threading.Thread(target=games.step, args=(4,), name="actor_0")
        actor.start()
        actor.join()
    assert (profile.wall, profile.steps) == (20, 12)
    assert profile.shares()["MainThread"] == pytest.approx({"act": 0.2, "update": 0.4, "other": 0.4})
    assert profile.shares()["actor_0"] == pytest.approx({"emulate": 0.2, "other": 0.8})
    assert "train, 12 steps in 20.0 s, 1 a second" in profiler.lines()[0]
    assert [line.split()[0] for line in profiler.lines()[2:]] == ["main", "actor"]


def test_training_is_shown_before_tests_and_random_play() -> None:
    profiler = Profiler()
    for phase in ("random", "test", "train"):
        with profiler.phase(phase) as profile:
            profile.steps += 1
        assert f": {phase}, 1 steps" in profiler.lines()[0]
