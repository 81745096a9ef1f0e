"""A job in a process of its own, the pools that carry out jobs, and what becomes of a run that fails."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread

import psutil
import pytest

from simple_dqn.errors import UserError
from simple_dqn.snapshot import checkpoint_folder
from simple_dqn.sweep import pool
from simple_dqn.sweep.pool import ENDED_WELL, SOURCE, Job, SweepRun, carry_out, local_pool, run_all

CARRY_OUT = "from simple_dqn.sweep.pool import carry_out; print(carry_out(*{job!r}))"


@pytest.fixture
def make_job(tmp_path: Path) -> Callable[..., Job]:
    """Return a function that makes the job of a command."""
    return lambda *words: (words, str(tmp_path / "pong.log"))


@pytest.fixture
def endless(make_job: Callable[..., Job], tmp_path: Path) -> Job:
    """Return a training of hours, which has a CSV once it plays."""
    files = [f"--save_weights_prefix={tmp_path / 'catch'}", f"--csv_file={tmp_path / 'catch.csv'}"]
    small = ["--replay_size=1000", "--screen_width=36", "--screen_height=36", "--backend=cpu", "--threads=1"]
    return make_job("train", "catch", "--preset=simple_dqn", "--environment=catch", *small, *files)


def test_a_job_that_fails_has_its_last_line_as_the_reason(make_job: Callable[..., Job]) -> None:
    job = make_job("train", "pnog")
    log = Path(job[1])
    log.write_text("all was well\n")
    assert carry_out(*job).startswith("ended with 2: train: there is no file pnog")
    assert carry_out(*make_job("no_such_verb")).startswith("ended with 2: no_such_verb: ")
    assert carry_out(*make_job("train", "pong", "--print_config=true")) == ""
    assert log.read_text().startswith("all was well\n")
    assert log.read_bytes().endswith(ENDED_WELL)
    assert "Traceback" not in log.read_text()
    assert "into a folder that all machines share" in carry_out(job[0], str(log.parent / "none" / "x.log"))


def wait_for(path: Path, alive: Callable[[], bool]) -> None:
    while not path.exists():
        assert alive()
        time.sleep(0.05)


def test_a_training_does_not_outlive_its_parent(endless: Job, tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", CARRY_OUT.format(job=endless)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )
    wait_for(tmp_path / "catch.csv", lambda: parent.poll() is None)
    (training,) = psutil.Process(parent.pid).children()
    parent.kill()
    parent.wait()
    assert not psutil.wait_procs([training], timeout=60)[1]


def test_as_many_jobs_run_at_a_time_as_there_are_places_each_on_its_own(
    make_job: Callable[..., Job], make_run: Callable[..., SweepRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "core_numbers", lambda: {3, 5, 7, 8, 9})
    places, running, most = [], 0, 0

    def note(*given: object) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.05)
        running -= 1
        places.append(given[2:4])
        return ""

    monkeypatch.setattr(pool, "carry_out", note)
    runs = [make_run("pong", seed, state="waiting") for seed in range(9)]
    with local_pool(2, 0) as (count, work):
        run_all(runs, count, work, lambda: None)
    assert (most, len(places)) == (2, 9)
    assert {(*cores, device) for cores, device in places} == {(3, 5, ""), (7, 8, "")}  # type: ignore[misc]


def test_gpus_are_shared_and_too_few_of_anything_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "core_numbers", lambda: set(range(8)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    for share, places in ((0.5, 4), (0.3, 6), (1, 2)):
        with local_pool(1, share) as (count, _):
            assert count == places
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: A (UUID: x)'\necho 'GPU 1: B (UUID: y)'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert pool.graphics_devices() == ["0", "1"]
    (tmp_path / "nvidia-smi").unlink()
    for cpus, gpus, complaint in (
        (9, 0, "--cpus_per_run 9 is more than this machine has: give at most 8"),
        (1, 0.5, "--gpus_per_run needs a GPU"),
    ):
        with pytest.raises(UserError, match=complaint), local_pool(cpus, gpus):
            pass


def test_an_interrupt_kills_the_jobs_and_those_that_wait_never_start(
    endless: Job, make_run: Callable[..., SweepRun], tmp_path: Path
) -> None:
    runs = [make_run("catch", seed, state="waiting") for seed in (1, 2)]
    for run in runs:
        run.job = endless

    def interrupt() -> None:
        if (tmp_path / "catch.csv").exists():
            raise KeyboardInterrupt

    with local_pool(len(os.sched_getaffinity(0)), 0) as (places, work), pytest.raises(KeyboardInterrupt):
        run_all(runs, places, work, interrupt)
    assert [(run.state, run.reason) for run in runs] == [("waiting", "killed by SIGKILL"), ("waiting", "")]


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the times of all attempts, which follow each other a thousand times as fast."""
    monkeypatch.setattr(pool, "RETRY_SECONDS", 0.03)
    monkeypatch.setattr(pool, "POLL_SECONDS", 0.01)
    return []


def test_a_run_that_fails_is_given_up_while_the_others_go_on(
    attempts: list[float], make_run: Callable[..., SweepRun]
) -> None:
    runs = [make_run("pong", seed, state="waiting") for seed in (1, 2, 3)]
    for run in runs:
        run.job = (("train", run.name), str(run.log))

    def work(job: Job, _stopped: Event) -> str:
        if job[0][1] == "pong_seed1":
            attempts.append(time.monotonic())
            return "no ROM"
        if job[0][1] == "pong_seed2":
            raise RuntimeError("the machine is lost\nand more")
        Path(job[1]).write_bytes(ENDED_WELL)
        return ""

    shown: list[Sequence[str]] = []
    run_all(runs, 2, work, lambda: shown.append([run.state for run in runs]))
    assert [(run.state, run.reason) for run in runs] == [
        ("failed", "no ROM"), ("failed", "RuntimeError: the machine is lost"), ("done", ""),
    ]  # fmt: skip
    assert len(attempts) == pool.MAX_FAILURES
    assert attempts[2] - attempts[1] > attempts[1] - attempts[0] > pool.RETRY_SECONDS
    assert shown[-1] == ["failed", "failed", "done"]
    again = [make_run("pong", seed, state=run.state) for seed, run in enumerate(runs, 1)]
    assert SweepRun("pong", "", 3, runs[0].log.parent, runs[0].prefix.parent).state == "done"
    run_all(again, 2, lambda *_: pytest.fail("started"), lambda: None)  # neither the failed nor the done


def test_a_run_with_new_checkpoints_between_its_failures_is_not_given_up(
    attempts: list[float], make_run: Callable[..., SweepRun]
) -> None:
    run = make_run("pong", state="waiting")
    folder = checkpoint_folder(run.prefix)
    folder.mkdir(parents=True)

    def work(_job: Job, _stopped: Event) -> str:
        attempts.append(0.0)
        (folder / f"run_{len(attempts):06d}.npz").touch()
        return "" if len(attempts) > 3 * pool.MAX_FAILURES else "killed"

    thread = Thread(target=run.attempt, args=(work, Event()))
    thread.start()
    thread.join()
    assert (run.state, len(attempts)) == ("done", 3 * pool.MAX_FAILURES + 1)
