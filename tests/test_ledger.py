import threading
import time

import pytest

from simple_dqn.ledger import Ledger
from simple_dqn.machine import usable_cores


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
    assert [line.split()[0] for line in ledger.lines()[2:]] == ["main", "actor", "cores"]


def test_a_section_within_another_counts_once() -> None:
    clock = Clock()
    ledger = Ledger(clock)
    with ledger.phase("train"):
        for _ in range(2):
            with ledger.section("emulate"):
                clock.now += 1
                for _ in range(3):
                    with ledger.section("preprocess"):
                        clock.now += 2
                clock.now += 1
            clock.now += 2
    shares = ledger.books["train"].shares()["MainThread"]
    assert shares == pytest.approx({"emulate": 0.2, "preprocess": 0.6, "other": 0.2})


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
        start = time.process_time()
        while time.process_time() - start < 0.1:  # however long it takes on a busy machine
            pass
    assert ledger.books["test"].cpu > 0.05
    assert sum(ledger.books["test"].busy.values()) > 0.05
    assert len(ledger.books["test"].busy) == usable_cores()


def test_a_run_may_be_moved_to_other_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger()
    monkeypatch.setattr("simple_dqn.machine.core_numbers", lambda: {0})
    with ledger.phase("train"):
        monkeypatch.setattr("simple_dqn.machine.core_numbers", lambda: {0, 1})
    assert ledger.books["train"].busy.keys() == {0}
