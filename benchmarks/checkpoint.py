"""Cost of checkpoints: steps/s with and without them, and the time during which they block training.

./bench.sh checkpoint --game pong --steps 20000 --rounds 3
"""

import statistics
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import common
from common import machine, positive, print_table

import simple_dqn
from simple_dqn.run import Run
from simple_dqn.snapshot.saver import Saver

SETTINGS: dict[str, Any] = {
    "random_steps": 5000, "test_steps": 0, "epochs": 1, "replay_size": 100_000, "random_seed": 0,
    "csv_file": None, "log_level": "WARNING",
}  # fmt: skip


class Timer:
    """Counts the calls of a method and the seconds spent in it."""

    def __init__(self) -> None:
        self.calls, self.seconds = 0, 0.0

    def wrap(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            result = method(*arguments, **named)
            self.seconds += time.perf_counter() - start
            self.calls += 1
            return result

        return timed


def train(game: str, **settings: Any) -> float:
    """Train for one epoch, and return the steps/s."""
    rows: list[dict[str, Any]] = []
    simple_dqn.train(game, "simple_dqn", on_phase_end=rows.append, **SETTINGS, **settings)
    return float(rows[-1]["steps_per_second"])


def main(words: Sequence[str]) -> None:
    """Print the table."""
    parser = common.parser("checkpoint", __doc__)
    add = parser.add_argument
    add("--game", type=common.game, default="pong", help="(default: %(default)s)")
    add("--steps", type=positive(int), default=20_000, help="training steps per round (default: 20000)")
    add("--rounds", type=positive(int), default=3, help="pairs of runs, with and without (default: 3)")
    add("--checkpoint_minutes", type=positive(float), default=1.0, help="between checkpoints (default: 1)")
    given = Namespace(**parser.parse(words))
    checkpoints, steps = Timer(), Timer()
    # A checkpoint blocks training while it copies the state; only the last one also waits for the disk.
    rates: dict[str, list[float]] = {"without": [], "with": []}
    with (
        patch.object(Run, "_save_checkpoint", checkpoints.wrap(Run._save_checkpoint)),
        patch.object(Saver, "log", steps.wrap(Saver.log)),
        tempfile.TemporaryDirectory() as folder,
    ):
        saving = {"save_weights_prefix": f"{folder}/x", "checkpoint_minutes": given.checkpoint_minutes}
        for _ in range(given.rounds):
            rates["without"].append(train(given.game, train_steps=given.steps, save_weights_prefix=None))
            rates["with"].append(train(given.game, train_steps=given.steps, **saving))
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    print(machine())
    print_table(
        f"Training in {given.game}, a checkpoint every {given.checkpoint_minutes:g} minutes, "
        f"{given.rounds} rounds of {given.steps} steps",
        ("checkpoints", "median steps/s", "minimum", "maximum"),
        [
            (name, *(f"{value:.0f}" for value in (statistics.median(measured), min(measured), max(measured))))
            for name, measured in rates.items()
        ],
    )
    each = checkpoints.seconds / checkpoints.calls
    print(
        f"\nA checkpoint blocks training for {1e3 * each:.1f} ms ({each / 600:.3%} of 10 minutes), "
        f"and logging a step takes {1e6 * steps.seconds / steps.calls:.1f} µs. "
        f"The files take {size / 1e6:.1f} MB."
    )


if __name__ == "__main__":
    sys.exit(common.console("checkpoint", main))
