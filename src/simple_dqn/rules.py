"""Rules about settings: which exclude each other, and which a resume must not change."""

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from simple_dqn import own_code
from simple_dqn.config import REGISTERED, Config, MemoryConfig
from simple_dqn.errors import UserError

# Settings that determine the layers of a network; with distributions, `atoms` and `quantiles` do, too.
NETWORK_SHAPE = (
    "history_length", "screen_width", "screen_height", "network", "normalization", "dueling", "noisy",
    "distributional",
)  # fmt: skip
# Settings that determine the shape and the meaning of a checkpoint's state. The datatype is not among them:
# the optimizer's weights are float32 in both float32 and bfloat16.
CHECKPOINT_SHAPE = (
    "environment", "emulator", "workers", "minimal_action_set", "replay_size", "rollout_steps",
    *NETWORK_SHAPE, "atoms", "quantiles", "optimizer", "decay_rate", "priority_exponent", "random_seed",
)  # fmt: skip


def differing(names: Iterable[str], recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return those of `names` whose settings in `recorded` differ from those in `now`."""
    return [name for name in names if name in recorded and recorded[name] != now[name]]


def check(config: Config) -> None:
    """Check that no two settings contradict each other.

    Raises:
        UserError: Two do; the message names both and what to do.
    """
    for complaint in chain(_registered(config), complaints(config)):
        raise UserError(complaint)


def complaints(config: Config) -> Iterator[str]:
    """Yield a message for each contradiction between settings."""
    for rule in (_rollouts, _memory, _concurrent, overlapped, _environment, _cluster, _learning, _run):
        yield from rule(config)


def _registered(config: Config) -> Iterator[str]:
    settings, file = config.flags(), config.environment.imports
    file = None if file == own_code.names() else file  # which was imported, and did not
    for name, known in REGISTERED.items():
        if settings[name] not in known:
            yield (
                f"--{name} {settings[name]} is not registered (choose from {', '.join(known)}): give "
                f"--import {file or 'FILE.py'}, which calls simple_dqn.register_{name}"
            )


def _memory(config: Config) -> Iterator[str]:
    """Check the replay memory's size, and its content at the first update."""
    memory, agent, workers = config.memory, config.agent, config.environment.workers
    if memory.replay_compression != "none" and memory.replay_device == "gpu":
        yield (
            f"--replay_compression {memory.replay_compression} keeps the screens in RAM and --replay_device "
            "gpu on the GPU: give one of them"
        )
    if agent.schedule == "rollouts":
        return
    shortest = memory.history_length + memory.n_step
    if memory.replay_size < shortest * workers:
        yield (
            f"--replay_size {memory.replay_size} cannot hold a transition of {shortest} screens for each "
            f"of {workers} game(s): give at least {shortest * workers}"
        )
    if config.network.batch_size > memory.replay_size:
        yield (
            f"--batch_size {config.network.batch_size} is larger than --replay_size {memory.replay_size}: "
            "a batch is drawn from the memory, so lower the one or raise the other"
        )
    # In the concurrent schedule the memory lacks the steps played during the first update.
    before = (config.run.random_steps, 0 if agent.schedule == "concurrent" else agent.train_frequency)
    rounds = 1 + sum(-(-steps // workers) for steps in before)
    # A trajectory from a cluster holds a transition.
    if config.run.train_steps and not config.cluster.on and rounds < shortest:
        yield (
            f"memory will hold {rounds} screens of a game when the first update is due and a transition "
            f"needs {shortest}: raise --random_steps"
        )


def _rollouts(config: Config) -> Iterator[str]:
    """Check that no setting asks for what learning from rollouts does without, and that updates are due."""
    memory, network, agent = config.memory, config.network, config.agent
    if agent.schedule != "rollouts":
        return
    size, frequency = memory.rollout_steps * config.environment.workers, agent.train_frequency
    excluded = (
        (memory.replay_size != MemoryConfig.replay_size, f"--replay_size {memory.replay_size}"),
        (memory.sampler != MemoryConfig.sampler, f"--sampler {memory.sampler}"),
        (memory.n_step > 1, f"--n_step {memory.n_step}"),
        (network.target_rule != "max", f"--target_rule {network.target_rule}"),
        (network.distributional != "none", f"--distributional {network.distributional}"),
        (agent.target_steps > 0, f"--target_steps {agent.target_steps}"),
        (config.cluster.on, f"--cluster {config.cluster.cluster}"),
    )
    for holds, other in excluded:
        if holds:
            remedy = "give --target_steps 0" if "target_steps" in other else "leave out one of them"
            yield (
                "--schedule rollouts learns from λ-returns of the latest steps, "
                f"without a replay memory and a target network, so {other} does not fit: {remedy}"
            )
    if network.batch_size > size:
        yield (
            f"--batch_size {network.batch_size} is larger than a rollout of --rollout_steps "
            f"{memory.rollout_steps} with --workers {config.environment.workers}: give at most {size}"
        )
    if size % frequency:
        yield (
            f"a rollout of {size} steps needs a --train_frequency that divides it, not {frequency}: give "
            f"{math.gcd(size, frequency)}, for example"
        )
    if config.run.train_steps % size:
        yield (
            f"--rollout_steps {memory.rollout_steps} trains in whole rollouts of {size} steps: give a "
            f"multiple of it as --train_steps, such as {(config.run.train_steps // size + 1) * size}, not "
            f"{config.run.train_steps}"
        )


def _concurrent(config: Config) -> Iterator[str]:
    """Check that a period of the concurrent schedule has whole numbers of rounds and updates."""
    if config.agent.schedule != "concurrent":
        return
    period, frequency = config.agent.target_steps, config.agent.train_frequency
    workers = config.environment.workers
    if not period:
        yield "--schedule concurrent acts by the target network: give a --target_steps above 0"
    least = math.lcm(workers, frequency)
    if period % least:
        yield (
            f"--schedule concurrent needs a --target_steps that --workers {workers} and --train_frequency "
            f"{frequency} divide: give {(period // least + 1) * least}, for example, in place of {period}"
        )
    if config.run.train_steps % period:
        yield (
            f"--schedule concurrent trains in whole periods of --target_steps {period}: give a multiple of "
            f"it as --train_steps, not {config.run.train_steps}"
        )


def overlapped(config: Config) -> Iterator[str]:
    """Check that every round of the overlapped schedule has an update to overlap with."""
    agent, workers = config.agent, config.environment.workers
    if agent.schedule != "overlapped":
        return
    if not agent.target_steps:
        yield "--schedule overlapped needs a target network: give a --target_steps above 0"
    if workers < agent.train_frequency:
        yield (
            f"--schedule overlapped needs an update in every step of all games: give --workers "
            f"{agent.train_frequency} or more, or --train_frequency {workers} or less"
        )


def check_games(config: Config) -> None:
    """Check that no two settings of the games contradict each other, whatever those of training are.

    Raises:
        UserError: Two do; the message names both and what to do.
    """
    for complaint in _environment(config):
        raise UserError(complaint)


def _environment(config: Config) -> Iterator[str]:
    kind = config.environment.environment
    if config.environment.emulator == "warp" and kind != "ale":
        yield f"--emulator warp plays --environment ale, not {kind}: leave out one of them"
    steps, frames = config.environment.random_starts, config.environment.random_start_frames
    if steps and frames:
        yield (
            f"--random_starts {steps} and --random_start_frames {frames} both start a game with no-ops: give "
            "--random_start_frames 0 to count steps, or --random_starts 0 to count frames"
        )


def _cluster(config: Config) -> Iterator[str]:
    """Check that no setting asks actors for what they cannot do, or for actors without a cluster."""
    cluster, memory, environment = config.cluster, config.memory, config.environment
    if not cluster.on:
        if cluster.actors > 1:
            yield (
                f"--actors {cluster.actors} play on a cluster: give --cluster local, auto or ADDRESS, or "
                f"--workers {cluster.actors} for as many games in this process"
            )
        return
    exclusions = (
        (
            config.agent.schedule != "serial",
            f"--schedule {config.agent.schedule}",
            "actors always play while the network learns",
        ),
        (environment.processes > 0, f"--processes {environment.processes}", "each actor is a process"),
        (environment.display_screen, "--display_screen true", "actors have no display"),
        (environment.record_screen_path, "--record_screen_path", "actors have no display"),
        (config.agent.synchronize is False, "--synchronize false", "an actor predicts for all games at once"),
        (environment.record_sound_filename, "--record_sound_filename", "actors have no sound"),
    )
    for holds, other, why in exclusions:
        if holds:
            yield (
                f"--cluster {cluster.cluster} and {other} exclude each other, as {why}: leave out one of them"
            )
    shortest = memory.history_length + memory.n_step
    if cluster.chunk_steps < shortest:
        yield (
            f"--chunk_steps {cluster.chunk_steps} cannot hold a transition of {shortest} screens: give at "
            f"least {shortest}"
        )
    least = 2 * environment.workers * (cluster.chunk_steps + shortest)
    if memory.replay_size < least:
        yield (
            f"--replay_size {memory.replay_size} has no room for two trajectories of --chunk_steps "
            f"{cluster.chunk_steps} of {environment.workers} game(s): give at least {least}"
        )


def _learning(config: Config) -> Iterator[str]:
    """Check the rewards, the learning rates, and which extensions exclude each other."""
    network, n_step = config.network, config.memory.n_step
    kind, low, high = network.distributional, network.min_reward, network.max_reward
    if low > high:
        yield f"--min_reward {low:g} is above --max_reward {high:g}: swap them"
    if n_step > 1 and not low <= 0 <= high:
        yield (
            f"--n_step {n_step} counts the steps after the end of an episode as rewards of 0, which "
            f"--min_reward {low:g} with --max_reward {high:g} would clip: give limits with 0 between them"
        )
    if network.learning_rate_decay_updates and network.learning_rate_end > network.learning_rate:
        yield (
            f"--learning_rate_end {network.learning_rate_end:g} is above --learning_rate "
            f"{network.learning_rate:g}, which can only fall: lower it, or give "
            "--learning_rate_decay_updates 0 for a rate that stays"
        )
    if network.target_rule == "double" and not config.agent.target_steps:
        yield (
            "--target_rule double needs a target network and --target_steps 0 has none: leave out one of them"
        )
    if network.target_rule == "munchausen" and kind == "c51":
        yield (
            "--target_rule munchausen adds to the return of each action and --distributional c51 has returns "
            "on fixed atoms: give --distributional quantile or none"
        )
    if kind != "none" and network.loss == "mse":
        yield (
            f"--distributional {kind} has its own loss and --loss mse is for scalar values: leave out one of "
            "them"
        )
    if kind == "c51" and network.v_min >= network.v_max:
        yield (
            f"--v_min {network.v_min:g} is not below --v_max {network.v_max:g}: lower the one or raise the "
            "other"
        )


def _run(config: Config) -> Iterator[str]:
    run, agent = config.run, config.agent
    if agent.synchronize and config.environment.workers == 1:
        yield "--synchronize true needs several games to predict for: raise --workers or leave it out"
    if run.tensorboard and run.csv_file and not Path(run.csv_file).suffix:
        yield (
            f"--csv_file {run.csv_file} is also the name of the folder of --tensorboard true: give it an "
            f"extension, such as {run.csv_file}.csv"
        )
    if run.csv_file and not Path(run.csv_file).name:
        yield f"--csv_file {run.csv_file} is a folder: give the name of a file"
    if agent.exploration_rate_end > agent.exploration_rate_start:
        yield (
            f"--exploration_rate_end {agent.exploration_rate_end:g} is above --exploration_rate_start "
            f"{agent.exploration_rate_start:g}: exploration can only fall"
        )
