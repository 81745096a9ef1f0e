"""Settings that contradict each other, and settings that must stay as they were recorded."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from simple_dqn.config import CLASS_FILE, REGISTERED, Config, EnvironmentConfig, NetworkConfig
from simple_dqn.errors import UserError

# Settings that decide the layers of a network; `atoms` and `quantiles` do where returns have distributions.
OF_WEIGHTS = (
    "history_length", "screen_width", "screen_height", "network", "batch_norm", "layer_norm", "dueling",
    "noisy", "distributional",
)  # fmt: skip
# Settings that decide the shape and the meaning of a checkpoint's state.
OF_STATE = (
    "environment", "workers", "minimal_action_set", "replay_size", *OF_WEIGHTS, "atoms", "quantiles",
    "optimizer", "decay_rate", "datatype", "priority_exponent", "random_seed",
)  # fmt: skip


def differing(names: Iterable[str], recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return those of `names` whose settings `recorded` and `now` differ; one that is not recorded fits.

    A class of the user's own is the same in another file, as the file may have been moved.
    """
    return [name for name in names if name in recorded and not _same(recorded[name], now[name])]


def _same(one: Any, other: Any) -> bool:
    if not (isinstance(one, str) and isinstance(other, str)):
        return bool(one == other)
    own, others = CLASS_FILE.fullmatch(one), CLASS_FILE.fullmatch(other)
    return one == other if own is None or others is None else own[2] == others[2]


def check(config: Config) -> None:
    """Check that no two settings contradict each other.

    Raises:
        UserError: Two do; the message names both and what to do.
    """
    _check_registered(config.flags())
    memory, network, agent, workers = config.memory, config.network, config.agent, config.environment.workers
    shortest = memory.history_length + memory.n_step
    if memory.replay_size < shortest * workers:
        raise UserError(
            f"--replay_size {memory.replay_size} cannot hold a transition of {shortest} screens for each "
            f"of {workers} game(s): give at least {shortest * workers}"
        )
    if memory.replay_compression != "none" and memory.replay_device == "gpu":
        raise UserError(
            f"--replay_compression {memory.replay_compression} keeps the screens in RAM and --replay_device "
            "gpu on the GPU: give one of them"
        )
    if network.batch_size > memory.replay_size:
        raise UserError(
            f"--batch_size {network.batch_size} is larger than --replay_size {memory.replay_size}: "
            "a batch is drawn from the memory, so lower the one or raise the other"
        )
    _check_filling(config, shortest)
    if agent.synchronize and workers == 1:
        raise UserError(
            "--synchronize true needs several games to predict for: raise --workers or leave it out"
        )
    _check_periods(config)
    _check_overlap(config)
    _check_starts(config.environment)
    _check_cluster(config)
    if network.min_reward > network.max_reward:
        raise UserError(
            f"--min_reward {network.min_reward:g} is above --max_reward {network.max_reward:g}: swap them"
        )
    if memory.n_step > 1 and not network.min_reward <= 0 <= network.max_reward:
        raise UserError(
            f"--n_step {memory.n_step} counts what follows the end of an episode as 0, and --min_reward "
            f"{network.min_reward:g} with --max_reward {network.max_reward:g} counts no reward so: let 0 lie "
            "between them"
        )
    if config.run.tensorboard and config.run.csv_file and not Path(config.run.csv_file).suffix:
        raise UserError(
            f"--csv_file {config.run.csv_file} is what --tensorboard true calls its folder: give it an "
            f"ending, such as {config.run.csv_file}.csv"
        )
    _check_learning(network, has_target_network=agent.target_steps > 0)
    if agent.exploration_rate_end > agent.exploration_rate_start:
        raise UserError(
            f"--exploration_rate_end {agent.exploration_rate_end:g} is above --exploration_rate_start "
            f"{agent.exploration_rate_start:g}: exploration can only fall"
        )


def _check_registered(settings: Mapping[str, Any]) -> None:
    """Check that every network, sampler and target rule that is asked for is there."""
    for name, known in REGISTERED.items():
        if settings[name] not in known:
            raise UserError(
                f"--{name} {settings[name]} is not registered (choose from {', '.join(known)}): run a file "
                f"that calls simple_dqn.register_{name} first, as docs/modify.md shows"
            )


def _check_filling(config: Config, shortest: int) -> None:
    """Check that the memory holds a transition, of `shortest` screens, at the first update."""
    if not config.run.train_steps or config.cluster.on:
        return  # A trajectory from a cluster holds one.
    agent, workers = config.agent, config.environment.workers
    # In the concurrent schedule the memory lacks what is played during the first update.
    before = (config.run.random_steps, 0 if agent.concurrent else agent.train_frequency)
    rounds = 1 + sum(-(-steps // workers) for steps in before)
    if rounds < shortest:
        raise UserError(
            f"memory will hold {rounds} screens of a game when the first update is due and a transition "
            f"needs {shortest}: raise --random_steps"
        )


def _check_starts(environment: EnvironmentConfig) -> None:
    """Check that the no-ops at the start of a game are counted in steps or in frames, not both."""
    steps, frames = environment.random_starts, environment.random_start_frames
    if steps and frames:
        raise UserError(
            f"--random_starts {steps} and --random_start_frames {frames} both start a game with no-ops: give "
            "--random_starts 0 to count frames, or leave out --random_start_frames"
        )


def _check_cluster(config: Config) -> None:
    """Check what actors on a cluster can do, and that there are none without a cluster."""
    cluster, memory, environment = config.cluster, config.memory, config.environment
    if not cluster.on:
        if cluster.actors > 1:
            raise UserError(
                f"--actors {cluster.actors} play on a cluster: give --cluster local, auto or ADDRESS, or "
                f"--workers {cluster.actors} for as many games in this process"
            )
        return
    flag = f"--cluster {cluster.cluster}"
    exclusions = (
        (config.agent.concurrent, "--concurrent true", "actors always play while the network learns"),
        (config.agent.overlap, "--overlap true", "actors always play while the network learns"),
        (environment.processes > 0, f"--processes {environment.processes}", "each actor is a process"),
        (environment.display_screen, "--display_screen true", "actors have no display"),
        (bool(environment.record_screen_path), "--record_screen_path", "actors have no display"),
        (config.agent.synchronize is False, "--synchronize false", "an actor predicts for all games at once"),
        (bool(environment.record_sound_filename), "--record_sound_filename", "actors have no sound"),
    )
    for holds, other, why in exclusions:
        if holds:
            raise UserError(f"{flag} and {other} exclude each other, as {why}: leave out one of them")
    shortest = memory.history_length + memory.n_step
    if cluster.chunk_steps < shortest:
        raise UserError(
            f"--chunk_steps {cluster.chunk_steps} cannot hold a transition of {shortest} screens: give at "
            f"least {shortest}"
        )
    least = 2 * environment.workers * (cluster.chunk_steps + shortest)
    if memory.replay_size < least:
        raise UserError(
            f"--replay_size {memory.replay_size} has no room for two trajectories of --chunk_steps "
            f"{cluster.chunk_steps} of {environment.workers} game(s): give at least {least}"
        )


def _check_learning(network: NetworkConfig, has_target_network: bool) -> None:
    """Check that no two extensions exclude each other."""
    kind = network.distributional
    contradictions = (
        (
            network.learning_rate_decay_updates > 0 and network.learning_rate_end > network.learning_rate,
            f"--learning_rate_end {network.learning_rate_end:g} is above --learning_rate "
            f"{network.learning_rate:g}, which can only fall: lower it, or give "
            "--learning_rate_decay_updates 0 for a rate that stays",
        ),
        (
            network.batch_norm and network.layer_norm,
            "--batch_norm true and --layer_norm true both normalise the hidden layers: give one of them",
        ),
        (
            network.double and network.munchausen,
            "--double true chooses one next action and --munchausen true averages over all: give one of them",
        ),
        (
            network.double and not has_target_network,
            "--double true needs a target network and --target_steps 0 has none: leave out one of them",
        ),
        (
            network.munchausen and kind == "c51",
            "--munchausen true adds to the return of each action and --distributional c51 has returns on "
            "fixed atoms: give --distributional quantile or none",
        ),
        (
            kind != "none" and network.loss == "mse",
            f"--distributional {kind} has its own loss and --loss mse is for scalar values: leave out one "
            "of them",
        ),
        (
            kind == "c51" and network.v_min >= network.v_max,
            f"--v_min {network.v_min:g} is not below --v_max {network.v_max:g}: lower the one or raise the "
            "other",
        ),
    )
    for holds, complaint in contradictions:
        if holds:
            raise UserError(complaint)


def _check_overlap(config: Config) -> None:
    """Check that the overlapped schedule is the only one, and has an update to overlap in every round."""
    agent, workers = config.agent, config.environment.workers
    if not agent.overlap:
        return
    if agent.concurrent:
        raise UserError("--overlap true and --concurrent true are two schedules: give one of them")
    if not agent.target_steps:
        raise UserError("--overlap true needs a target network: give a --target_steps above 0")
    if workers < agent.train_frequency:
        raise UserError(
            f"--overlap true needs an update in every step of all games: give --workers "
            f"{agent.train_frequency} or more, or --train_frequency {workers} or less"
        )


def _check_periods(config: Config) -> None:
    """Check that the periods of the concurrent schedule are whole numbers of rounds and updates."""
    if not config.agent.concurrent:
        return
    period, frequency = config.agent.target_steps, config.agent.train_frequency
    workers = config.environment.workers
    if not period:
        raise UserError("--concurrent true acts by the target network: give a --target_steps above 0")
    least = math.lcm(workers, frequency)
    if period % least:
        raise UserError(
            f"--concurrent true needs a --target_steps that --workers {workers} and --train_frequency "
            f"{frequency} divide: give {(period // least + 1) * least}, for example, in place of {period}"
        )
    if config.run.train_steps % period:
        raise UserError(
            f"--concurrent true trains in whole periods of --target_steps {period}: give a multiple of "
            f"it as --train_steps, not {config.run.train_steps}"
        )
