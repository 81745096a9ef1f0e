"""How good a trained network is, by protocols that others can compare with."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn.config import Config
from simple_dqn.environment import Environment
from simple_dqn.files import replacing
from simple_dqn.human_scores import SOURCE, human_normalised
from simple_dqn.interrupt import Interrupt
from simple_dqn.player import Player
from simple_dqn.scores import Scores
from simple_dqn.statistics import PhaseOutcome, Statistics
from simple_dqn.types import Step

MINUTE = 60 * 60  # frames


@dataclass(frozen=True)
class Protocol:
    """Rules of a test."""

    source: str  # who laid them down
    games: int | None  # games played to the end; None: `test_steps` steps instead
    flags: dict[str, Any] = field(default_factory=dict)  # settings that it asks for


PROTOCOLS = {
    "simple_dqn": Protocol("simple_dqn: one test epoch", games=None),
    "nature": Protocol(
        "Mnih et al. (2015)",
        games=30,
        flags={
            "exploration_rate_test": 0.05,
            "random_starts": 30,
            "max_game_frames": 5 * MINUTE,
            "repeat_action_probability": 0.0,
        },
    ),
    # The agents of that paper act with the ε at which training ends, 0.01.
    "machado": Protocol(
        "Machado et al. (2018)",
        games=30,
        flags={
            "exploration_rate_test": 0.01,
            "random_starts": 0,
            "max_game_frames": 30 * MINUTE,
            "repeat_action_probability": 0.25,
            "minimal_action_set": False,
        },
    ),
}


@dataclass(frozen=True)
class Evaluation:
    """The outcome of a test, with all that it depends on."""

    game: str
    protocol: str
    scores: list[float]  # raw points of each finished game, in the order in which they ended
    mean: float | None
    standard_deviation: float | None  # of the games
    human_normalised: float | None  # percent: 0 is random play, 100 a human tester
    steps: int  # over all games
    exploration_rate: float
    random_starts: int  # steps of doing nothing at the start of a game, at most
    max_game_frames: int  # frames, 0: no limit
    repeat_action_probability: float
    minimal_action_set: bool
    rom_md5: str | None
    random_seed: int
    human_source: str = SOURCE  # of the human's score

    def __str__(self) -> str:
        """Return the report that a person reads."""
        if self.mean is None:
            score = f"no game ended in {self.steps} steps: raise --test_steps or give --play_games"
        else:
            games = f"{len(self.scores)} game{'s' if len(self.scores) != 1 else ''}"
            score = f"{self.mean:.2f} ± {self.standard_deviation:.2f} over {games}"
            if self.human_normalised is not None:
                score += f", {self.human_normalised:.1f} % of human ({self.human_source})"
        cap = f"{self.max_game_frames / MINUTE:g} minutes of play" if self.max_game_frames else "none"
        return "\n".join(
            (
                f"{self.game}: {score}",
                f"  protocol {self.protocol} ({PROTOCOLS[self.protocol].source}), seed {self.random_seed}, "
                f"{self.steps} steps",
                f"  ε {self.exploration_rate:g}, up to {self.random_starts} no-ops, cap {cap}, "
                f"sticky actions {self.repeat_action_probability:g}, "
                f"{'minimal' if self.minimal_action_set else 'full'} action set",
                f"  ROM MD5 {self.rom_md5 or 'none'}",
            )
        )

    def write_json(self, path: Path) -> None:
        """Write the same as JSON.

        Raises:
            UserError: The file cannot be written.
        """
        with replacing(path) as beside:
            beside.write_text(json.dumps(asdict(self), indent=2) + "\n")


class ScoreBoard:
    """The scores of E games side by side, and of all that have ended."""

    def __init__(self, places: int, games: int | None) -> None:
        """Share `games` out among the places; None: no limit.

        Each place plays a fixed number of games: to take the first to end would favour short ones.
        """
        self.scores: list[float] = []  # of the games that ended, in that order
        self.steps = 0  # over all games
        self._running = Scores(np.zeros(places))
        if games is None:
            self._to_play = np.full(places, np.iinfo(np.int64).max)
        else:
            self._to_play = games // places + (np.arange(places) < games % places)

    @property
    def complete(self) -> bool:
        """Whether every place has played its share."""
        return not (self._to_play > 0).any()

    def add(self, step: Step) -> list[float]:
        """Count one step of every game; return the scores of those that ended and count."""
        self.steps += len(step.rewards)
        counting = self._to_play[step.resets] > 0
        scores = [score for score, counts in zip(self._running.add(step), counting, strict=True) if counts]
        self.scores += scores
        self._to_play -= step.resets
        return scores


def evaluate(
    player: Player,
    config: Config,
    protocol: str,
    statistics: Statistics,
    interrupt: Interrupt,
    keep: Callable[[Step], None] | None = None,
) -> Evaluation:
    """Play by `protocol`, whose settings `config` already holds, and return the outcome.

    `config.run.play_games` asks for that many games, whatever the protocol. `keep` is told of every step.
    """
    rate = config.agent.exploration_rate_test
    games = config.run.play_games or PROTOCOLS[protocol].games
    board = ScoreBoard(player.environment.games, games)
    steps = 0 if games else config.run.test_steps
    statistics.on_phase_start("play" if config.run.play_games else "test", config.run.start_epoch, steps)
    step = player.start()
    if keep:
        keep(step)
    while not (board.complete or (steps and board.steps >= steps) or interrupt.requested):
        step = player.step(rate)
        if keep:
            keep(step)
        # A place that has played its share plays on unheard, in the CSV as in the report.
        statistics.on_chunk(len(step.rewards), board.add(step), rate)
    statistics.on_phase_end(
        PhaseOutcome(total_train_steps=0, replay_memory_count=0, meanq=None, weight_updates=0)
    )
    return _report(player.environment, config, protocol, board)


def _report(environment: Environment, config: Config, protocol: str, board: ScoreBoard) -> Evaluation:
    mean = float(np.mean(board.scores)) if board.scores else None
    return Evaluation(
        game=environment.name,
        protocol=protocol,
        scores=board.scores,
        mean=mean,
        standard_deviation=float(np.std(board.scores)) if board.scores else None,
        human_normalised=None if mean is None else human_normalised(environment.name, mean),
        steps=board.steps,
        exploration_rate=config.agent.exploration_rate_test,
        random_starts=config.environment.random_starts,
        max_game_frames=config.environment.max_game_frames,
        repeat_action_probability=config.environment.repeat_action_probability,
        minimal_action_set=config.environment.minimal_action_set,
        rom_md5=environment.rom_md5,
        random_seed=config.seed,
    )
