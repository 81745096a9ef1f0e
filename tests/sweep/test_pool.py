"""A job in a process of its own, the pools that carry out jobs, and what becomes of a run that fails."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import psutil
import pytest

from simple_dqn.snapshot import checkpoint_folder
from simple_dqn.sweep import pool
from simple_dqn.sweep.pool import ENDED_WELL, SOURCE, Job, SweepRun, carry_out, local_pool, run_all

CARRY_OUT = "from simple_dqn.sweep.pool import carry_out; print(carry_out(*{job!r}))"


@pytest.fixture
def endless(tmp_path: Path) -> Job:
    """Return a training of hours."""
    files = [f"--save_weights_prefix={tmp_path / 'catch'}", f"--csv_file={tmp_path / 'catch.csv'}"]
    small = ["--replay_size=1000", "--screen_width=36", "--screen_height=36", "--backend=cpu", "--threads=1"]
    words = ("train", "catch", "--preset=simple_dqn", "--environment=catch", *small, *files)
    return words, str(tmp_path / "catch.log")


def is_under_way(job: Job) -> bool:
    """Return whether a training says something, by which it has come further than its imports."""
    return Path(job[1]).exists() and "Random seed is" in Path(job[1]).read_text()


def test_a_job_that_fails_has_its_last_line_as_the_reason(tmp_path: Path) -> None:
    log = tmp_path / "pong.log"
    log.write_text("all was well\n")
    core = {min(os.sched_getaffinity(0))}
    assert carry_out(("train", "pnog"), str(log)).startswith("ended with 2: train: there is no file pnog")
    with ThreadPoolExecutor(1) as thread:  # whose cores are those of the process from then on
        job = (("train", "pong", "--print_config=true"), str(log), core)
        assert thread.submit(carry_out, *job).result() == ""
        assert thread.submit(os.sched_getaffinity, 0).result() == core
    assert log.read_text().startswith("all was well\n")
    assert log.read_bytes().endswith(ENDED_WELL)
    assert "Traceback" not in log.read_text()
    assert "has no folder" in carry_out(("train",), str(tmp_path / "none" / "x.log"))


def test_a_training_does_not_outlive_its_parent(endless: Job) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", CARRY_OUT.format(job=endless)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )
    while not is_under_way(endless):
        assert parent.poll() is None
        time.sleep(0.05)
    (training,) = psutil.Process(parent.pid).children()
    parent.kill()
    parent.wait()
    assert not psutil.wait_procs([training], timeout=60)[1]


def test_as_many_jobs_run_at_a_time_as_there_are_places_each_on_its_own(
    make_run: Callable[..., SweepRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "core_numbers", lambda: {3, 5, 7, 8, 9})
    places: list[tuple[object, ...]] = []
    running: list[int] = []

    def note(_words: object, _log: str, cores: list[int], device: str, _stopped: Event) -> str:
        running.append(1)
        assert len(running) <= 2
        time.sleep(0.05)
        running.pop()
        places.append((*cores, device))
        return ""

    monkeypatch.setattr(pool, "carry_out", note)
    runs = [make_run("pong", seed, state="waiting") for seed in range(9)]
    with local_pool(2, 0) as (count, work):
        run_all(runs, count, work, lambda: None)
    assert (count, len(places), set(places)) == (2, 9, {(3, 5, ""), (7, 8, "")})
    assert {run.state for run in runs} == {"done"}
    # GPUs are shared; without room there is no place.
    for visible, cpus, share, most in (
        ("0,1", 1, 0.5, 4), ("0,1", 1, 0.3, 5), ("0,1", 1, 1, 2), ("", 1, 0.5, 0), ("", 9, 0, 0),
    ):  # fmt: skip
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        with local_pool(cpus, share) as (count, _):
            assert count == most
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pool.graphics_devices() == []
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: A (UUID: x)'\necho 'GPU 1: B (UUID: y)'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert pool.graphics_devices() == ["0", "1"]


def test_an_interrupt_kills_the_jobs_and_those_that_wait_never_start(
    endless: Job, make_run: Callable[..., SweepRun]
) -> None:
    runs = [make_run("catch", seed, state="waiting") for seed in (1, 2)]
    for run in runs:
        run.job = endless

    def interrupt() -> None:
        if is_under_way(endless):
            raise KeyboardInterrupt

    with local_pool(len(os.sched_getaffinity(0)), 0) as (places, work), pytest.raises(KeyboardInterrupt):
        run_all(runs, places, work, interrupt)
    assert [(run.state, run.reason) for run in runs] == [("waiting", "killed by SIGKILL"), ("waiting", "")]


def test_a_run_that_fails_is_given_up_while_the_others_go_on(
    make_run: Callable[..., SweepRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with new checkpoints between its failures is not given up."""
    monkeypatch.setattr(pool, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(pool, "POLL_SECONDS", 0.01)
    runs = [make_run("pong", seed, state="waiting") for seed in (1, 2, 3, 4)]
    folder, attempts = checkpoint_folder(runs[3].prefix), list[str]()
    folder.mkdir(parents=True)
    for run in runs:
        run.job = (("train", run.name), str(run.log))

    def work(job: Job, _stopped: Event) -> str:
        attempts.append(name := job[0][1])
        if name == "pong_seed1":
            return "no ROM"
        if name == "pong_seed2":
            raise RuntimeError("the machine is lost\nand more")
        if name == "pong_seed4":
            (folder / f"run_{attempts.count(name):06d}.npz").touch()
            return "" if attempts.count(name) > 3 * pool.MAX_FAILURES else "killed"
        Path(job[1]).write_bytes(ENDED_WELL)
        return ""

    run_all(runs, 2, work, lambda: None)
    assert [(run.state, run.reason) for run in runs] == [
        ("failed", "no ROM"), ("failed", "RuntimeError: the machine is lost"), ("done", ""), ("done", ""),
    ]  # fmt: skip
    assert [attempts.count(run.name) for run in runs] == [3, 3, 1, 10]
    assert SweepRun("pong", "", 3, runs[0].log.parent, runs[0].prefix.parent).state == "done"
    run_all(runs, 2, lambda *_: pytest.fail("started"), lambda: None)  # neither the failed nor the done
