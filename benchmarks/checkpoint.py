"""What checkpoints cost: training with and without them, in turns, and how long they hold training up.

PYTHONPATH=src:benchmarks .venv/bin/python benchmarks/checkpoint.py --game pong --steps 20000 --rounds 3
"""

import statistics
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import command
from command import positive
from table import machine, print_table

from simple_dqn.config import Config
from simple_dqn.interrupt import Interrupt
from simple_dqn.snapshot import Keeper
from simple_dqn.training import Epochs
from simple_dqn.wiring import make_run


class Held:
    """Counts the calls of a method, and the seconds for which they hold up whoever calls."""

    def __init__(self) -> None:
        self.calls, self.seconds = 0, 0.0

    def watch(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return method(*arguments, **named)
            finally:
                self.seconds += time.perf_counter() - start
                self.calls += 1

        return watched


def train(flags: dict[str, Any]) -> float:
    """Train for one epoch, and return the steps made in a second."""
    with Interrupt() as interrupt, closing(make_run(Config.from_flags(flags), interrupt)) as run:
        run.begin()
        book = run.agent.ledger.books["train"]
    return book.steps / book.wall


def main(words: Sequence[str]) -> None:
    """Print the table."""
    parser = command.parser("checkpoint", __doc__)
    add = parser.add_argument
    add("--game", type=command.game, default="pong")
    add("--steps", type=positive(int), default=20_000, help="of training in each round")
    add("--rounds", type=positive(int), default=3, help="each once with and once without")
    add("--checkpoint_minutes", type=positive(float), default=1.0)
    given = Namespace(**parser.parse(words))
    without = {
        "game": given.game, "random_steps": 5000, "train_steps": given.steps, "test_steps": 0, "epochs": 1,
        "replay_size": 100_000, "random_seed": 0,
    }  # fmt: skip
    checkpoints, steps = Held(), Held()
    # The states are collected and copied while training stands still; the last one waits for the disk.
    rates: dict[str, list[float]] = {"without": [], "with": []}
    with (
        patch.object(Epochs, "_save_checkpoint", checkpoints.watch(Epochs._save_checkpoint)),
        patch.object(Keeper, "log", steps.watch(Keeper.log)),
        tempfile.TemporaryDirectory() as folder,
    ):
        kept = {"save_weights_prefix": f"{folder}/x", "checkpoint_minutes": given.checkpoint_minutes}
        for _ in range(given.rounds):
            rates["without"].append(train(without))
            rates["with"].append(train(without | kept))
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    print(machine())
    print_table(
        f"Training in {given.game} with a checkpoint each {given.checkpoint_minutes:g} min, "
        f"{given.rounds} rounds of {given.steps} steps",
        ("", "median steps/s", "least", "most"),
        [
            (name, *(f"{value:.0f}" for value in (statistics.median(those), min(those), max(those))))
            for name, those in rates.items()
        ],
    )
    each = checkpoints.seconds / max(1, checkpoints.calls)
    print(
        f"\na checkpoint holds training up for {1e3 * each:.1f} ms, {each / 600:.3%} of 10 minutes; "
        f"a step for {1e6 * steps.seconds / max(1, steps.calls):.1f} µs; {size / 1e6:.1f} MB on the disk"
    )


if __name__ == "__main__":
    sys.exit(command.console("checkpoint", main))
