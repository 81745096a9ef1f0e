"""The profiler: shares of the wall time by thread, and phases."""

import threading
from types import SimpleNamespace

import pytest
from profiler import Profiler


def test_shares_of_each_thread_add_up_to_the_wall_time() -> None:
    passed: list[float] = []
    profiler = Profiler(lambda: sum(passed))
    network = SimpleNamespace(predict=passed.append, update=passed.append)
    games = SimpleNamespace(step=passed.append, reset=passed.append)
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
    with profiler.phase("random") as profile:
        profile.steps += 1
    assert "train, 12 steps in 20.0 s, 1 a second" in profiler.lines()[0]  # before random play
    assert [line.split()[0] for line in profiler.lines()[2:4]] == ["main", "actor"]
