"""Sweeps to their ends, of which some lose a training and then their driver, here and through Ray."""

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

SMALL = [
    "--preset", "simple_dqn", "--network", "small",
    "--random_steps", "160", "--train_steps", "320", "--test_steps", "60", "--replay_size", "240",
    "--screen_width", "36", "--screen_height", "36", "--batch_size", "8", "--target_steps", "40",
    "--epochs", "2", "--checkpoint_minutes", "0.01", "--name", "two", "--compare", "plain=",
    "double=--double true",
]  # fmt: skip
PHASES = [("0", "random"), ("1", "train"), ("1", "test"), ("2", "train"), ("2", "test")]
Sweep = Callable[..., psutil.Popen]


@pytest.fixture
def sweep(tmp_path: Path) -> Iterator[Sweep]:
    """Return a function that begins `sweep.sh`, whose files are in `tmp_path`."""
    begun, short = [], tempfile.mkdtemp(prefix="sw")  # sockets lie in it

    def begin(*words: str) -> psutil.Popen:
        own = {"PYTHONPATH": str(SOURCE), "SIMPLE_DQN_HOME": str(tmp_path), "TMPDIR": short}
        begun.append(psutil.Popen(
            [sys.executable, "-P", "-m", "simple_dqn.main", "sweep", *words, *SMALL], env=os.environ | own,
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ))  # fmt: skip
        return begun[-1]

    yield begin
    for process in begun:
        if process.is_running():
            process.kill()
        process.communicate()
    shutil.rmtree(short, ignore_errors=True)


def lose_a_training_and_the_driver(driver: psutil.Popen, snapshots: Path) -> set[str]:
    """Kill a training in its middle, then the driver with another training; return the names of both."""
    lost: dict[str, psutil.Process] = {}
    while len(lost) < 2:
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.05)
        for process in driver.children(recursive=True):
            with suppress(psutil.Error):
                words = [word for word in process.cmdline() if word.startswith("--save_weights_prefix=")]
                name = Path(words[0]).name if words else ""
                if name in {"", *lost} or not any((snapshots / f"{name}_checkpoint").glob("run_*.npz")):
                    continue
                process.suspend()  # a training that has a checkpoint, and no end yet
                if (snapshots / f"{name}_2.pkl").exists():
                    process.resume()
                    continue
                if not lost:
                    process.kill()
                lost[name] = process
                break
    # Two small processes of Ray's own look for their parent from time to time, and end by themselves.
    ours = []
    for process in driver.children(recursive=True):
        with suppress(psutil.Error):
            if "--network=small" in process.cmdline() or process.name().startswith("ray::carry_out"):
                ours.append(process)
    driver.kill()
    driver.communicate()
    assert list(lost.values())[1] in ours
    assert not psutil.wait_procs(ours, timeout=60)[1]
    return set(lost)


@pytest.mark.parametrize(("cluster", "games"), [
    ("none", ["breakout"]), *(pytest.param(cluster, ["pong", "breakout"], marks=pytest.mark.nightly)
                          for cluster in ("none", "local")),
])  # fmt: skip
def test_every_run_of_a_sweep_ends_whatever_is_killed(
    tmp_path: Path, sweep: Sweep, cluster: str, games: list[str]
) -> None:
    if cluster == "local":
        pytest.importorskip("ray", reason="the extra `cluster` is not installed")
    results, snapshots = (tmp_path / folder / "sweep" / "two" for folder in ("results", "snapshots"))
    command, lost = [*games, "--cluster", cluster], set[str]()
    if len(games) > 1:
        lost = lose_a_training_and_the_driver(sweep(*command), snapshots)
    driver = sweep(*command)
    out, err = driver.communicate(timeout=500)
    assert driver.returncode == 0, err
    commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert not [command for command in commands if str(snapshots) in command]
    for name in (f"{game}_{setting}_seed1" for game in games for setting in ("double", "plain")):
        with (results / f"{name}.csv").open(newline="") as file:
            assert [(row["epoch"], row["phase"]) for row in csv.DictReader(file)] == PHASES
        assert (snapshots / f"{name}_2.pkl").exists()
    for name in lost:  # Nothing is left to do for one that was killed after its last checkpoint.
        log = (results / f"{name}.log").read_text()
        assert "Continuing from" in log or "Nothing is left to do" in log
    assert (results / "comparison.png").exists()
    assert "double: mean" in out
