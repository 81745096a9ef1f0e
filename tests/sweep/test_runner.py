"""A job in a process of its own: the reason of its failure, and its end when its parent ends."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from simple_dqn.sweep.runner import SOURCE, Job, carry_out

CARRY_OUT = "from simple_dqn.sweep.runner import Job, carry_out; print(carry_out(Job(*{fields!r})))"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Return a job that refuses its game."""
    plan = tmp_path / "sweep.json"
    plan.write_text("the plan")
    return Job("pong_seed1", ("train", "pnog"), str(tmp_path / "pong.log"), str(plan), "the plan")


def test_why_it_failed_is_its_last_word(job: Job) -> None:
    reason = carry_out(job)
    assert reason.startswith("ended with 2: train: there is no file pnog")
    assert "did you mean" in reason
    assert "Traceback" not in Path(job.log).read_text()


def test_only_what_it_said_this_time_counts(job: Job) -> None:
    Path(job.log).write_text("all was well\n")
    assert carry_out(replace(job, arguments=("no_such_verb",))).startswith("ended with 2: usage: ")
    assert Path(job.log).read_text().startswith("all was well\n")


def test_one_that_ends_well_has_no_reason(job: Job) -> None:
    assert carry_out(replace(job, arguments=("train", "pong", "--print_config=true"))) == ""


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
    fields = (job.name, ("train", "catch", *flags), job.log, job.shared_file, job.shared_text)
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
