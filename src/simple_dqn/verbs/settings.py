"""The settings of a command: the sources they come from, and the values that each verb fixes."""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from simple_dqn import own_code, random_streams, rules
from simple_dqn.command_line import Parser, parser_of_settings
from simple_dqn.config import (
    BOOLEANS,
    AgentConfig,
    ClusterConfig,
    Config,
    MemoryConfig,
    NetworkConfig,
    as_word,
)
from simple_dqn.environment import as_played, is_atari, named
from simple_dqn.errors import UserError
from simple_dqn.files import real
from simple_dqn.presets import APE_X_EXPLORATION, PRESETS, USUAL
from simple_dqn.rules import NETWORK_SHAPE
from simple_dqn.snapshot import Snapshot
from simple_dqn.verbs.common import start_log

logger = logging.getLogger(__name__)

# However a snapshot was trained, a verb that only plays learns nothing beside its games.
PLAYS_ONLY: dict[str, Any] = {
    "schedule": "serial", "synchronize": None, "cluster": "none", "actors": 1, "play_games": 0,
    "random_seed": None, "sampler": "uniform", "target_rule": "max", "train_steps": 0,
}  # fmt: skip
# The defaults of other games, whose steps and points are not those of Atari games.
OUTSIDE_ATARI: dict[str, Any] = {"frame_skip": 1, "min_reward": -math.inf, "max_reward": math.inf}
# For one state, more threads than one only wait for each other.
ONE_GAME = {**PLAYS_ONLY, "workers": 1, "processes": 0, "display_screen": False, "threads": 1}
PROFILED = {"replay_size": 10_000, "epochs": 1, "random_steps": 0, "train_steps": 0, "test_steps": 0}
# Settings that only training reads.
TRAINING_ONLY = {
    *(one.name for config in (MemoryConfig, NetworkConfig, AgentConfig, ClusterConfig)
      for one in fields(config)), *(name for name in BOOLEANS if not name.endswith("_norm")),
    "random_steps", "train_steps", "epochs", "save_weights_prefix", "checkpoint_minutes",
    "checkpoint_steps", "keep",
} - {*NETWORK_SHAPE, "atoms", "quantiles", "v_min", "v_max", "exploration_rate_test"}  # fmt: skip


@dataclass(frozen=True)
class Verb:
    """What a verb does with settings."""

    example: str  # of its arguments
    most_used: str  # the settings that its help shows
    fixed: Mapping[str, Any] = field(default_factory=dict)  # settings that flags given by hand replace
    preset: str | None = None  # when `--preset` is not given; None: the defaults, or those of a snapshot
    of_snapshot: bool = False  # whether its settings come from a snapshot


OF_TRAINING = "epochs train_steps test_steps workers network learning_rate datatype"
OF_GAMES = "exploration_rate_test repeat_action_probability random_starts max_game_frames random_seed"
AGENT = "snapshots/trained/breakout_200.pkl"
VERBS = {
    "train": Verb(
        "pong --epochs 10", f"{OF_TRAINING} exploration_decay_steps replay_size random_seed", preset=USUAL
    ),
    "sweep": Verb("pong breakout --seeds 3", OF_TRAINING, preset=USUAL),
    "resume": Verb(
        "snapshots/pong_checkpoint",
        "epochs train_steps test_steps learning_rate checkpoint_minutes keep tensorboard backend threads",
        of_snapshot=True,
    ),
    "test": Verb(
        "snapshots/trained/pong_200.pkl --protocol nature",
        "test_steps play_games workers exploration_rate_test repeat_action_probability random_starts "
        "random_seed csv_file backend threads",
        PLAYS_ONLY, of_snapshot=True,
    ),
    "play": Verb(AGENT, f"{OF_GAMES} environment", ONE_GAME, USUAL),
    "record": Verb(
        f"{AGENT} --overlay", f"play_games {OF_GAMES} record_screen_path", {**ONE_GAME, "play_games": 1},
        of_snapshot=True,
    ),
    "nvis": Verb(
        AGENT, "visualization_filters visualization_file exploration_rate_test random_seed backend", ONE_GAME,
        of_snapshot=True,
    ),
    "profile_train": Verb(
        "pong", "train_steps workers network datatype threads backend",
        {**PROFILED, "random_steps": 1000, "train_steps": 1000},
    ),
    "profile_test": Verb(
        "pong", "test_steps workers network datatype threads backend", {**PROFILED, "test_steps": 1000}
    ),
    "profile_random": Verb("pong", "random_steps workers processes", {**PROFILED, "random_steps": 1000}),
}  # fmt: skip


def parser_for(verb: str, program: str, description: str) -> Parser:
    """Return a parser of the flags of `verb`, whose help shows the values that the verb uses."""

    def defaults() -> dict[str, Any]:
        if not VERBS[verb].of_snapshot:
            return settings_for(verb, {}).flags()
        recorded = dict.fromkeys(Config().shared_flags(), "the snapshot's")
        return {**Config().flags(), **recorded, "random_seed": None, **VERBS[verb].fixed}

    parser = parser_of_settings(program, description, defaults)
    parser.example, parser.most_used = VERBS[verb].example, VERBS[verb].most_used.split()
    return parser


def settings_for(
    verb: str,
    given: dict[str, Any],
    snapshot: dict[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> Config:
    """Return the settings of a command: defaults < preset or snapshot < fixed by the verb < given.

    Args:
        verb: A key of `VERBS`.
        given: The flags given by hand, over those of a file; see `over_file`.
        snapshot: The flags of the snapshot or checkpoint that the command starts from; they take the
            place of a preset. None: the command starts from no snapshot.
        fixed: Further settings that the verb fixes, such as the path of the weights.

    Raises:
        UserError: There is no such game, or `--load_weights` names other weights than the snapshot's.
    """
    if snapshot is None:
        snapshot = preset(given, VERBS[verb].preset) | outside_atari({**(fixed or {}), **given})
    else:
        check_source(given)
        snapshot = snapshot if verb == "resume" else portable(snapshot)
    imports = {"imports": own_code.names()} if own_code.IMPORTED else {}
    config = Config.from_flags(snapshot, VERBS[verb].fixed, fixed or {}, given, imports)
    if verb == "train" and config.cluster.on and config.cluster.actors * config.environment.workers > 1:
        config = config.with_flags({**APE_X_EXPLORATION, **given})
    return config


def settings_of_agent(
    verb: str, path: Path, snapshot: Snapshot, given: dict[str, Any], fixed: dict[str, Any] | None = None
) -> Config:
    """Return the settings with which `verb` uses the agent of `snapshot`, at `path`; see `settings_for`."""
    own = {"load_weights": str(path), "start_epoch": snapshot.epoch, "game": snapshot.game, **(fixed or {})}
    return settle(settings_for(verb, given, snapshot.flags, own), log=False)


def outside_atari(given: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of games other than Atari's, over any preset, if the flags `given` name one."""
    config = Config.from_flags(given).environment
    return {} if not config.game or is_atari(config) else OUTSIDE_ATARI


def portable(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Return the flags of a snapshot with the datatype `auto` in place of bfloat16.

    Another processor may have to imitate bfloat16, which takes many times as long as float32.
    """
    return {**snapshot, "datatype": "auto"} if snapshot.get("datatype") == "bfloat16" else snapshot


def workers_for(games: int, snapshot: dict[str, Any]) -> dict[str, int]:
    """Return the flag `workers` of a test of `games` games: those of the training, but none in vain.

    Args:
        games: The number of games; 0: the test ends after a number of steps.
        snapshot: The flags of the snapshot.
    """
    workers: int = snapshot.get("workers", 1)
    return {"workers": min(workers, games) if games else workers}


def check_csv(given: dict[str, Any], config: Config) -> None:
    """Check that there is a CSV if `given` flags ask for files or trackers that accompany it.

    Raises:
        UserError: There is none.
    """
    for name in ("tensorboard", "track"):
        if given.get(name, "none") not in (False, "none") and not config.run.csv_file:
            raise UserError(f"--{name} {as_word(given[name])} accompanies a CSV: give --csv_file FILE")


def check_source(given: dict[str, Any]) -> None:
    """Check that `--load_weights` does not contradict the snapshot that the command starts from.

    Raises:
        UserError: It names another file.
    """
    source, weights = given.get("snapshot", given.get("player")), given.get("load_weights")
    if weights and (source is None or real(Path(weights)) != real(Path(source))):
        raise UserError(
            f"--load_weights {weights}: the weights come from {source or 'the snapshot'}; leave it out"
        )


def flags_of_playing(parser: Parser, arguments: Any) -> dict[str, Any]:
    """Return the flags of a verb that only plays, without those of training, and start the log."""
    given = parser.parse(arguments)
    start_log(given.get("log_level", "INFO"))
    if ignored := [f"--{name}" for name in given if name in TRAINING_ONLY]:
        logger.warning("Ignored, as only training uses them: %s", ", ".join(ignored))
    return {name: value for name, value in given.items() if name not in TRAINING_ONLY}


def over_file(given: dict[str, Any]) -> dict[str, Any]:
    """Return the flags `given`, with the game that they name, over the settings of the file of `--config`."""
    recorded = given.get("config", {})
    return over(recorded, named({name: value for name, value in given.items() if name != "config"}))


def over(recorded: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the flags `given` over those `recorded`, whichever spelling a choice has in either."""
    chosen = {BOOLEANS.get(name, (name,))[0] for name in given}
    kept = {name: value for name, value in recorded.items() if BOOLEANS.get(name, (name,))[0] not in chosen}
    return {**kept, **given}


def preset(given: dict[str, Any], default: str | None = None) -> dict[str, Any]:
    """Return the settings of the preset that is `given`, or of the `default` one; None: no settings.

    A preset's schedule is for one machine, and is left out if actors play on a cluster. The overlapped one is
    left out if the flags given by hand exclude it. `processes` goes with it.
    """
    name = given.get("preset", default)
    settings = PRESETS[name] if name else {}
    config = Config.from_flags(settings, given)
    agent = config.agent
    fits = agent.target_steps and config.environment.workers >= agent.train_frequency
    replaced = agent.schedule == "concurrent" or (agent.schedule == "overlapped" and not fits)
    if config.cluster.on or (settings.get("schedule") == "overlapped" and replaced):
        settings = {name: one for name, one in settings.items() if name not in ("schedule", "processes")}
    return dict(settings)


def settle(config: Config, log: bool = True) -> Config:
    """Start the log, draw a seed unless one was given, check the settings, and return them as they are run.

    Args:
        config: All settings.
        log: Whether to start the log.

    Raises:
        UserError: Settings contradict each other, or there is no such game.
    """
    if log:
        start_log(config.run.log_level)
    config = replace(config, environment=as_played(config.environment))
    if OUTSIDE_ATARI.items() <= config.flags().items():
        logger.info("Not an Atari game: --frame_skip 1, no no-ops at a start, and rewards are not clipped")
    if config.run.random_seed is None:
        config = config.with_flags({"random_seed": random_streams.draw_seed()})
    logger.info("Random seed is %d", config.seed)
    rules.check(config)
    return config
