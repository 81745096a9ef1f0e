"""Training, and environments, from Python."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn import rules
from simple_dqn.config import words
from simple_dqn.environment import Environment, as_played
from simple_dqn.errors import UserError
from simple_dqn.own_code import import_code
from simple_dqn.run import make_environment
from simple_dqn.snapshot import snapshots_after
from simple_dqn.statistics import PhaseSummary, Writer
from simple_dqn.types import Actions, CheckpointState, Step
from simple_dqn.verbs.settings import settings_for
from simple_dqn.verbs.train import learn, read


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
        game: The name of a game, the path of a ROM, FILE.py, or an id of Gymnasium's.
        preset: The settings that `flags` change; None: `quick`, or those of `config=FILE`.
        label: Part of the names of the files in `results/` and `snapshots/`.
        on_phase_end: Called after each phase with its row of the CSV, by column.
        flags: Settings, such as `epochs=5`; and `imports`, your own files or modules to run first.

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
    if on_phase_end is not None and not callable(on_phase_end):
        raise UserError(f"on_phase_end is {on_phase_end!r}: give a function of a row, such as print")
    if "play_games" in flags:
        raise UserError("play_games is not for a training: use simple_dqn.load(SNAPSHOT).evaluate(games=...)")
    calls = [rows.append, *([on_phase_end] if on_phase_end else [])]
    labels = [] if label is None else [checked_word("label", label)]
    given = _read_train(game, flags if preset is None else {"preset": preset, **flags}, labels)
    run = learn(given, [_PhaseEnds(calls)], log=not logging.getLogger().handlers)
    rewards = [row["average_reward"] for row in rows if row["average_reward"] is not None]
    snapshots = snapshots_after(Path(run.save_weights_prefix), 0) if run.save_weights_prefix else []
    return TrainingRun(Path(run.csv_file) if run.csv_file else None, snapshots, (rewards or [None])[-1])


def make(game: str, games: int = 1, training: bool = False, seed: int = 0, **flags: Any) -> Environment:
    """Return E games side by side, with screens of the agent's size.

    Args:
        game: The name of a game, the path of a ROM, FILE.py, or an id of Gymnasium's.
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
    check_switch("training", training)
    asked = {"preset": "simple_dqn", "workers": games, "random_seed": seed, **flags}
    config = settings_for("train", _read_train(game, asked))
    if config.run.random_seed is None:
        raise UserError("seed is None: give a whole number, such as 0")
    rules.check_games(config)
    played = replace(config, environment=as_played(config.environment))
    return CheckedEnvironment(make_environment(played, training))


def _read_train(game: object, flags: Mapping[str, Any], labels: Sequence[str] = ()) -> dict[str, Any]:
    return read([checked_word("game", game), *labels, *as_words(flags)], "simple-dqn train")


def checked_word(name: str, value: object) -> str:
    """Return `value`, a word or a path, as a word of a command line.

    Raises:
        UserError: It is neither, or would be taken for a flag.
    """
    word = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(word, str) or not word or word.startswith("-"):
        raise UserError(f"{name} is {value!r}: give a word or a path, such as 'pong'")
    return word


def check_switch(name: str, value: object) -> None:
    """Raise UserError unless `value` is True or False: any word, "no" too, would be taken for True."""
    if not isinstance(value, bool):
        raise UserError(f"{name} is {value!r}: give True or False")


def as_words(flags: Mapping[str, Any]) -> list[str]:
    """Return `flags` as on the command line, and run what `imports` names.

    Raises:
        UserError: One would print and end the program, or an import fails.
    """
    for name in {"help", "h", "print_config"} & flags.keys():
        raise UserError(f"{name} is for the command line: leave it out")
    import_code(flags.get("imports") or ())
    return words({name: value for name, value in flags.items() if name != "imports"})


class CheckedEnvironment(Environment):
    """An environment that refuses wrong calls. Training makes none, and does without the checks."""

    def __init__(self, environment: Environment) -> None:
        """Wrap `environment`, whose games have not begun."""
        self._inner, self._begun, self._closed = environment, False, False
        for name in Environment.__annotations__:
            setattr(self, name, getattr(environment, name))

    def reset(self) -> Step:
        """See `Environment`."""
        self._check_open()
        self._begun = True
        return self._inner.reset()

    def step(self, actions: Actions) -> Step:
        """See `Environment`.

        Raises:
            UserError: The actions are no integers [E] from 0 to A - 1, or the games have not begun or are
                closed.
        """
        self._check_open()
        if not self._begun:
            raise UserError("the games have not begun: call reset() before step()")
        wanted = f"give int64 [{self.games}] from 0 to {self.actions - 1}"
        try:
            given = np.asarray(actions)
        except (TypeError, ValueError):  # rows of several lengths
            raise UserError(f"the actions are no array: {wanted}") from None
        if given.dtype.kind not in "iu" or given.shape != (self.games,):
            raise UserError(f"the actions are {given.dtype} {list(given.shape)}: {wanted}")
        if ((given < 0) | (given >= self.actions)).any():
            raise UserError(f"the actions are {given.tolist()}: {wanted}")
        return self._inner.step(given.astype(np.int64))

    def get_state(self) -> CheckpointState:
        """See `Environment`."""
        self._check_open()
        return self._inner.get_state()

    def set_state(self, state: CheckpointState) -> None:
        """See `Environment`.

        Raises:
            UserError: It is no state of these games; `reset` must be called, as it may be set in part.
        """
        self._check_open()
        self._begun = False
        try:
            self._inner.set_state(state)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise UserError("the state is none of these games: give what get_state() returned") from None
        self._begun = True

    def close(self) -> None:
        """See `Environment`; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._inner.close()

    def _check_open(self) -> None:
        if self._closed:
            raise UserError("the environment is closed: make another one")
