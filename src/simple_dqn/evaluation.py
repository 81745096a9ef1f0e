"""Tests of a network: which games count, published protocols, and scores in percent of a human tester's.

`human_scores.csv` has raw game points: those of random play and of a professional human tester, in games that
start with up to 30 no-ops (Wang et al. 2016, Dueling Network Architectures, arXiv:1511.06581, appendix), and
those of published agents. dqn_zoo and Agent57 use the same human scores. Mnih et al. 2015 (extended data
table 2) have others for 49 games, such as 9.3 in Pong instead of 14.6; docs/results.md quotes those, and has
the conditions of the agents. Games have the names of ale-py's ROMs.
"""

import csv
import json
import logging
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn.agent import Player
from simple_dqn.config import Config, as_word, words
from simple_dqn.errors import Interrupt
from simple_dqn.files import replacing
from simple_dqn.statistics import GameScores, Statistics
from simple_dqn.types import CheckpointState, Step

logger = logging.getLogger(__name__)

MINUTE = 60 * 60  # frames
# Settings that the report contains.
REPORTED_SETTINGS = (
    "random_starts", "random_start_frames", "max_game_frames", "repeat_action_probability", "frame_skip",
    "color_averaging", "frame_maximum", "minimal_action_set",
)  # fmt: skip
ALL_ACTIONS = 18  # of a joystick with one button
DEFAULTS = Config().flags()  # those of simple_dqn
JSON = (b"{",)  # how a file of `write_json` begins
SOURCE = "Wang et al. 2016"  # printed with each human-normalized score
# Column -> the player of these scores, and their source.
NAMES = {
    "human": ("a person", SOURCE),
    "random": ("random play", SOURCE),
    "simple_dqn": ("simple_dqn", "its best test epoch"),
    "deepmind": ("DeepMind", "Mnih et al. 2015"),
}
with Path(__file__).with_name("human_scores.csv").open(newline="") as file:
    # Game -> column -> score, in raw game points.
    SCORES: dict[str, dict[str, float]] = {
        row.pop("game"): {name: float(score) for name, score in row.items() if score}
        for row in csv.DictReader(file)
    }


def references(game: str) -> dict[str, float]:
    """Return published scores in `game`, in raw game points, the highest first, by agent and source."""
    known = sorted(((score, NAMES[name]) for name, score in SCORES.get(game, {}).items()), reverse=True)
    return {f"{name} {score:,g} ({source})".replace("-", "−"): score for score, (name, source) in known}


def human_normalized(game: str, score: float) -> float | None:
    """Return `score`, raw game points, in percent: 0 is random play, 100 a person; None: not in the table."""
    if game not in SCORES:
        return None
    random, human = SCORES[game]["random"], SCORES[game]["human"]
    return 100 * (score - random) / (human - random)


class ScoreBoard:
    """Decides which games of a test count. It has E workers, each of which plays one game after another.

    In a test by games, each worker plays a fixed share of them: the first games to end would be short ones.

    In a test by steps, the games that begin within these steps count, except the last worker's game in
    progress at the limit. The other workers finish their games, and the test ends with the last of these.
    With one worker this is the test of simple_dqn, which drops its only unfinished game.

    Why exactly one: long games score more, and a limit of steps selects among them. If all n games count,
    their mean is too high by b / n, where b is the covariance of length and score over the mean length. The
    game in progress at the limit is longer than the others, so dropping it lowers the mean by b / n, and the
    two cancel. Dropping those of all E workers would lower it by E b / n. `./bench.sh step_limit` simulates
    the three rules.
    """

    def __init__(self, workers: int, games: int = 0, steps: int = 0) -> None:
        """Set up a test by E = `workers` of `games`, or of those that begin within `steps`; 0: no limit."""
        self.scores: list[float] = []  # of the games that count, in the order of their ends
        self.steps = 0  # over all workers
        self._limit = steps or math.inf
        self._finishing = False  # whether the limit of steps is reached
        self._running = GameScores(np.zeros(workers))
        # int64 [E], the number of games still to count of each worker.
        self._to_play = np.full(workers, np.iinfo(np.int64).max)
        if games:
            self._to_play = games // workers + (np.arange(workers) < games % workers)

    @property
    def complete(self) -> bool:
        """Whether all games that count have ended."""
        return bool((self._to_play <= 0).all())

    def add(self, step: Step) -> list[float]:
        """Add one step of every worker; return the scores of the games that ended and count."""
        self.steps += len(step.rewards)
        counting = self._to_play[step.resets] > 0
        scores = [score for score, counts in zip(self._running.add(step), counting, strict=True) if counts]
        self.scores += scores
        self._to_play -= step.resets
        if self.steps >= self._limit and not self._finishing:
            self._finishing = True
            self._to_play[:] = ~step.resets  # the games in progress
            self._to_play[-1] = 0
        return scores

    def on_games_start(self) -> None:
        """Forget the games in progress: new games were started."""
        self._running.running[:] = 0

    def get_state(self) -> CheckpointState:
        """Return the state for a checkpoint, in the middle of the test."""
        return {
            "scores": np.array(self.scores, np.float64),
            "steps": self.steps,
            "finishing": self._finishing,
            "running": self._running.running.copy(),
            "to_play": self._to_play.copy(),
        }

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned."""
        self.scores = state["scores"].tolist()
        self.steps, self._finishing = int(state["steps"]), bool(state["finishing"])
        self._running = GameScores(state["running"])
        self._to_play = state["to_play"].copy()


class Tester:
    """Plays one test after another, ε-greedily, in games of its own; `board` has the scores of the latest."""

    def __init__(
        self, player: Player, exploration_rate: float, statistics: Statistics, games: int, steps: int
    ) -> None:
        """Set up tests by `games` or by `steps`, see `ScoreBoard`, with ε = `exploration_rate`."""
        self.games = player.environment.games
        self._player, self._limits, self._exploration_rate = player, (games, steps), exploration_rate
        self._statistics = statistics
        self.board = ScoreBoard(self.games, *self._limits)

    def begin(self) -> None:
        """Begin a test with a new episode in every game."""
        self._player.start()
        self.board = ScoreBoard(self.games, *self._limits)

    def restart_games(self) -> None:
        """Start a new episode in every game, within the test; the games in progress do not count."""
        self._player.start()
        self.board.on_games_start()

    def play(self) -> Iterator[int]:
        """Play until all games that count have ended; yield the number of steps of each round.

        A worker that has finished its share of the games plays on; these games are not counted.
        """
        while not self.board.complete:
            scores = self.board.add(self._player.step(self._exploration_rate))
            self._statistics.on_steps(self.games, scores, self._exploration_rate)
            steps, limit = self.board.steps, self._limits[1] or math.inf
            if steps - self.games < limit <= steps and not (self.board.scores or self.board.complete):
                logger.info(" No game has ended: waiting for those in progress (--max_game_frames ends them)")
            yield self.games

    def get_state(self, games: bool = True) -> CheckpointState:
        """Return the state for a checkpoint, in the middle of a test; with or without that of `games`."""
        return {**self._player.get_state(games), "board": self.board.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` returned."""
        self._player.set_state(state)
        self.board.set_state(state["board"])

    def close(self) -> None:
        """Close the games."""
        self._player.environment.close()


@dataclass(frozen=True)
class Protocol:
    """The rules of a test; docs/protocols.md has them in a table, with the source of each."""

    source: str  # the paper or project
    games: int  # games played to the end; 0: simple_dqn's `test_steps` instead
    flags: dict[str, Any] = field(default_factory=dict)  # settings that it prescribes for the test
    # Settings of its authors that are not prescribed: a snapshot is tested with its own, because others would
    # be a new task. The report lists the differences.
    trained: dict[str, Any] = field(default_factory=dict)


PROTOCOLS = {
    "simple_dqn": Protocol(
        "simple_dqn: one test epoch",
        games=0,
        trained={name: DEFAULTS[name] for name in ("exploration_rate_test", *REPORTED_SETTINGS)},
    ),
    "nature": Protocol(
        "Mnih et al. 2015",
        games=30,
        flags={
            "exploration_rate_test": 0.05, "random_starts": 0, "random_start_frames": 30,
            "max_game_frames": 5 * MINUTE, "repeat_action_probability": 0.0,
        },
        trained={"frame_skip": 4, "color_averaging": False, "frame_maximum": True},
    ),
    # They report training scores: these are the settings of training, with its final ε.
    "machado": Protocol(
        "Machado et al. 2018",
        games=30,
        flags={
            "exploration_rate_test": 0.01, "random_starts": 0, "random_start_frames": 0,
            "max_game_frames": 5 * MINUTE, "repeat_action_probability": 0.25, "minimal_action_set": False,
        },
        trained={"frame_skip": 5},
    ),
}  # fmt: skip


def protocol_flags(protocol: str, actions: int) -> dict[str, Any]:
    """Return the settings that `protocol` prescribes; a network of fewer `actions` than all keeps its own."""
    flags = PROTOCOLS[protocol].flags
    return flags if actions == ALL_ACTIONS else {k: v for k, v in flags.items() if k != "minimal_action_set"}


def departures(protocol: str, config: Config) -> list[str]:
    """Return the differences of the settings in `config` from `protocol`, a phrase for each."""
    rules, used = PROTOCOLS[protocol], config.flags()
    asked = {**rules.flags, **rules.trained}
    if rules.games and used["play_games"]:
        asked["play_games"] = rules.games
    elif not (rules.games or used["play_games"]):
        asked["test_steps"] = DEFAULTS["test_steps"]
    unlike = {name: value for name, value in asked.items() if used[name] != value}
    found = [f"--{name} {as_word(used[name])}, not {as_word(value)}" for name, value in unlike.items()]
    if used["play_games"] and not rules.games:
        found.append(f"--play_games {used['play_games']}, not --test_steps {DEFAULTS['test_steps']}")
    return found


@dataclass(frozen=True)
class Evaluation:
    """The outcome of a test, with every setting that it depends on."""

    game: str
    protocol: str
    unlike_protocol: list[str]  # see `departures`
    scores: list[float]  # raw points of each game that counts, in the order in which they ended
    steps: int  # over all games
    workers: int  # games side by side
    exploration_rate: float
    rules: dict[str, Any]  # the settings `REPORTED_SETTINGS`
    action_names: tuple[str, ...]  # those that the network chose among
    rom_md5: str | None
    random_seed: int

    @property
    def mean(self) -> float | None:
        """The mean score; None: no game ended."""
        return float(np.mean(self.scores)) if self.scores else None

    @property
    def standard_deviation(self) -> float | None:
        """The standard deviation of the games' scores."""
        return float(np.std(self.scores)) if self.scores else None

    @property
    def human_normalized(self) -> float | None:
        """The mean in percent: 0 is random play, 100 a human tester; None: no score of them is known."""
        return None if self.mean is None else human_normalized(self.game, self.mean)

    def __str__(self) -> str:
        """Return the report for the terminal."""
        score = f"no game ended in {self.steps} steps: raise --test_steps or give --play_games"
        if self.mean is not None:
            games = f"{len(self.scores)} game{'s' if len(self.scores) != 1 else ''}"
            score = f"{self.mean:.2f} ± {self.standard_deviation:.2f} over {games}"
        if self.human_normalized is not None:
            score += f", {self.human_normalized:.1f} % of human ({SOURCE})"
        together = f"{self.workers} games side by side" if self.workers > 1 else "one game at a time"
        lines = [
            f"{self.game}: {score}",
            f"  protocol {self.protocol} ({PROTOCOLS[self.protocol].source}), seed {self.random_seed}, "
            f"{self.steps} steps, {together}",
            f"  ε {self.exploration_rate:g}, {len(self.action_names)} actions",
        ]
        if self.rom_md5:
            lines += ["  " + " ".join(words(self.rules)).replace("=", " "), f"  ROM MD5 {self.rom_md5}"]
        if self.unlike_protocol:
            lines.append(f"  not as in {self.protocol}: {'; '.join(self.unlike_protocol)}")
        return "\n".join(lines)

    def write_json(self, path: Path) -> None:
        """Write all fields as JSON, or raise UserError if the file cannot be written."""
        names = ("mean", "standard_deviation", "human_normalized")
        fields = {**asdict(self), **self.rules, **{name: getattr(self, name) for name in names}}
        del fields["rules"]
        with replacing(path, starts=JSON) as beside:
            beside.write_text(json.dumps({**fields, "human_source": SOURCE}, indent=2) + "\n")


def evaluate(
    player: Player, config: Config, protocol: str, statistics: Statistics, interrupt: Interrupt,
    trained: int = 0,
) -> Evaluation:  # fmt: skip
    """Play by `protocol`, whose settings `config` already holds, and return the outcome.

    `config.run.play_games` overrides the number of games; `trained` counts the steps behind the weights.
    """
    rate = config.agent.exploration_rate_test
    games = config.run.play_games or PROTOCOLS[protocol].games
    steps = 0 if games else config.run.test_steps
    tester = Tester(player, rate, statistics, games, steps)
    statistics.on_phase_start("play" if config.run.play_games else "test", config.run.start_epoch, steps)
    if games:
        logger.info("Games to play: %d (--max_game_frames %d)", games, config.environment.max_game_frames)
    tester.begin()
    for _ in tester.play():
        if interrupt.requested:
            break
    statistics.on_phase_end(total_train_steps=trained)
    environment, settings, board = player.environment, config.flags(), tester.board
    return Evaluation(
        game=environment.name, protocol=protocol, unlike_protocol=departures(protocol, config),
        scores=board.scores, steps=board.steps, workers=environment.games, exploration_rate=rate,
        rules={name: settings[name] for name in REPORTED_SETTINGS}, random_seed=config.seed,
        action_names=environment.action_names, rom_md5=environment.rom_md5,
    )  # fmt: skip
