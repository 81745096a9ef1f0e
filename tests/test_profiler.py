import threading
import time

import pytest

from simple_dqn.machine import usable_cores
from simple_dqn.profiler import Profiler


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_shares_of_each_thread_add_up_to_the_wall_time() -> None:
    clock = Clock()
    profiler = Profiler(clock)
    with profiler.phase("train"):
        for _ in range(4):
            with profiler.section("act"):
                clock.now += 1
            with profiler.section("update"):
                clock.now += 2
            clock.now += 1
            profiler.count(3)

        def play() -> None:
            with profiler.section("emulate"):
                clock.now += 4

        actor = threading.Thread(target=play, name="actor_0")
        actor.start()
        actor.join()
    profile = profiler.phases["train"]
    assert profile.wall == 20
    assert profile.steps == 12
    assert profile.shares()["MainThread"] == pytest.approx({"act": 0.2, "update": 0.4, "other": 0.4})
    assert profile.shares()["actor_0"] == pytest.approx({"emulate": 0.2, "other": 0.8})
    text = "\n".join(profiler.lines())
    assert "train, 12 steps in 20.0 s, 1 a second" in text
    assert [line.split()[0] for line in profiler.lines()[2:]] == ["main", "actor", "cores"]


def test_a_section_within_another_counts_once() -> None:
    clock = Clock()
    profiler = Profiler(clock)
    with profiler.phase("train"):
        for _ in range(2):
            with profiler.section("emulate"):
                clock.now += 1
                for _ in range(3):
                    with profiler.section("preprocess"):
                        clock.now += 2
                clock.now += 1
            clock.now += 2
    shares = profiler.phases["train"].shares()["MainThread"]
    assert shares == pytest.approx({"emulate": 0.2, "preprocess": 0.6, "other": 0.2})


def test_nothing_is_booked_outside_of_a_phase() -> None:
    profiler = Profiler()
    with profiler.section("act"):
        profiler.count(1)
    assert profiler.lines() == []
    assert not profiler.phases["train"].seconds


def test_training_is_shown_before_tests_and_random_play() -> None:
    profiler = Profiler()
    for phase in ("random", "test", "train"):
        with profiler.phase(phase), profiler.section("act"):
            profiler.count(1)
        assert f": {phase}, 1 steps" in profiler.lines()[0]


def test_computing_is_told_from_waiting() -> None:
    profiler = Profiler()
    with profiler.phase("train"):
        time.sleep(0.2)
    assert profiler.phases["train"].cpu < 0.1
    with profiler.phase("test"):
        start = time.process_time()
        while time.process_time() - start < 0.1:  # however long it takes on a busy machine
            pass
    assert profiler.phases["test"].cpu > 0.05
    assert sum(profiler.phases["test"].busy.values()) > 0.05
    assert len(profiler.phases["test"].busy) == usable_cores()


def test_a_run_may_be_moved_to_other_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    profiler = Profiler()
    monkeypatch.setattr("simple_dqn.machine.core_numbers", lambda: {0})
    with profiler.phase("train"):
        monkeypatch.setattr("simple_dqn.machine.core_numbers", lambda: {0, 1})
    assert profiler.phases["train"].busy.keys() == {0}
