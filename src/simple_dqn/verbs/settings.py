"""The settings of a command, resolved once from defaults, preset or snapshot, verb, file and flags."""

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from simple_dqn import own_code, random_streams, rules
from simple_dqn.command_line import Parser, parser_of_settings
from simple_dqn.config import BOOLEANS, Config, EnvironmentConfig
from simple_dqn.environment import as_played, is_atari, vector_shape
from simple_dqn.errors import UserError
from simple_dqn.files import real
from simple_dqn.presets import APE_X_EXPLORATION, PRESETS, USUAL
from simple_dqn.statistics.writers import start_log

logger = logging.getLogger(__name__)

# The defaults of other games, whose steps and points are not those of Atari games.
OUTSIDE_ATARI: dict[str, Any] = {"frame_skip": 1, "min_reward": -math.inf, "max_reward": math.inf}
OUTSIDE_ATARI |= {"random_starts": 0, "random_start_frames": 0}
# The settings that the help of a verb shows.
TRAINING_HELP = "epochs train_steps test_steps workers network learning_rate datatype random_seed"
PLAYING_HELP = "play_games exploration_rate_test repeat_action_probability random_starts random_seed backend"


def parser_for(
    program: str, description: str, example: str, fixed: Mapping[str, Any] | None = None, snapshot: str = "",
    most_used: str = TRAINING_HELP,
) -> Parser:  # fmt: skip
    """Return a parser of a verb's flags, whose help shows the values that the verb uses; see `resolve`.

    With the help text `snapshot`, it has that argument, and the settings are the snapshot's.
    """

    def defaults() -> dict[str, Any]:
        if not snapshot:
            return {**resolve({}, None, fixed).flags(), "observation": "auto"}
        recorded = dict.fromkeys(Config().shared_flags(), "the snapshot's")
        return {**Config().flags(), **recorded, "random_seed": None, **(fixed or {})}

    parser = parser_of_settings(program, description)
    parser.defaults, parser.example, parser.most_used = defaults, example, most_used.split()
    if snapshot:
        parser.add_argument("snapshot", help=snapshot)
    return parser


def resolve(
    given: dict[str, Any], snapshot: dict[str, Any] | None = None, fixed: Mapping[str, Any] | None = None
) -> Config:
    """Return the settings of a command: defaults < preset or snapshot < fixed by the verb < given.

    The `given` flags lie over those of a file already; see `merged`. Without the flags of a `snapshot` or
    checkpoint the command starts from a preset, which the verb may fix.
    """
    fixed, of_cluster = fixed or {}, {}
    imports = {"imports": own_code.names()} if own_code.IMPORTED else {}
    if snapshot is None:
        game = Config.from_flags(fixed, given).environment
        shape = vector_shape(game, {**fixed, **given}.get("observation", "auto"))
        of_game = OUTSIDE_ATARI if game.game and not is_atari(game) else {}
        if shape:
            network = "minatar" if min(shape[1:], default=0) > 2 else "mlp"  # minatar's filters are 3 x 3
            of_game = {**of_game, "observation": "vector", "network": network, "history_length": 1}
        chosen = {"preset": usual_preset(game, bool(shape)), **fixed, **given}
        snapshot = {**preset(chosen), **of_game}
        config = Config.from_flags(snapshot, fixed, given)
        if config.cluster.on:  # whose other machines may lack Warp
            several = config.cluster.actors * config.environment.workers > 1
            of_cluster = {"emulator": "ale", **(APE_X_EXPLORATION if several else {})}
    else:
        source, weights = given.get("snapshot"), given.get("load_weights")
        if weights and (source is None or real(Path(weights)) != real(Path(source))):
            remedy = f"the weights come from {source or 'the snapshot'}; leave it out"
            raise UserError(f"--load_weights {weights}: {remedy}")
    return Config.from_flags({**snapshot, **of_cluster}, fixed, given, imports)


def name_of_preset(given: Mapping[str, Any], config: Config) -> str:
    """Return the name of the preset of `config`, which `resolve` made from `given`."""
    usual = usual_preset(config.environment, config.environment.observation == "vector")
    return str(given.get("preset", usual))


def usual_preset(game: EnvironmentConfig, numbers: bool) -> str:
    """Return the name of the preset of `game` without --preset; `numbers`: it observes no screens."""
    return "catch" if game.environment == "catch" else "vector" if numbers else USUAL


def preset(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the preset that is `given`, without its schedule where that cannot be used.

    The schedule of a preset is for one machine, and is left out if actors play on a cluster. The overlapped
    schedule is also left out if `given` flags exclude it. `processes` is left out with the schedule.
    """
    settings = PRESETS[given["preset"]]
    config = Config.from_flags(settings, given)
    agent, overlapped = config.agent, settings.get("schedule") == "overlapped"
    fits = agent.target_steps and config.environment.workers >= agent.train_frequency
    replaced = agent.schedule == "concurrent" or (agent.schedule == "overlapped" and not fits)
    without = ("schedule", "processes") if config.cluster.on or (overlapped and replaced) else ()
    return {name: one for name, one in settings.items() if name not in without}


def check_file(file: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise UserError if a settings `file` names a snapshot on the Hub, and no flag `given` replaces it."""
    if "load_weights" not in given and (address := str(file.get("load_weights"))).startswith("hf:"):
        raise UserError(f"a settings file cannot choose an address: give --load_weights {address}")


def merged(recorded: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the flags `given` over those `recorded`; `concurrent` also replaces `schedule`, and so on."""
    chosen = {BOOLEANS.get(name, (name,))[0] for name in given}
    kept = {name: value for name, value in recorded.items() if BOOLEANS.get(name, (name,))[0] not in chosen}
    return {**kept, **given}


def settle(config: Config, log: bool = True) -> Config:
    """Start the log if `log` is true, draw a seed unless one was given, check and return the settings."""
    if log:
        start_log(config.run.log_level)
    config = replace(config, environment=as_played(config.environment))
    if not is_atari(config.environment) and OUTSIDE_ATARI.items() <= config.flags().items():
        logger.info("Not an Atari game: --frame_skip 1, no no-ops at a start, and rewards are not clipped")
    if config.environment.observation == "vector":
        network, length = config.network.network, config.memory.history_length
        logger.info("No images: --observation vector, --network %s and --history_length %d", network, length)
    if config.run.random_seed is None:
        config = config.with_flags({"random_seed": random_streams.draw_seed()})
    logger.info("Random seed is %d", config.seed)
    rules.check(config)
    return config
