"""The scheduler, with a pool that runs nothing and a clock that moves with each look."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future

import pytest

from simple_dqn.snapshot import checkpoint_folder
from simple_dqn.sweep.plan import Plan, SweepFiles, SweepRun
from simple_dqn.sweep.runner import ENDED_WELL
from simple_dqn.sweep.scheduler import MAX_FAILURES, RunStatus, run_all

Report = Callable[[Sequence[RunStatus], Sequence[RunStatus]], None]


class FakePool:
    """Runs each job at once, by writing to its log, and ends it as `outcome` says."""

    def __init__(self, files: SweepFiles, outcome: Callable[[SweepRun, int], str]) -> None:
        self.now = 0.0
        self.begun: list[str] = []  # names, each time that a run was begun
        self.times: list[float] = []
        self._files, self._outcome = files, outcome

    def submit(self, run: SweepRun) -> "Future[str]":
        self.begun.append(run.name)
        self.times.append(self.now)
        future: Future[str] = Future()
        self._files.results.mkdir(parents=True, exist_ok=True)
        with self._files.log(run).open("ab") as log:
            reason = self._outcome(run, self.begun.count(run.name))
            log.write(b"failed\n" if reason else ENDED_WELL)
        future.set_result(reason)
        return future

    def clock(self) -> float:
        self.now += 0.5
        return self.now

    def sweep(self, runs: Sequence[RunStatus], report: Report = lambda _runs, _changed: None) -> None:
        run_all(runs, self.submit, report, self.clock, poll_seconds=0.001)


def statuses(plan: Plan, files: SweepFiles) -> list[RunStatus]:
    return [RunStatus(run, files) for run in plan.runs]


def states(rows: Sequence[RunStatus]) -> dict[str, str]:
    return {row.run.name: row.state.value for row in rows}


def test_each_run_is_carried_out_once(plan: Plan, files: SweepFiles) -> None:
    pool = FakePool(files, lambda _run, _times: "")
    rows = statuses(plan, files)
    pool.sweep(rows)
    assert pool.begun == [run.name for run in plan.runs]
    assert set(states(rows).values()) == {"done"}


def test_a_run_that_fails_is_started_again_later_and_then_given_up_while_the_others_go_on(
    plan: Plan, files: SweepFiles
) -> None:
    pool = FakePool(files, lambda run, _times: "no ROM" if run.name == "pong_seed2" else "")
    rows = statuses(plan, files)
    pool.sweep(rows)
    assert states(rows) == {
        "pong_seed1": "done", "breakout_seed1": "done", "pong_seed2": "failed", "breakout_seed2": "done",
    }  # fmt: skip
    assert pool.begun.count("pong_seed2") == MAX_FAILURES
    assert [row.reason for row in rows] == ["", "", "no ROM", ""]
    times = [time for name, time in zip(pool.begun, pool.times, strict=True) if name == "pong_seed2"]
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

    pool = FakePool(files, outcome)
    rows = statuses(plan, files)
    pool.sweep(rows)
    assert set(states(rows).values()) == {"done"}
    assert len(pool.begun) == 4 * (failures + 1)


def test_a_run_that_ended_well_is_not_started_again(plan: Plan, files: SweepFiles) -> None:
    pool = FakePool(files, lambda run, _times: "no ROM" if run.name == "pong_seed2" else "")
    pool.sweep(statuses(plan, files))
    again = FakePool(files, lambda _run, _times: "")
    again.sweep(statuses(plan, files))
    assert again.begun == ["pong_seed2"]


def test_an_error_of_the_pool_is_a_failure(plan: Plan, files: SweepFiles) -> None:
    def lost(_run: SweepRun) -> "Future[str]":
        future: Future[str] = Future()
        future.set_exception(RuntimeError("the machine is lost\nand more"))
        return future

    rows, pool = statuses(plan, files), FakePool(files, lambda _run, _times: "")
    run_all(rows, lost, lambda _runs, _changed: None, pool.clock, poll_seconds=0.001)
    assert {row.reason for row in rows} == {"RuntimeError: the machine is lost"}


def test_changed_runs_are_reported(plan: Plan, files: SweepFiles, write_rows: Callable[..., None]) -> None:
    def outcome(run: SweepRun, _times: int) -> str:
        write_rows(files.csv(run), (1, "train", 40, 3.5))
        return ""

    told: list[tuple[str, str, bool]] = []

    def changed(_rows: Sequence[RunStatus], rows: Sequence[RunStatus]) -> None:
        told.extend((row.run.name, row.state.value, row.data is not None) for row in rows)

    FakePool(files, outcome).sweep(statuses(plan, files)[:1], changed)
    assert told == [("pong_seed1", "waiting", False), ("pong_seed1", "done", True)]


def test_a_run_has_started_when_its_log_grows(plan: Plan, files: SweepFiles) -> None:
    status = RunStatus(plan.runs[0], files)
    files.results.mkdir(parents=True)
    files.log(status.run).write_text("of an earlier attempt\n")
    status.start()
    assert (status.update(), status.state.value) == (False, "waiting")
    files.log(status.run).write_text("of an earlier attempt\nOn this machine\n")
    assert (status.update(), status.state.value) == (True, "running")


def test_a_csv_is_read_when_it_has_changed(
    files: SweepFiles, plan: Plan, write_rows: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = files.csv(plan.runs[0])
    status = RunStatus(plan.runs[0], files)
    assert not status.update()
    write_rows(path, (0, "random", 0, -21))
    assert not status.update()  # nothing has been learnt yet
    write_rows(path, (0, "random", 0, -21), (1, "train", 40, ""))
    assert status.update()
    assert status.data is not None
    assert status.data.columns["total_train_steps"].tolist() == [0, 40]
    monkeypatch.setattr("simple_dqn.sweep.scheduler.read_run", lambda *_: pytest.fail("read again"))
    assert not status.update()
