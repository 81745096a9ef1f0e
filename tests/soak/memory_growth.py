"""Watches the memory of a long training: once the replay memory is full it must not grow.

    PYTHONPATH=src .venv/bin/python tests/soak/memory_growth.py --minutes 60

Flags that this script does not know go to the training.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

PROJECT = Path(__file__).parents[2]
FULL = 20_000  # experiences that fill the replay memory, by random play
TRAINING = [
    "train", "pong", "--preset", "simple_dqn", "--replay_size", str(FULL), "--random_steps", str(FULL),
    "--train_steps", "50000", "--test_steps", "5000", "--random_seed", "0", "--checkpoint_minutes", "1",
    "--backend", "cpu",
]  # fmt: skip


def resident(process: psutil.Process) -> int:
    """Return the bytes of memory that a process and those that it started hold."""
    return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))


def watch(process: psutil.Process, until: float) -> list[int]:
    """Return what `process` held, each ten seconds until `until`."""
    held = []
    while time.monotonic() < until:
        time.sleep(10)
        if not process.is_running():
            raise SystemExit("the training has ended before its time")
        held.append(resident(process))
    return held


def tested(home: Path) -> bool:
    """Return whether the training in `home` has trained and tested for an epoch."""
    return any("1,test" in path.read_text() for path in home.glob("results/*.csv"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60, help="of training, after the first epoch")
    parser.add_argument("--growth", type=float, default=0.01, help="share of the memory that is allowed")
    flags, others = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        training = subprocess.Popen(
            [sys.executable, "-P", "-m", "simple_dqn.main", *TRAINING, *others],
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(PROJECT / "src"), "SIMPLE_DQN_HOME": folder},
        )
        try:
            # Whatever there is in a run takes memory when it comes for the first time: an epoch of each kind,
            # its snapshot, checkpoints within it. On a busy machine that can take many minutes.
            while not tested(Path(folder)):
                time.sleep(1)
                if training.poll() is not None:
                    raise SystemExit(f"the training ended with {training.returncode}")
            held = watch(psutil.Process(training.pid), time.monotonic() + 60 * flags.minutes)
        finally:
            training.send_signal(signal.SIGKILL)
            training.wait()
    tenth = max(1, len(held) // 10)
    first, last = max(held[:tenth]), max(held[-tenth:])
    growth = last / first - 1
    print(
        f"{first / 1e6:.1f} MB at first, {last / 1e6:.1f} MB after {flags.minutes:g} minutes: {growth:+.2%}"
    )
    if growth >= flags.growth:
        raise SystemExit("the memory grows")


if __name__ == "__main__":
    main()
