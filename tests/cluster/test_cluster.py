"""Training and sweeps on a Ray cluster of this machine that loses nodes; and clusters that cannot be used."""

import csv
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
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
from simple_dqn.snapshot.checkpoint import CheckpointFolder
from simple_dqn.sweep.pool import SOURCE
from tests.cluster.conftest import Nodes
from tests.command_line import PROJECT, Told, catch, nightly, python
from tests.test_learning import SETTINGS, score

# More actors than the three cores of the cluster: the others must keep no one waiting. No two trainings are
# equal, and one moment's weights may miss balls, so the mean of the latest plays.
CATCH: dict[str, Any] = {
    **SETTINGS, **APE_X_EXPLORATION, "network": "mine", "random_seed": 0,
    "actors": 5, "threads": 1, "chunk_steps": 25, "weights_every": 25, "average_updates": 400,
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


def test_auto_without_a_cluster(tmp_path: Path) -> None:
    """In a process of its own, as an import of Ray decides where it looks; first, before `nodes` starts."""
    if any(process.info["name"] == "raylet" for process in psutil.process_iter(["name"])):
        pytest.skip("a Ray cluster runs on this machine")
    words = ("sweep", "pong", "--cluster", "auto")
    process = started(tmp_path, *words, RAY_TMPDIR=tmp_path, RAY_ADDRESS="")
    (line,) = process.communicate()[1].splitlines()
    assert process.returncode == 2
    assert "--cluster auto" in line
    assert "ray start" in line
    assert not list(tmp_path.iterdir())


def test_catch_is_solved_though_some_actors_have_no_core(trained: tuple[Run, Config]) -> None:
    run, config = trained
    assert 0 < (run._schedule.report()["actors_alive"] or 0) < 5
    assert score(run, config.with_flags({"cluster": "none", "actors": 1})) >= 0.9


def test_an_actor_without_the_rom_is_named(trained: tuple[Run, Config], tmp_path: Path) -> None:
    schedule: Any = trained[0]._schedule
    schedule._pool.close()  # its actors take all cores
    absent = {"environment": "ale", "game": str(tmp_path / "here_alone.bin"), "actors": 1}
    pool, words = ActorPool(trained[1].with_flags(absent), None), r"actor 0 on .* there is no file"
    with closing(pool), pytest.raises(UserError, match=words):
        list(iter(pool.next, "never"))


def test_a_lost_actor_is_named_with_its_machine(caplog: pytest.LogCaptureFixture) -> None:
    pool = ActorPool(Config.from_flags({**CATCH, "network": "small"}), None)
    slot = pool._slots[2]
    slot.host, slot.process, slot.received = "GPU-Box", "77", 1
    pool._give_up(slot, OSError("Lost Node"))
    (line,) = caplog.messages
    assert line == "Starting another actor, as actor 2 on GPU-Box (process 77) died (OSError: Lost Node)"


@pytest.mark.nightly
def test_nodes_die_and_training_goes_on() -> None:
    done = python("tests/soak/kill_nodes.py", "--kills", "2", "--seconds", "5", cwd=PROJECT)
    assert done.returncode == 0, done.stderr


TRAIN_FLAGS = catch(
    cluster="local", actors=2, replay_size=5000, random_steps=200, train_steps=100_000, epochs=3,
    target_steps=200, batch_size=32, checkpoint_minutes=0.01,
)  # fmt: skip


# Of a user, to whom the settings of this folder's conftest.py are unknown.
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}


def started(home: Path, *arguments: str, environment: Any = PLAIN, **variables: object) -> psutil.Popen:
    own = {"PYTHONPATH": SOURCE, "SIMPLE_DQN_HOME": home, **variables}
    command, pipe = [sys.executable, "-P", "-m", "simple_dqn.main", *arguments], subprocess.PIPE
    environment = environment | {name: str(value) for name, value in own.items()}
    return psutil.Popen(
        command, cwd=home, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def wait_for_training(home: Path, process: psutil.Popen, after: int = 0) -> int:
    """Wait for a checkpoint `after` so many steps of training; return its steps."""
    while True:
        assert process.poll() is None, process.communicate()[1]
        saved = next(CheckpointFolder(home / "snapshots" / "catch_checkpoint").usable(), None)
        phase: Any = saved.run["phase"] if saved else {"name": "random"}
        if phase["name"] == "train" and phase["done"] > after:
            return int(phase["done"])
        time.sleep(0.2)


def family(process: psutil.Popen) -> list[psutil.Process]:
    """Return the processes below `process`, but for small ones of Ray's that end within a minute."""
    return [one for one in process.children(recursive=True) if "Agent" not in " ".join(one.cmdline())]


@pytest.mark.parametrize("killed", [False, nightly(True)])
def test_nothing_is_left_behind_and_a_killed_run_goes_on(tmp_path: Path, killed: bool) -> None:
    process = started(tmp_path, "train", *TRAIN_FLAGS)
    steps, processes = wait_for_training(tmp_path, process), family(process)
    assert len(processes) >= 4
    connections = [one for each in [process, *processes] for one in each.net_connections()]
    listening = {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}
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


@pytest.mark.parametrize(("address", "words"), [
    ("127.0.0.1:FREE", ["cannot be reached", "ray start --head"]),
    *((address, ["neither local nor auto nor an address", "10.0.0.1:6379"])
      for address in ("nowhere", "host:", "ray://127.0.0.1:10001", "host:123456")),
], ids=str)  # fmt: skip
def test_an_address_without_a_cluster_is_a_line(
    home: Path, told: Told, address: str, words: list[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = address.replace("FREE", str(free.getsockname()[1]))
        line = told("train", *catch(cluster=address, replay_size=1000), code=2).splitlines()[-1]
    assert line.startswith("simple-dqn train: ")
    assert all(word in line for word in words), line
    assert not [path for path in home.rglob("*") if path.is_file()]


SWEEP_FLAGS = [
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
    begun, short = [], tempfile.mkdtemp(prefix="sw")  # sockets lie in it

    def begin(*words: str) -> psutil.Popen:
        environment = {**os.environ, "TMPDIR": short}
        begun.append(started(tmp_path, "sweep", *words, *SWEEP_FLAGS, environment=environment))
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


BOTH = ["pong", "breakout"]


@pytest.mark.parametrize(
    ("cluster", "games"), [("none", ["breakout"]), nightly("none", BOTH), nightly("local", BOTH)]
)
def test_every_run_ends_despite_kills(tmp_path: Path, sweep: Sweep, cluster: str, games: list[str]) -> None:
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
