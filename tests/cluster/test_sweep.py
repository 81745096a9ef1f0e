"""A sweep of two games by two settings that loses a training and then its driver, here and through Ray."""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from simple_dqn.sweep.pool import SOURCE

GAMES = ["pong", "breakout"]
RUNS = [f"{game}_{setting}_seed1" for game in sorted(GAMES) for setting in ("double", "plain")]
SMALL = [
    "--preset", "simple_dqn", "--network", "small",
    "--random_steps", "160", "--train_steps", "320", "--test_steps", "60", "--replay_size", "240",
    "--screen_width", "36", "--screen_height", "36", "--batch_size", "8", "--target_steps", "40",
    "--epochs", "2", "--checkpoint_minutes", "0.01",
]  # fmt: skip
PHASES = [("0", "random"), ("1", "train"), ("1", "test"), ("2", "train"), ("2", "test")]


@pytest.fixture
def sweep(tmp_path: Path) -> "Iterator[Callable[..., psutil.Popen]]":
    """Return a function that begins `sweep.sh`, whose files are in `tmp_path`."""
    begun, short = [], tempfile.mkdtemp(prefix="sw")  # sockets lie in it

    def begin(*flags: str) -> psutil.Popen:
        own = {"PYTHONPATH": str(SOURCE), "SIMPLE_DQN_HOME": str(tmp_path), "TMPDIR": short}
        begun.append(psutil.Popen(
            [sys.executable, "-P", "-m", "simple_dqn.main", "sweep", *flags], env=os.environ | own,
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ))  # fmt: skip
        return begun[-1]

    yield begin
    for process in begun:
        if process.is_running():
            process.kill()
        process.communicate()
    shutil.rmtree(short, ignore_errors=True)


def wait_until(
    driver: psutil.Popen, wanted: Callable[[str, psutil.Process], bool]
) -> tuple[str, psutil.Process]:
    """Return the first process that trains and is `wanted`, with the name of its run."""
    while True:
        assert driver.poll() is None, driver.communicate()
        for process in driver.children(recursive=True):
            with suppress(psutil.Error):
                for word in process.cmdline():
                    name = Path(word).name
                    if word.startswith("--save_weights_prefix=") and wanted(name, process):
                        return name, process
        time.sleep(0.05)


def is_ours(process: psutil.Process) -> bool:
    """Two small processes of Ray's own look for their parent from time to time, and end by themselves."""
    with suppress(psutil.NoSuchProcess):
        return "--network=small" in process.cmdline() or process.name().startswith("ray::carry_out")
    return False


@pytest.mark.parametrize("cluster", ["none", pytest.param("local", marks=pytest.mark.nightly)])
def test_a_sweep_that_loses_a_training_and_then_its_driver(
    tmp_path: Path, sweep: Callable[..., psutil.Popen], cluster: str
) -> None:
    if cluster == "local":
        pytest.importorskip("ray", reason="the extra `cluster` is not installed")
    settings = ["--compare", "plain=", "double=--double true"]
    command = [*GAMES, *settings, "--cluster", cluster, "--name", "two", *SMALL]
    results, snapshots = (tmp_path / folder / "sweep" / "two" for folder in ("results", "snapshots"))

    def stopped(name: str, process: psutil.Process) -> bool:
        """Suspend a training between its first checkpoint and its end, so that it is killed in the middle."""
        if not any((snapshots / f"{name}_checkpoint").glob("run_*.npz")):
            return False
        process.suspend()
        if not (snapshots / f"{name}_2.pkl").exists():
            return True
        process.resume()
        return False

    driver = sweep(*command)
    killed, training = wait_until(driver, stopped)
    training.kill()
    later, training = wait_until(driver, lambda name, process: name != killed and stopped(name, process))
    left = driver.children(recursive=True)
    ours = [process for process in left if is_ours(process)]
    driver.kill()
    driver.communicate()
    assert training in ours
    _, alive = psutil.wait_procs(ours, timeout=60)
    assert not alive
    driver = sweep(*command)
    wait_until(driver, lambda _name, _process: True)
    left = driver.children(recursive=True)
    out, err = driver.communicate(timeout=500)
    assert driver.returncode == 0, err
    _, alive = psutil.wait_procs(left, timeout=30)
    assert not alive
    for name in RUNS:
        with (results / f"{name}.csv").open(newline="") as file:
            assert [(row["epoch"], row["phase"]) for row in csv.DictReader(file)] == PHASES
        assert (snapshots / f"{name}_2.pkl").exists()
    for name in (killed, later):  # Nothing is left to do for one that was killed after its last checkpoint.
        log = (results / f"{name}.log").read_text()
        assert "Continuing from" in log or "Nothing is left to do" in log
    assert (results / "comparison.png").exists()
    assert "double: mean" in out
