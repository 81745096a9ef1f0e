"""Training, and environments, from Python."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simple_dqn import rules
from simple_dqn.environment import Environment, as_played
from simple_dqn.flags import words
from simple_dqn.snapshot import snapshots_after
from simple_dqn.statistics import PhaseSummary, Writer
from simple_dqn.verbs.settings import settings_for
from simple_dqn.verbs.train import learn, read
from simple_dqn.wiring import make_environment


@dataclass(frozen=True)
class TrainingRun:
    """The files and the score of a finished run."""

    csv_file: Path | None
    snapshots: list[Path]  # by epoch
    mean_reward: float | None  # of the last phase in which a game ended, raw game points; None: none did


class _PhaseEnds(Writer):
    """Calls functions with the row of each phase."""

    def __init__(self, calls: list[Callable[[dict[str, Any]], object]]) -> None:
        self._calls = calls

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """See `Writer`."""
        for call in self._calls:
            call(summary.row())


def train(
    game: str,
    preset: str | None = None,
    label: str | None = None,
    on_phase_end: Callable[[dict[str, Any]], object] | None = None,
    **flags: Any,
) -> TrainingRun:
    """Train an agent as `./train.sh GAME LABEL --preset PRESET --FLAG VALUE ...` does, and wait for its end.

    Ctrl-C stops the run cleanly, writes a checkpoint and raises KeyboardInterrupt; `resume=True` continues
    from there. Unless the application has configured logging, the run logs to standard error.

    Args:
        game: The name of a game, the path of a ROM, or FILE.py.
        preset: The settings that `flags` change; None: `quick`, or those of `config=FILE`.
        label: Part of the names of the files in `results/` and `snapshots/`.
        on_phase_end: Called after each phase with its row of the CSV, by column.
        flags: Settings, such as `epochs=5`.

    Returns:
        The paths of the CSV and the snapshots, and the last mean reward.

    Raises:
        UserError: A flag is unknown, out of range or contradicts another, or a file cannot be written.
        KeyboardInterrupt: A signal ended the run.

    Example:
        >>> run = simple_dqn.train("pong", epochs=5, on_phase_end=print)
        >>> simple_dqn.load(run.snapshots[-1])
    """
    rows: list[dict[str, Any]] = []
    calls = [rows.append, *([on_phase_end] if on_phase_end else [])]
    flags = {"preset": preset, **flags} if preset else flags
    arguments = [game, *([label] if label else []), *words(flags)]
    given = read(arguments, "simple-dqn train")
    run = learn(given, [_PhaseEnds(calls)], log=not logging.getLogger().handlers)
    rewards = [row["average_reward"] for row in rows if row["average_reward"] is not None]
    snapshots = snapshots_after(Path(run.save_weights_prefix), 0) if run.save_weights_prefix else []
    return TrainingRun(Path(run.csv_file) if run.csv_file else None, snapshots, (rewards or [None])[-1])


def make(game: str, games: int = 1, training: bool = False, seed: int = 0, **flags: Any) -> Environment:
    """Return E games side by side, with screens of the agent's size.

    Args:
        game: The name of a game, the path of a ROM, or FILE.py.
        games: The number of games, E.
        training: Whether a lost life ends an episode.
        seed: The seed of all random streams.
        flags: Settings, such as `screen_width=64` or `preset="quick"`; without a preset the defaults apply.

    Returns:
        The environment: `reset()` and `step(actions int64 [E])` return a `Step`, whose screens are
        uint8 [E, H, W].

    Raises:
        UserError: The game does not exist, or a flag is unknown or out of range.

    Example:
        >>> environment = simple_dqn.make("pong", games=8)
        >>> environment.reset().screens.shape
        (8, 84, 84)
    """
    asked = {"preset": "simple_dqn", "workers": games, "random_seed": seed, **flags}
    given = read([game, *words(asked)], "simple-dqn train")
    config = settings_for("train", given)
    rules.check_games(config)
    return make_environment(replace(config, environment=as_played(config.environment)), training)
