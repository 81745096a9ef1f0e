"""Training on a cluster: learning, machines that lack something, and files and processes after the end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from simple_dqn.cluster.learner import ActorPool
from simple_dqn.config import Config
from simple_dqn.errors import Interrupt, UserError
from simple_dqn.networks import NETWORKS
from simple_dqn.presets import APE_X_EXPLORATION
from simple_dqn.run import Run, make_run
from simple_dqn.snapshot import CheckpointFolder
from tests.cluster.conftest import Nodes
from tests.command_line import PROJECT, python
from tests.test_learning import SETTINGS, score

# More actors than the three cores of the cluster: the others must keep no one waiting.
CATCH: dict[str, Any] = {
    **SETTINGS, **APE_X_EXPLORATION, "network": "mine", "random_seed": 0,
    "actors": 5, "threads": 1, "chunk_steps": 25, "weights_every": 25, "train_steps": 5000,
}  # fmt: skip


def small_weights(rng: np.random.Generator, shape: tuple[int, ...], inputs: int) -> Any:
    return rng.uniform(-1, 1, shape) / np.sqrt(inputs)


@pytest.fixture(scope="module")
def trained(nodes: Nodes) -> Iterator[tuple[Run, Config]]:
    """Return a run to its end with a network that is registered here alone.

    Nothing of this file, such as the function of the initial weights, is known to an actor.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(NETWORKS, "mine", replace(NETWORKS["small"], initializer=small_weights))
        config = Config.from_flags({**CATCH, "cluster": nodes.address})
        with closing(make_run(config, Interrupt())) as run:
            run.begin()
            yield run, config


def test_catch_is_solved_though_some_actors_have_no_core(trained: tuple[Run, Config]) -> None:
    run, config = trained
    assert 0 < (run._schedule.report()["actors_alive"] or 0) < 5
    assert score(run, config.with_flags({"cluster": "none", "actors": 1})) >= 0.9


def test_what_a_machine_lacks_is_a_line(trained: tuple[Run, Config], tmp_path: Path) -> None:
    schedule: Any = trained[0]._schedule
    schedule._pool.close()  # its actors take all cores
    absent = {"environment": "ale", "game": str(tmp_path / "here_alone.bin"), "actors": 1}
    pool, words = ActorPool(trained[1].with_flags(absent), None), r"actor 0 on .* there is no file"
    with closing(pool), pytest.raises(UserError, match=words):
        list(iter(pool.next, "never"))


@pytest.mark.nightly
def test_nodes_die_and_training_goes_on() -> None:
    done = python("tests/soak/kill_nodes.py", "--kills", "2", "--seconds", "5", cwd=PROJECT)
    assert done.returncode == 0, done.stderr


SMALL = [
    "catch", "--environment", "catch", "--preset", "simple_dqn", "--cluster", "local", "--actors", "2",
    "--screen_width", "36", "--screen_height", "36", "--replay_size", "5000", "--random_steps", "200",
    "--train_steps", "100000", "--test_steps", "0", "--epochs", "3", "--target_steps", "200", "--backend",
    "cpu", "--threads", "1", "--checkpoint_minutes", "0.01", "--network", "small",
]  # fmt: skip


def started(home: Path, *arguments: str) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "simple_dqn.main", *arguments], cwd=home, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
        env=environment | {"PYTHONPATH": str(PROJECT / "src"), "SIMPLE_DQN_HOME": "."},
    )  # fmt: skip


def wait_for_training(home: Path, process: "subprocess.Popen[str]", after: int = 0) -> int:
    """Wait for a checkpoint `after` so many steps of training; return its steps."""
    while True:
        assert process.poll() is None, process.communicate()[1]
        saved = CheckpointFolder(home / "snapshots" / "catch_checkpoint").newest()
        phase: Any = saved.run["phase"] if saved else {"name": "random"}
        if phase["name"] == "train" and phase["done"] > after:
            return int(phase["done"])
        time.sleep(0.2)


def family(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """Return the processes below `process`, but for small ones of Ray's that end within a minute."""
    below = psutil.Process(process.pid).children(recursive=True)
    return [one for one in below if "Agent" not in " ".join(one.cmdline())]


@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_nothing_is_left_behind_and_a_killed_run_goes_on(tmp_path: Path, killed: bool) -> None:
    process = started(tmp_path, "train", *SMALL)
    steps, processes = wait_for_training(tmp_path, process), family(process)
    assert len(processes) >= 4
    listening = {
        one.laddr.ip
        for each in [psutil.Process(process.pid), *processes]
        for one in each.net_connections()
        if one.status == psutil.CONN_LISTEN
    }
    assert listening <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    if killed:
        process.kill()
        process.communicate()
        process = started(tmp_path, "resume", "snapshots/catch_checkpoint")
        wait_for_training(tmp_path, process, steps)
        processes += family(process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    log = process.communicate()[1]
    assert process.returncode == 130, log
    _, alive = psutil.wait_procs(processes, timeout=180)
    assert not alive
    assert ("Continuing from" in log) == killed
    assert "Traceback" not in log
    header, *rows = (tmp_path / "results" / "catch.csv").read_text().splitlines()
    assert header.endswith("steps_per_second,actors_alive,experience_in_flight,weight_age")
    assert [row.split(",")[1] for row in rows] == ["random", "train"]
    assert rows[-1].split(",")[-3] == "2"
