"""Kills trainings at random moments, and sees that each goes on as if nothing had happened.

A training is killed (`kill -9`) again and again, with checkpoints every second, and begun anew each time with
`--resume`, until it is through. It must come to what the same training came to that nobody killed: the same
CSV, times aside, and the same weights, bit for bit; and nothing half-written may be left.

    PYTHONPATH=src .venv/bin/python tests/soak/kill_trainings.py --kills 100
"""

import argparse
import csv
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from simple_dqn.snapshot import CheckpointFolder, Snapshot

PROJECT = Path(__file__).parents[2]
SMALL = [
    "--preset", "simple_dqn",
    "--screen_width", "42", "--screen_height", "42", "--random_steps", "1000", "--replay_size", "3000",
    "--target_steps", "200", "--backend", "cpu", "--random_seed", "0", "--threads", "1", "--epochs", "2",
    "--checkpoint_minutes", "0.01", "--log_level", "INFO",
]  # fmt: skip
KINDS = {
    "serial": ["pong"],
    "concurrent": ["pong", "--workers", "4", "--processes", "2", "--concurrent", "true"],
    "compressed": ["breakout", "--replay_compression", "lz4", "--workers", "2"],
    "catch": ["catch", "--environment", "catch"],
}
TIMES = ("total_time", "epoch_time", "steps_per_second")


def start(home: Path, arguments: list[str]) -> "subprocess.Popen[bytes]":
    """Begin a training in `home`, or go on with it; its log goes to the file of `log_of`."""
    home.mkdir(exist_ok=True)
    with log_of(home).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "simple_dqn.main", "train", *arguments, "--resume"],
            cwd=home, stderr=log,
            env=os.environ | {"PYTHONPATH": str(PROJECT / "src"), "SIMPLE_DQN_HOME": "."},
        )  # fmt: skip


def log_of(home: Path) -> Path:
    return home.with_name(f"{home.name}.log")


def has_begun(home: Path) -> bool:
    """Return whether the training that was started in `home` is in its first phase."""
    return "Results are written" in log_of(home).read_text()


def finish(home: Path, arguments: list[str]) -> float:
    """Train to the end, and return for how many seconds there was training."""
    process, begun = start(home, arguments), 0.0
    while process.poll() is None:
        time.sleep(0.02)
        if not begun and has_begun(home):
            begun = time.monotonic()
    if process.returncode:
        raise SystemExit(f"the training ended with {process.returncode}:\n{log_of(home).read_text()}")
    return time.monotonic() - begun


def kill(home: Path, arguments: list[str], seconds: float) -> bool:
    """Train for so long, then kill the training; return whether it was not through before."""
    process = start(home, arguments)
    while process.poll() is None and not has_begun(home):
        time.sleep(0.02)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    if process.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"the training ended with {process.returncode}:\n{log_of(home).read_text()}")
    return process.returncode != 0


def outcome(home: Path) -> tuple[list[dict[str, str]], dict[str, dict[str, np.ndarray]]]:
    """Return the rows of the CSV without times, and the weights of each snapshot."""
    (path,) = (path for path in home.glob("results/*.csv") if not re.search(r"\.\d+\.csv$", path.name))
    with path.open() as file:
        rows = [{k: v for k, v in row.items() if k not in TIMES} for row in csv.DictReader(file)]
    return rows, {path.name: Snapshot.load(path).weights for path in home.glob("snapshots/*.pkl")}


def compare(killed: Path, whole: Path) -> None:
    (rows, weights), (expected_rows, expected_weights) = outcome(killed), outcome(whole)
    assert rows == expected_rows, "the CSVs differ"
    assert weights.keys() == expected_weights.keys(), "the snapshots differ"
    for name, arrays in expected_weights.items():
        for layer, values in arrays.items():
            assert np.array_equal(weights[name][layer], values), f"{layer} differs in {name}"
    left = [path for path in killed.rglob("*") if path.name.endswith(".part") or path.name == "lock"]
    assert not left, f"left behind: {left}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="how often trainings are killed, of all kinds")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--steps", type=int, default=6000, help="of training in an epoch")
    flags = parser.parse_args()
    moments = random.Random(flags.seed)
    kills = damaged = through = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, arguments in KINDS.items():
            command = [
                *arguments,
                *SMALL,
                "--train_steps",
                str(flags.steps),
                "--test_steps",
                str(flags.steps // 3),
            ]
            whole = Path(folder) / kind
            seconds = finish(whole, command)
            own = 0
            while own < -(-flags.kills // len(KINDS)):
                home = Path(folder) / f"{kind} {through}"
                while kill(home, command, moments.uniform(0, seconds / 3)):
                    own += 1
                    damaged += log_of(home).read_text().count("cannot be used")
                    for checkpoints in home.glob("snapshots/*_checkpoint"):
                        if list(checkpoints.glob("run_*.npz")):
                            assert CheckpointFolder(checkpoints).newest() is not None, (
                                f"{home} has no sound one"
                            )
                compare(home, whole)
                through += 1
            kills += own
            print(f"{kind}: killed {own} times; the whole run takes {seconds:.0f} s", flush=True)
    print(f"{kills} kills, {through} trainings came through, all exact; {damaged} checkpoints damaged")


if __name__ == "__main__":
    main()
