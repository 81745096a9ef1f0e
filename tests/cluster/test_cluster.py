"""Training on a cluster: learning, nodes that die, and files and processes after the end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from simple_dqn.cluster.learner import ActorPool
from simple_dqn.cluster.session import Session
from simple_dqn.config import Config
from simple_dqn.errors import Interrupt, UserError
from simple_dqn.networks import NETWORKS
from simple_dqn.presets import APE_X_EXPLORATION
from simple_dqn.run import Run, make_run
from tests.cluster.conftest import Nodes
from tests.test_learning import SETTINGS, score

PROJECT = Path(__file__).parents[2]
CATCH = {
    **SETTINGS, **APE_X_EXPLORATION,
    "actors": 2, "threads": 1, "chunk_steps": 25, "weights_every": 25, "train_steps": 5000,
}  # fmt: skip


@contextmanager
def running(nodes: Nodes, **flags: Any) -> Iterator[tuple[Run, Config]]:
    config = Config.from_flags({"random_seed": 0, **CATCH, "cluster": nodes.address, **flags})
    with closing(make_run(config, Interrupt())) as run:
        yield run, config


def small_weights(rng: np.random.Generator, shape: tuple[int, ...], inputs: int) -> Any:
    return rng.uniform(-1, 1, shape) / np.sqrt(inputs)


def test_catch_is_solved_by_a_network_that_is_registered_here_alone(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of this file, such as the function of the initial weights, is known to an actor."""
    monkeypatch.setitem(NETWORKS, "mine", replace(NETWORKS["small"], initializer=small_weights))
    with running(nodes, network="mine") as (run, config):
        run.begin()
        assert score(run, config.with_flags({"cluster": "none", "actors": 1})) >= 0.9


@pytest.mark.nightly
def test_nodes_die_and_training_goes_on() -> None:
    soak = [sys.executable, "tests/soak/kill_nodes.py", "--kills", "2", "--seconds", "5"]
    path = os.pathsep.join((str(PROJECT / "src"), str(PROJECT)))
    done = subprocess.run(soak, cwd=PROJECT, env=os.environ | {"PYTHONPATH": path}, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_actors_without_a_free_core_keep_no_one_waiting(nodes: Nodes) -> None:
    """What they were asked for would count as in flight, and be all that is to be filled."""
    with running(nodes, actors=12, workers=4) as (run, _):
        run._statistics.on_phase_start("random", 0, 0)
        list(run._schedule.fill(run.agent, 1000, 1.0))
        assert (run._schedule.report()["actors_alive"] or 0) < 12
        assert run.agent.memory.count >= 1000


def test_what_a_machine_lacks_is_a_line(nodes: Nodes, tmp_path: Path) -> None:
    flags = {**CATCH, "actors": 1, "environment": "ale", "game": str(tmp_path / "here_alone.bin")}
    with closing(Session(nodes.address, 1)):
        pool = ActorPool(Config.from_flags({**flags, "random_seed": 0}), None)
        with closing(pool), pytest.raises(UserError, match=r"actor 0 on .* there is no file"):
            list(iter(pool.next, "never"))


SMALL = [
    "catch", "--environment", "catch", "--preset", "simple_dqn", "--cluster", "local", "--actors", "2",
    "--screen_width", "36", "--screen_height", "36", "--replay_size", "5000", "--random_steps", "200",
    "--train_steps", "100000", "--test_steps", "0", "--epochs", "3", "--target_steps", "200", "--backend",
    "cpu", "--threads", "1", "--checkpoint_minutes", "0.01",
]  # fmt: skip


def started(home: Path, *arguments: str) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "simple_dqn.main", *arguments], cwd=home, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
        env=environment | {"PYTHONPATH": str(PROJECT / "src"), "SIMPLE_DQN_HOME": "."},
    )  # fmt: skip


def wait_for_a_checkpoint(home: Path, process: "subprocess.Popen[str]", after: float = 0.0) -> None:
    """Wait for a checkpoint that is made `after` that time, in seconds since 1970."""

    def newest() -> float:
        return max((path.stat().st_mtime for path in home.glob("snapshots/*_checkpoint/run_*")), default=0.0)

    while newest() <= after:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)


def family(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """Return the processes below `process`, but for small ones of Ray's that end within a minute."""
    return [
        one
        for one in psutil.Process(process.pid).children(recursive=True)
        if "Agent" not in " ".join(one.cmdline())
    ]


def test_nothing_is_left_behind_and_a_killed_run_goes_on(tmp_path: Path) -> None:
    first = started(tmp_path, "train", *SMALL)
    wait_for_a_checkpoint(tmp_path, first)
    processes = family(first)
    assert len(processes) >= 4
    addresses = {
        one.laddr.ip
        for process in [psutil.Process(first.pid), *processes]
        for one in process.net_connections()
        if one.status == psutil.CONN_LISTEN
    }
    assert addresses <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    first.kill()
    first.wait()
    second = started(tmp_path, "resume", "snapshots/catch_checkpoint")
    while "random" not in (tmp_path / "results" / "catch.csv").read_text():
        wait_for_a_checkpoint(tmp_path, second, time.time())
    wait_for_a_checkpoint(tmp_path, second, time.time())
    processes += family(second)
    os.killpg(second.pid, signal.SIGINT)  # as a terminal does
    log = second.communicate()[1]
    assert second.returncode == 130, log
    _, alive = psutil.wait_procs(processes, timeout=180)
    assert not alive
    assert "Continuing from" in log
    assert "Traceback" not in log
    header, *rows = (tmp_path / "results" / "catch.csv").read_text().splitlines()
    assert header.endswith("steps_per_second,actors_alive,experience_in_flight,weight_age")
    assert [row.split(",")[1] for row in rows] == ["random", "train"]
    assert rows[-1].split(",")[-3] == "2"
