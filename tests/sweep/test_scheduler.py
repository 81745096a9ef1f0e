"""The scheduler, with a runner that runs nothing and a clock that the test moves."""

from collections.abc import Callable, Sequence

import pytest

from simple_dqn.snapshot import checkpoint_folder
from simple_dqn.sweep.plan import Plan, SweepFiles, SweepRun
from simple_dqn.sweep.runner import JobEvent
from simple_dqn.sweep.scheduler import MAX_FAILURES, RunState, RunStatus, run_all


class FakeRunner:
    """Runs one job at a time: each starts at one call of `wait`, and ends as `outcome` says at the next."""

    def __init__(self, outcome: Callable[[SweepRun, int], str]) -> None:
        self.now = 0.0
        self.begun: list[str] = []  # names, each time that a run was begun
        self.times: list[float] = []
        self._outcome = outcome
        self._queue: list[SweepRun] = []
        self._running: SweepRun | None = None

    def start(self, run: SweepRun) -> None:
        self._queue.append(run)

    def wait(self, seconds: float) -> list[JobEvent]:
        self.now += seconds
        if self._running is None:
            if not self._queue:
                return []
            self._running = self._queue.pop(0)
            self.begun.append(self._running.name)
            self.times.append(self.now)
            return [JobEvent(self._running.name, False, "here")]
        run, self._running = self._running, None
        return [JobEvent(run.name, True, self._outcome(run, self.begun.count(run.name)))]

    def sweep(self, plan: Plan, files: SweepFiles) -> list[RunStatus]:
        """Carry out a whole sweep, and return its rows."""
        rows = [RunStatus(run, files) for run in plan.runs]
        run_all(rows, self.start, self.wait, lambda _rows, _changed: None, lambda: self.now)
        return rows


def states(rows: Sequence[RunStatus]) -> dict[str, str]:
    return {row.run.name: row.state.value for row in rows}


def test_each_run_is_carried_out_once(plan: Plan, files: SweepFiles) -> None:
    runner = FakeRunner(lambda _run, _times: "")
    rows = runner.sweep(plan, files)
    assert runner.begun == [run.name for run in plan.runs]
    assert set(states(rows).values()) == {"done"}


def test_a_run_that_fails_is_started_again_later_and_then_given_up_while_the_others_go_on(
    plan: Plan, files: SweepFiles
) -> None:
    runner = FakeRunner(lambda run, _times: "no ROM" if run.name == "pong_seed2" else "")
    rows = runner.sweep(plan, files)
    assert states(rows) == {
        "pong_seed1": "done", "breakout_seed1": "done", "pong_seed2": "failed", "breakout_seed2": "done",
    }  # fmt: skip
    assert runner.begun.count("pong_seed2") == MAX_FAILURES
    assert [row.reason for row in rows] == ["", "", "no ROM", ""]
    times = [time for name, time in zip(runner.begun, runner.times, strict=True) if name == "pong_seed2"]
    assert times[2] - times[1] > times[1] - times[0] > 1


def test_a_run_with_new_checkpoints_between_its_failures_is_not_given_up(
    plan: Plan, files: SweepFiles
) -> None:
    failures = 3 * MAX_FAILURES

    def outcome(run: SweepRun, times: int) -> str:
        folder = checkpoint_folder(files.prefix(run))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"run_{times:06d}.npz").touch()
        return "" if times > failures else "killed"

    runner = FakeRunner(outcome)
    assert set(states(runner.sweep(plan, files)).values()) == {"done"}
    assert len(runner.begun) == 4 * (failures + 1)


def test_a_finished_run_is_not_started(plan: Plan, files: SweepFiles) -> None:
    runner = FakeRunner(lambda _run, _times: "")
    rows = [RunStatus(run, files, RunState.DONE) for run in plan.runs]
    run_all(rows, runner.start, runner.wait, lambda _rows, _changed: None, lambda: runner.now)
    assert not runner.begun


def test_changed_runs_are_reported(plan: Plan, files: SweepFiles, write_rows: Callable[..., None]) -> None:
    def outcome(run: SweepRun, _times: int) -> str:
        write_rows(files.csv(run), (1, "train", 40, 3.5))
        return ""

    runner = FakeRunner(outcome)
    told: list[tuple[str, str, float | None]] = []

    def changed(_rows: Sequence[RunStatus], rows: Sequence[RunStatus]) -> None:
        told.extend(
            (row.run.name, row.state.value, row.results.last if row.results else None) for row in rows
        )

    rows = [RunStatus(run, files) for run in plan.runs[:2]]
    run_all(rows, runner.start, runner.wait, changed, lambda: runner.now)
    assert told == [
        ("pong_seed1", "waiting", None), ("breakout_seed1", "waiting", None),
        ("pong_seed1", "running", None), ("pong_seed1", "done", 3.5),
        ("breakout_seed1", "running", None), ("breakout_seed1", "done", 3.5),
    ]  # fmt: skip


def test_a_csv_is_read_when_it_has_changed(
    files: SweepFiles, plan: Plan, write_rows: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = files.csv(plan.runs[0])
    status = RunStatus(plan.runs[0], files)
    assert not status.update_results()
    write_rows(path, (0, "random", 0, -21))
    assert not status.update_results()  # nothing has been learnt yet
    write_rows(path, (0, "random", 0, -21), (1, "train", 40, ""))
    assert status.update_results()
    assert status.results is not None
    assert (status.results.phase, status.results.last) == ("", None)
    write_rows(path, (0, "random", 0, -21), (1, "train", 40, -20), (1, "test", 40, ""))
    assert status.update_results()
    assert (status.results.epoch, status.results.steps, status.results.phase) == (1, 40, "train")
    write_rows(path, (1, "train", 40, -20), (1, "test", 40, 5), (2, "train", 80, 9), (2, "test", 80, 4))
    assert status.update_results()
    assert (status.results.phase, status.results.last, status.results.hours) == ("test", 4, 0.5)
    monkeypatch.setattr("simple_dqn.sweep.scheduler.read_results", lambda _path: pytest.fail("read again"))
    assert not status.update_results()
