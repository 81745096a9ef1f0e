"""Watches the memory of a long training: once the replay memory is full it must not grow.

    PYTHONPATH=src .venv/bin/python tests/soak/memory_growth.py --minutes 60

Flags that this script does not know go to the training.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

PROJECT = Path(__file__).parents[2]
GROWTH = 0.01  # share of the memory that is allowed
TRAINING = [
    "train", "pong", "--preset", "simple_dqn", "--replay_size", "20000", "--random_steps", "20000",
    "--train_steps", "50000", "--test_steps", "5000", "--random_seed", "0", "--checkpoint_minutes", "1",
    "--backend", "cpu",
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60, help="of training, after the first epoch")
    flags, others = parser.parse_known_args()
    held: list[int] = []  # bytes of all processes, every ten seconds
    with tempfile.TemporaryDirectory() as folder:
        training = psutil.Popen(
            [sys.executable, "-P", "-m", "simple_dqn.main", *TRAINING, *others],
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(PROJECT / "src"), "SIMPLE_DQN_HOME": folder},
        )
        try:
            # All that a run has takes memory when it comes for the first time: an epoch of each kind, its
            # snapshot, checkpoints within it. On a busy machine that can take many minutes.
            while not held or len(held) < 6 * flags.minutes:
                time.sleep(10)
                if training.poll() is not None:
                    raise SystemExit(f"the training ended with {training.returncode}")
                if any("1,test" in path.read_text() for path in Path(folder).glob("results/*.csv")):
                    processes = [training, *training.children(recursive=True)]
                    held.append(sum(process.memory_info().rss for process in processes))
        finally:
            training.kill()
            training.wait()
    tenth = max(1, len(held) // 10)
    first, last = max(held[:tenth]), max(held[-tenth:])
    print(f"{first / 1e6:.1f} MB at first, {last / 1e6:.1f} MB in the end: {last / first - 1:+.2%}")
    if last / first - 1 >= GROWTH:
        raise SystemExit("the memory grows")


if __name__ == "__main__":
    main()
