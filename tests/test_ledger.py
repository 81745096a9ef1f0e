import threading
import time

import pytest

from simple_dqn.ledger import Ledger


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_shares_of_each_thread_add_up_to_the_wall_time() -> None:
    clock = Clock()
    ledger = Ledger(clock)
    with ledger.phase("train"):
        for _ in range(4):
            with ledger.section("act"):
                clock.now += 1
            with ledger.section("update"):
                clock.now += 2
            clock.now += 1
            ledger.count(3)

        def play() -> None:
            with ledger.section("emulate"):
                clock.now += 4

        actor = threading.Thread(target=play, name="actor_0")
        actor.start()
        actor.join()
    book = ledger.books["train"]
    assert book.wall == 20
    assert book.steps == 12
    assert book.shares()["MainThread"] == pytest.approx({"act": 0.2, "update": 0.4, "other": 0.4})
    assert book.shares()["actor_0"] == pytest.approx({"emulate": 0.2, "other": 0.8})
    text = "\n".join(ledger.lines())
    assert "train, 12 steps in 20.0 s, 1 a second" in text
    assert [line.split()[0] for line in ledger.lines()[2:]] == ["main", "actor"]


def test_nothing_is_booked_outside_of_a_phase() -> None:
    ledger = Ledger()
    with ledger.section("act"):
        ledger.count(1)
    assert ledger.lines() == []
    assert not ledger.books["train"].seconds


def test_training_is_shown_before_tests_and_random_play() -> None:
    ledger = Ledger()
    for phase in ("random", "test", "train"):
        with ledger.phase(phase), ledger.section("act"):
            ledger.count(1)
        assert f": {phase}, 1 steps" in ledger.lines()[0]


def test_computing_is_told_from_waiting() -> None:
    ledger = Ledger()
    with ledger.phase("train"):
        time.sleep(0.2)
    assert ledger.books["train"].cpu < 0.1
    with ledger.phase("test"):
        start = time.perf_counter()
        while time.perf_counter() - start < 0.2:
            pass
    assert ledger.books["test"].cpu > 0.05
