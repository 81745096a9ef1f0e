"""A short training, to see how fast a long one will be."""

import threading
from contextlib import closing
from pathlib import Path

from simple_dqn.config import PRESETS, USUAL, Config
from simple_dqn.doctor.findings import Check, Finding, Level
from simple_dqn.errors import UserError
from simple_dqn.interrupt import Interrupt

GAME = "pong"
# The rate of random actions is the last one, which most of a run is played with; nothing is written.
FLAGS = {
    "exploration_rate_start": 0.1,
    "replay_size": 10_000,
    "random_steps": 1_000,
    "train_steps": 10**6,
    "test_steps": 0,
    "epochs": 1,
    "random_seed": 1,
}
SLOW = 100  # steps a second: Pong then takes an hour and a half to learn, and not a quarter of one


def trial_of(seconds: float, game: str = GAME) -> Check:
    """Return a check that trains for so many seconds."""

    def trial(_home: Path) -> Finding:
        """Look at how many steps a second a run with the settings of `train.sh` makes."""
        usual = Config.from_flags({**PRESETS[USUAL], "game": game})
        rate = steps_per_second(usual.with_flags(FLAGS), seconds)
        minutes = usual.run.train_steps / rate / 60
        text = f"{rate:.0f} steps/s of training by {USUAL}: {minutes:.1f} minutes for an epoch"
        if rate < SLOW:
            advice = "see that no other program keeps the cores busy, or take a machine with a GPU"
            return Finding(Level.WARNING, text, advice)
        return Finding(Level.OK, text)

    return trial


def steps_per_second(config: Config, seconds: float) -> float:
    """Train by `config` for so many seconds, and return the steps of training in each.

    Raises:
        UserError: It cannot be trained here.
        KeyboardInterrupt: It was told to stop.
    """
    from simple_dqn.wiring import make_run

    with Interrupt() as interrupt, closing(make_run(config, interrupt)) as run:

        def stop() -> None:
            interrupt.requested = True

        timer = threading.Timer(seconds, stop)
        timer.start()
        try:
            run.begin()
            told_to_stop = not timer.finished.is_set()
        finally:
            timer.cancel()
    if told_to_stop:
        raise KeyboardInterrupt
    book = run.agent.ledger.books["train"]
    if not book.steps:
        raise UserError(f"{seconds:g} seconds did not suffice to begin a training: raise --trial_seconds")
    return book.steps / book.wall
