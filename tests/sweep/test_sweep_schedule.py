"""The loop, with a cluster that only pretends, and a clock that is moved by hand."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from simple_dqn.snapshot import checkpoint_folder
from simple_dqn.sweep import Places, Plan, Row, Run, Sweep
from simple_dqn.sweep.schedule import MOST_FAILURES, State
from simple_dqn.sweep.standing import Watch


class Told(NamedTuple):
    name: str
    ended: bool
    words: str


class Pretence:
    """A cluster of one place: the first run that waits begins, and ends as `outcome` says when asked next."""

    def __init__(self, outcome: Callable[[Run, int], str]) -> None:
        self.now = 0.0
        self.begun: list[str] = []  # names, each time that a run was begun
        self.times: list[float] = []
        self._outcome = outcome
        self._queue: list[Run] = []
        self._running: Run | None = None

    def start(self, run: Run) -> None:
        self._queue.append(run)

    def wait(self, seconds: float) -> list[Told]:
        self.now += seconds
        if self._running is None:
            if not self._queue:
                return []
            self._running = self._queue.pop(0)
            self.begun.append(self._running.name)
            self.times.append(self.now)
            return [Told(self._running.name, False, "here")]
        run, self._running = self._running, None
        return [Told(run.name, True, self._outcome(run, self.begun.count(run.name)))]

    def sweep(self, plan: Plan, places: Places) -> list[Row]:
        """Carry out a whole sweep, and return its rows."""
        rows = [Row(run, places) for run in plan.runs]
        Sweep(rows, self.start, self.wait, lambda _rows, _changed: None, lambda: self.now).run()
        return rows


def states(rows: Sequence[Row]) -> dict[str, str]:
    return {row.run.name: row.state.value for row in rows}


def test_each_run_is_carried_out_once(plan: Plan, places: Places) -> None:
    cluster = Pretence(lambda _run, _times: "")
    rows = cluster.sweep(plan, places)
    assert cluster.begun == [run.name for run in plan.runs]
    assert set(states(rows).values()) == {"done"}


def test_one_that_fails_is_begun_again_later_and_then_given_up_while_the_others_go_on(
    plan: Plan, places: Places
) -> None:
    cluster = Pretence(lambda run, _times: "no ROM" if run.name == "pong_seed2" else "")
    rows = cluster.sweep(plan, places)
    assert states(rows) == {
        "pong_seed1": "done", "breakout_seed1": "done", "pong_seed2": "failed", "breakout_seed2": "done",
    }  # fmt: skip
    assert cluster.begun.count("pong_seed2") == MOST_FAILURES
    assert [row.reason for row in rows] == ["", "", "no ROM", ""]
    times = [time for name, time in zip(cluster.begun, cluster.times, strict=True) if name == "pong_seed2"]
    assert times[2] - times[1] > times[1] - times[0] > 1


def test_one_that_got_further_between_its_failures_is_not_given_up(plan: Plan, places: Places) -> None:
    failures = 3 * MOST_FAILURES

    def outcome(run: Run, times: int) -> str:
        folder = checkpoint_folder(places.prefix(run))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"run_{times:06d}.npz").touch()
        return "" if times > failures else "killed"

    cluster = Pretence(outcome)
    assert set(states(cluster.sweep(plan, places)).values()) == {"done"}
    assert len(cluster.begun) == 4 * (failures + 1)


def test_what_is_done_is_not_begun(plan: Plan, places: Places) -> None:
    cluster = Pretence(lambda _run, _times: "")
    rows = [Row(run, places, State.DONE) for run in plan.runs]
    Sweep(rows, cluster.start, cluster.wait, lambda _rows, _changed: None, lambda: cluster.now).run()
    assert not cluster.begun


def test_rows_that_have_changed_are_told_of(
    plan: Plan, places: Places, write_rows: Callable[..., None]
) -> None:
    def outcome(run: Run, _times: int) -> str:
        write_rows(places.csv(run), (1, "train", 40, 3.5))
        return ""

    cluster = Pretence(outcome)
    told: list[tuple[str, str, float | None]] = []

    def changed(_rows: Sequence[Row], rows: Sequence[Row]) -> None:
        told.extend(
            (row.run.name, row.state.value, row.standing.last if row.standing else None) for row in rows
        )

    rows = [Row(run, places) for run in plan.runs[:2]]
    Sweep(rows, cluster.start, cluster.wait, changed, lambda: cluster.now).run()
    assert told == [
        ("pong_seed1", "waiting", None), ("breakout_seed1", "waiting", None),
        ("pong_seed1", "running", None), ("pong_seed1", "done", 3.5),
        ("breakout_seed1", "running", None), ("breakout_seed1", "done", 3.5),
    ]  # fmt: skip


def test_a_csv_is_read_when_it_has_changed(
    places: Places, plan: Plan, write_rows: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = places.csv(plan.runs[0])
    watch = Watch(path)
    assert not watch.look()
    write_rows(path, (0, "random", 0, -21))
    assert not watch.look()  # nothing has been learnt yet
    write_rows(path, (0, "random", 0, -21), (1, "train", 40, ""))
    assert watch.look()
    assert watch.standing is not None
    assert (watch.standing.phase, watch.standing.last) == ("", None)
    write_rows(path, (0, "random", 0, -21), (1, "train", 40, -20), (1, "test", 40, ""))
    assert watch.look()
    assert (watch.standing.epoch, watch.standing.steps, watch.standing.phase) == (1, 40, "train")
    write_rows(path, (1, "train", 40, -20), (1, "test", 40, 5), (2, "train", 80, 9), (2, "test", 80, 4))
    assert watch.look()
    standing = watch.standing
    assert (standing.phase, standing.last, standing.hours) == ("test", 4, 0.5)
    monkeypatch.setattr("simple_dqn.sweep.standing.read_standing", lambda _path: pytest.fail("read again"))
    assert not watch.look()
