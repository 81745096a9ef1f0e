"""Compares trainings with `--emulator ale` and `--emulator warp`: the CSV must be the same, except for times.

Run it with `PYTHONPATH=src`:

    python scripts/compare_emulators.py [GAME ...]    every game that `--emulator warp` plays, or only these

Each training has one epoch of 1,000 random steps, 1,000 training steps and 500 steps of test with a tiny
network, about ten seconds for a game.
"""

import csv
import os
import sys
import tempfile
from pathlib import Path

from atari2600.rules import RULES
from simple_dqn import main

TIMES = {"total_time", "epoch_time", "steps_per_second"}
FLAGS = """--color_averaging false --epochs 1 --network small --screen_width 42 --screen_height 42
    --random_steps 1000 --train_steps 1000 --test_steps 500 --replay_size 2000 --train_frequency 16
    --backend cpu --threads 1 --checkpoint_minutes 0 --log_level WARNING --random_seed 1"""


def rows_of(game: str, emulator: str) -> list[dict[str, str]]:
    """Train in the current folder; return the rows of the CSV without times."""
    code = main.run(["train", game, emulator, "--emulator", emulator, *FLAGS.split()])
    assert code == 0, (game, emulator, code)
    with Path(f"results/{game}_{emulator}.csv").open() as file:
        return [{name: row[name] for name in row if name not in TIMES} for row in csv.DictReader(file)]


def compare(games: list[str]) -> int:
    """Print a line for each game; return the number of games that differ."""
    different = 0
    for game in games:
        one, other = (rows_of(game, emulator) for emulator in ("ale", "warp"))
        names = sorted(
            {name for row, same in zip(one, other, strict=True) for name in row if row[name] != same[name]}
        )
        different += bool(names)
        print(f"{game}: {', '.join(names) or 'equal'}", flush=True)
    return different


if __name__ == "__main__":
    os.environ["SIMPLE_DQN_HOME"] = "."
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.exit(int(compare(sys.argv[1:] or sorted(RULES)) > 0))
