"""Tests of a trained network by published protocols."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn.agent import Player, ScoreBoard
from simple_dqn.config import Config, as_word
from simple_dqn.files import replacing
from simple_dqn.human_scores import SOURCE, human_normalized
from simple_dqn.interrupt import Interrupt
from simple_dqn.statistics import Statistics

MINUTE = 60 * 60  # frames
# Settings that the report contains.
OF_GAME = (
    "random_starts", "random_start_frames", "max_game_frames", "repeat_action_probability", "frame_skip",
    "color_averaging", "frame_maximum", "minimal_action_set",
)  # fmt: skip
ALL_ACTIONS = 18  # of a joystick with one button
DEFAULTS = Config().flags()  # those of simple_dqn
STEPS = DEFAULTS["test_steps"]


@dataclass(frozen=True)
class Protocol:
    """The rules of a test; docs/protocols.md has them in a table, with the source of each."""

    source: str  # the paper or project
    games: int | None  # games played to the end; None: `STEPS` steps instead
    flags: dict[str, Any] = field(default_factory=dict)  # settings that it prescribes for the test
    # Settings of its authors that are not prescribed: a snapshot is tested with its own, because others would
    # be a new task. The report lists the differences.
    trained: dict[str, Any] = field(default_factory=dict)


PROTOCOLS = {
    "simple_dqn": Protocol(
        "simple_dqn: one test epoch",
        games=None,
        trained={name: DEFAULTS[name] for name in ("exploration_rate_test", *OF_GAME)},
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
    """Return the settings that `protocol` prescribes for a network of `actions` outputs.

    If the protocol prescribes all actions, a network with fewer outputs keeps its own.
    """
    flags = PROTOCOLS[protocol].flags
    return flags if actions == ALL_ACTIONS else {k: v for k, v in flags.items() if k != "minimal_action_set"}


def departures(protocol: str, config: Config) -> list[str]:
    """Return the differences of the settings in `config` from `protocol`, a phrase for each."""
    rules, used = PROTOCOLS[protocol], config.flags()
    asked = {**rules.flags, **rules.trained}
    if rules.games and used["play_games"]:
        asked["play_games"] = rules.games
    elif not (rules.games or used["play_games"]):
        asked["test_steps"] = STEPS
    unlike = {name: value for name, value in asked.items() if used[name] != value}
    found = [f"--{name} {as_word(used[name])}, not {as_word(value)}" for name, value in unlike.items()]
    if used["play_games"] and not rules.games:
        found.append(f"--play_games {used['play_games']}, not --test_steps {STEPS}")
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
    rules: dict[str, Any]  # the settings `OF_GAME`
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
    def human_normalised(self) -> float | None:
        """The mean in percent: 0 is random play, 100 a human tester; None: no score of them is known."""
        return None if self.mean is None else human_normalized(self.game, self.mean)

    def __str__(self) -> str:
        """Return the report for the terminal."""
        if self.mean is None:
            score = f"no game ended in {self.steps} steps: raise --test_steps or give --play_games"
        else:
            games = f"{len(self.scores)} game{'s' if len(self.scores) != 1 else ''}"
            score = f"{self.mean:.2f} ± {self.standard_deviation:.2f} over {games}"
            if self.human_normalised is not None:
                score += f", {self.human_normalised:.1f} % of human ({SOURCE})"
        together = f"{self.workers} games side by side" if self.workers > 1 else "one game at a time"
        game = [f"  ε {self.exploration_rate:g}, {len(self.action_names)} actions"]
        lines = [
            f"{self.game}: {score}",
            f"  protocol {self.protocol} ({PROTOCOLS[self.protocol].source}), seed {self.random_seed}, "
            f"{self.steps} steps, {together}",
            *(self._atari() if self.rom_md5 else game),
        ]
        if self.unlike_protocol:
            lines.append(f"  not as in {self.protocol}: {'; '.join(self.unlike_protocol)}")
        return "\n".join((*lines, f"  ROM MD5 {self.rom_md5 or 'none'}"))

    def _atari(self) -> list[str]:
        """Return the lines about the emulator."""
        rules, actions = self.rules, len(self.action_names)
        cap = f"{rules['max_game_frames'] / MINUTE:g} minutes of play" if rules["max_game_frames"] else "none"
        no_ops = "no no-ops"
        if most := rules["random_start_frames"] or rules["random_starts"]:
            no_ops = f"0 to {most} no-op {'frames' if rules['random_start_frames'] else 'steps'}"
        seen = "maximum of two frames" if rules["frame_maximum"] else "last frame alone"
        if rules["color_averaging"]:
            seen = "average of two frames"
        which = "all" if actions == ALL_ACTIONS else "the minimal set of"
        return [
            f"  ε {self.exploration_rate:g}, {no_ops} at the start, cap {cap}, "
            f"sticky actions {rules['repeat_action_probability']:g}",
            f"  frame skip {rules['frame_skip']}, {seen}, {which} {actions} actions",
        ]

    def write_json(self, path: Path) -> None:
        """Write all fields as JSON.

        Raises:
            UserError: The file cannot be written.
        """
        names = ("mean", "standard_deviation", "human_normalised")
        fields = {**asdict(self), **self.rules, **{name: getattr(self, name) for name in names}}
        del fields["rules"]
        with replacing(path) as beside:
            beside.write_text(json.dumps({**fields, "human_source": SOURCE}, indent=2) + "\n")


def evaluate(
    player: Player, config: Config, protocol: str, statistics: Statistics, interrupt: Interrupt
) -> Evaluation:
    """Play by `protocol`, whose settings `config` already holds, and return the outcome.

    `config.run.play_games` overrides the number of games.
    """
    rate = config.agent.exploration_rate_test
    games = config.run.play_games or PROTOCOLS[protocol].games
    steps = 0 if games else config.run.test_steps
    board = ScoreBoard(player.environment.games, games, steps or None)
    statistics.on_phase_start("play" if config.run.play_games else "test", config.run.start_epoch, steps)
    player.start()
    while not (board.complete or interrupt.requested):
        step = player.step(rate)
        # A worker that has finished its share of the games plays on; these games are not counted.
        statistics.on_steps(len(step.rewards), board.add(step), rate)
    statistics.on_phase_end()
    environment, settings = player.environment, config.flags()
    return Evaluation(
        environment.name, protocol, departures(protocol, config), board.scores, board.steps,
        environment.games, rate, {name: settings[name] for name in OF_GAME}, environment.action_names,
        environment.rom_md5, config.seed,
    )  # fmt: skip
