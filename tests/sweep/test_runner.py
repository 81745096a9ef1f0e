"""A job in a process of its own: the reason of its failure, and its end when its parent ends."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from simple_dqn.errors import UserError
from simple_dqn.sweep import runner
from simple_dqn.sweep.runner import ENDED_WELL, SOURCE, Job, LocalPool, carry_out, graphics_devices

CARRY_OUT = "from simple_dqn.sweep.runner import Job, carry_out; print(carry_out(Job(*{fields!r})))"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Return a job that refuses its game."""
    plan = tmp_path / "sweep.json"
    plan.write_text("the plan")
    return Job(("train", "pnog"), str(tmp_path / "pong.log"), str(plan), "the plan")


def test_why_it_failed_is_its_last_word(job: Job) -> None:
    reason = carry_out(job)
    assert reason.startswith("ended with 2: train: there is no file pnog")
    assert "did you mean" in reason
    assert "Traceback" not in Path(job.log).read_text()


def test_only_what_it_said_this_time_counts(job: Job) -> None:
    Path(job.log).write_text("all was well\n")
    assert carry_out(replace(job, arguments=("no_such_verb",))).startswith("ended with 2: no_such_verb: ")
    assert Path(job.log).read_text().startswith("all was well\n")


def test_one_that_ends_well_has_no_reason(job: Job) -> None:
    assert carry_out(replace(job, arguments=("train", "pong", "--print_config=true"))) == ""
    assert Path(job.log).read_bytes().endswith(ENDED_WELL)


def test_a_machine_that_does_not_share_the_folder_starts_nothing(job: Job) -> None:
    Path(job.shared_file).write_text("another plan")
    assert "into a folder that all machines share" in carry_out(job)
    Path(job.shared_file).unlink()
    assert "into a folder that all machines share" in carry_out(job)
    assert not Path(job.log).exists()


def begin(job: Job, folder: Path) -> "tuple[subprocess.Popen[str], psutil.Process]":
    """Carry out a training of hours in another process; return it, and the training's own, once it plays."""
    files = [f"--save_weights_prefix={folder / 'catch'}", f"--csv_file={folder / 'catch.csv'}"]
    small = ["--replay_size=1000", "--screen_width=36", "--screen_height=36"]
    flags = ["--preset=simple_dqn", "--environment=catch", "--backend=cpu", "--threads=1", *small, *files]
    fields = (("train", "catch", *flags), job.log, job.shared_file, job.shared_text)
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", CARRY_OUT.format(fields=fields)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        text=True,
    )
    while not (folder / "catch.csv").exists():
        assert parent.poll() is None
        time.sleep(0.05)
    (training,) = psutil.Process(parent.pid).children()
    return parent, training


def test_a_training_does_not_outlive_its_parent(job: Job, tmp_path: Path) -> None:
    parent, training = begin(job, tmp_path)
    parent.kill()
    parent.communicate()
    _, alive = psutil.wait_procs([training], timeout=60)
    assert not alive


def test_a_training_that_is_killed_has_a_reason(job: Job, tmp_path: Path) -> None:
    parent, training = begin(job, tmp_path)
    training.kill()
    assert parent.communicate(timeout=60)[0] == "killed by SIGKILL\n"


def test_as_many_jobs_run_at_a_time_as_there_are_cores_each_on_its_own(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "core_numbers", lambda: {3, 5, 7, 8, 9})
    places, running, most = [], 0, 0

    def note(_job: Job, cores: list[int], device: str, _on_start: object) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.05)
        running -= 1
        places.append((cores, device))
        return ""

    monkeypatch.setattr(runner, "carry_out", note)
    pool = LocalPool(2, 0)
    assert {pool.submit(job).result() for _ in range(3)} == {""}
    futures = [pool.submit(job) for _ in range(6)]
    assert {future.result() for future in futures} == {""}
    assert most == 2
    assert {(*cores, device) for cores, device in places} == {(3, 5, ""), (7, 8, "")}
    pool.close()


@pytest.mark.parametrize(("share", "runs"), [(0.5, 2), (0.3, 3), (1, 1)])
def test_each_gpu_is_shared(share: float, runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "core_numbers", lambda: set(range(8)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    pool = LocalPool(1, share)
    assert [pool._free.get()[1] for _ in range(pool._free.qsize())] == ["0", "1"] * runs
    pool.close()


def test_gpus_are_those_that_nvidia_smi_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert graphics_devices() == []
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: A (UUID: x)'\necho 'GPU 1: B (UUID: y)'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert graphics_devices() == ["0", "1"]
    with pytest.raises(UserError, match="--cpus_per_run 999 is more than this machine has"):
        LocalPool(999, 0)
    (tmp_path / "nvidia-smi").unlink()
    with pytest.raises(UserError, match="--gpus_per_run needs a GPU"):
        LocalPool(1, 0.5)


def test_closing_the_pool_kills_the_jobs_and_those_that_wait_never_start(job: Job, tmp_path: Path) -> None:
    files = [f"--csv_file={tmp_path / 'c.csv'}", f"--save_weights_prefix={tmp_path / 'c'}"]
    flags = ["--environment=catch", "--backend=cpu", "--replay_size=1000", *files]
    slow = replace(job, arguments=("train", "catch", *flags))
    pool = LocalPool(len(os.sched_getaffinity(0)), 0)
    first, second = pool.submit(slow), pool.submit(slow)
    while not (tmp_path / "c.csv").exists():
        assert not first.done(), first.result()
        time.sleep(0.05)
    pool.close()
    assert first.result() == "killed by SIGKILL"
    assert second.cancelled()
