"""Demonstrations: steps that a person or an agent played, in a file that training can start from.

The file holds the steps as a replay memory stores them, and the settings that a training must share.
"""

import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simple_dqn.config import Config
from simple_dqn.environment import game_name
from simple_dqn.errors import UserError
from simple_dqn.flags import as_word
from simple_dqn.replay_memory import ReplayMemory, rows_for
from simple_dqn.rules import OF_EXPERIENCE, differing
from simple_dqn.snapshot import archive
from simple_dqn.types import CheckpointState, Step

logger = logging.getLogger(__name__)

FORMAT = "simple-dqn demonstrations 1"
HOW = "with --record_play of ./play.sh or ./test.sh"
FIELDS = ("screens", "actions", "rewards", "terminals", "truncations", "resets", "starts")  # of `Step`


class Recorder:
    """Collects the steps of games, either all of them or only those that a person plays."""

    def __init__(self, path: Path, game: str, config: Config) -> None:
        """Get ready to write to `path`.

        Args:
            path: The file that `save` writes.
            game: The game's name.
            config: The settings to store with the steps.

        Raises:
            UserError: The file cannot be written, or exists already.
        """
        if path.exists():
            raise UserError(f"{path} exists already: give another name, or remove it")
        self._path, self._game = path, game
        self._settings = {name: config.flags()[name] for name in OF_EXPERIENCE}
        self._steps: list[Step] = []
        self._before: Step | None = None  # the last, where it is not kept
        archive.write(path.with_name(f".{path.name}.trial"), {})
        path.with_name(f".{path.name}.trial").unlink()

    def add(self, step: Step, wanted: bool = True) -> None:
        """Keep one `step` of E games if it is `wanted`.

        If a person takes over from an agent in mid-game, an episode begins there. Of the agent's steps only
        the last screen is kept, which is the person's first observation.
        """
        if wanted:
            if self._before is not None:
                self._steps.append(Step.start(self._before.screens))
            self._steps.append(step)
        self._before = None if wanted else step

    def save(self) -> None:
        """Write the collected steps; without any, write no file.

        Raises:
            UserError: The file cannot be written.
        """
        if not self._steps:
            logger.warning("No steps were recorded: %s is not written", self._path)
            return
        # The games are concatenated; the first step of each is marked as a start.
        arrays = {name: np.stack([getattr(step, name) for step in self._steps], 1) for name in FIELDS}
        arrays = {name: array.reshape(-1, *array.shape[2:]) for name, array in arrays.items()}
        content = {"format": FORMAT, "game": self._game, "settings": self._settings, "steps": arrays}
        archive.write(self._path, content)
        logger.info("Wrote %d steps to %s", len(arrays["actions"]), self._path)


class Demonstrations:
    """Recorded steps, read from a file."""

    def __init__(self, config: Config) -> None:
        """Read the file that `config.run.demonstrations` names, for a training with `config`.

        Raises:
            UserError: The file is missing or damaged, or does not fit the training.
        """
        assert config.run.demonstrations
        self._path = Path(config.run.demonstrations)
        if not self._path.is_file():
            raise UserError(f"{self._path} does not exist: record it {HOW}")
        content = archive.read(self._path)
        if content.get("format") != FORMAT:
            raise UserError(f"{self._path} contains no demonstrations: record some {HOW}")
        self._check_fits(content, config)
        self._steps: dict[str, NDArray[Any]] = content["steps"]
        steps, games = len(self._steps["screens"]), config.environment.workers
        self._rows = steps // games
        if self._rows < config.memory.history_length + config.memory.n_step:
            raise UserError(
                f"{self._path} holds {steps} steps, too few for {games} game(s): record more, or lower "
                "--workers"
            )
        kept = games * self._rows
        if self._rows > rows_for(config.memory, games) // 2:
            raise UserError(
                f"{self._path} holds {kept} steps, which stay in the replay memory and may fill at most "
                f"half of it: give a --replay_size of {2 * kept} or more"
            )

    def _check_fits(self, content: CheckpointState, config: Config) -> None:
        """Refuse steps of another game, or with other settings.

        Raises:
            UserError: The game or the settings differ; the message names each of them.
        """
        recorded, game, flags = content["game"], game_name(config.environment), config.flags()
        if recorded != game:
            raise UserError(f"{self._path} was recorded in {recorded}, not in {game}: use one of {game}")
        was = content["settings"]
        if others := differing(OF_EXPERIENCE, was, flags):
            words = " ".join(f"--{name} {as_word(was[name])}" for name in others)
            raise UserError(f"{self._path} was recorded with other settings: give {words}")

    def fill(self, memory: ReplayMemory, games: int) -> None:
        """Add the steps to `memory` for good, split into one piece for each of its `games`.

        Each piece begins like an episode: no action led to its first screen.
        """
        pieces = {
            name: array[: games * self._rows].reshape(games, self._rows, *array.shape[1:])
            for name, array in self._steps.items()
        }
        for row in range(self._rows):
            step = Step(**{name: piece[:, row] for name, piece in pieces.items()})
            memory.add(Step.start(step.screens) if row == 0 else step)
        memory.keep()
        logger.info(
            "The replay memory starts with %d steps of %s, and keeps them", games * self._rows, self._path
        )
