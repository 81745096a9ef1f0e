"""Kills trainings at random moments, and sees that each goes on as if nothing had happened.

A training is killed (`kill -9`) again and again, with checkpoints every second, and begun anew each time with
`--resume`, until it is through. It must come to what the same training came to that nobody killed: the same
CSV, times aside, and the same weights, bit for bit; and nothing half-written may be left.

    PYTHONPATH=src:. .venv/bin/python tests/soak/kill_trainings.py --kills 100
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from simple_dqn.snapshot import CheckpointFolder
from tests.test_resume import assert_same

PROJECT = Path(__file__).parents[2]
SMALL = [
    "--preset", "simple_dqn",
    "--screen_width", "42", "--screen_height", "42", "--random_steps", "1000", "--replay_size", "3000",
    "--target_steps", "200", "--backend", "cpu", "--random_seed", "0", "--threads", "1", "--epochs", "2",
    "--checkpoint_minutes", "0.01", "--log_level", "INFO",
]  # fmt: skip
KINDS = {
    "serial": ["pong"],
    "concurrent": ["pong", "--workers", "4", "--processes", "2", "--schedule", "concurrent"],
    "compressed": ["breakout", "--replay_compression", "lz4", "--workers", "2"],
    "catch": ["catch", "--environment", "catch"],
}


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


def train(home: Path, arguments: list[str], seconds: float | None = None) -> float | None:
    """Train to the end, and return for how many seconds there was training; None: killed after `seconds`."""
    process, begun = start(home, arguments), 0.0
    while process.poll() is None:
        time.sleep(0.02)
        if not begun and "Results are written" in log_of(home).read_text():
            begun = time.monotonic()
        if seconds is not None and begun and time.monotonic() - begun > seconds:
            process.kill()
            process.wait()
    if process.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"the training ended with {process.returncode}:\n{log_of(home).read_text()}")
    return None if process.returncode else time.monotonic() - begun


def compare(killed: Path, whole: Path) -> None:
    for copy in killed.glob("results/*.[0-9].csv"):
        copy.unlink()  # with rows that were written after the last checkpoint
    assert_same(killed, whole)
    left = [path for path in killed.rglob("*") if path.name.endswith(".part") or path.name == "lock"]
    assert not left, f"left behind: {left}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="how often trainings are killed, of all kinds")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--steps", type=int, default=6000, help="of training in an epoch")
    flags = parser.parse_args()
    moments = random.Random(flags.seed)
    steps = ["--train_steps", str(flags.steps), "--test_steps", str(flags.steps // 3)]
    with tempfile.TemporaryDirectory() as folder:
        for kind, arguments in KINDS.items():
            command, whole = [*arguments, *SMALL, *steps], Path(folder, kind)
            seconds = train(whole, command) or 0.0
            kills = through = 0
            while kills < -(-flags.kills // len(KINDS)):
                home = Path(folder, f"{kind} {through}")
                while train(home, command, moments.uniform(0, seconds / 3)) is None:
                    kills += 1
                    for checkpoints in home.glob("snapshots/*_checkpoint"):
                        usable = CheckpointFolder(checkpoints).newest() or not list(checkpoints.glob("run_*"))
                        assert usable, f"{home} has no sound checkpoint"
                compare(home, whole)
                through += 1
            print(f"{kind}: killed {kills} times, {through} trainings came through, all exact", flush=True)


if __name__ == "__main__":
    main()
