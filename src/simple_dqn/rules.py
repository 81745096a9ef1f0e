"""Rules about settings: which exclude each other, and which a resume must not change."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from simple_dqn import own_code
from simple_dqn.config import REGISTERED, Config, MemoryConfig, as_word
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
LEAVE_OUT = "leave out one of them"
# Whether the settings break it, and the complaint: the flags, `=` for their values, and a remedy.
Rule = tuple[object, str]


def differing(names: Iterable[str], recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return those of `names` whose settings in `recorded` differ from those in `now`."""
    return [name for name in names if name in recorded and recorded[name] != now[name]]


def check(config: Config) -> None:
    """Check that every name is registered, and that no two settings contradict each other.

    Raises:
        UserError: One is not, or two do; the message names the flags and what to do.
    """
    settings, file = config.flags(), config.environment.imports
    file = None if file == own_code.names() else file  # which was imported, and did not
    for name, known in REGISTERED.items():
        if settings[name] not in known:
            raise UserError(
                f"--{name} {settings[name]} is not registered (choose from {', '.join(known)}): give "
                f"--import {file or 'FILE.py'}, which calls simple_dqn.register_{name}"
            )
    for complaint in complaints(config):
        raise UserError(complaint)


def check_games(config: Config) -> None:
    """Check that no two settings of the games contradict each other, whatever those of training are.

    Raises:
        UserError: Two do; the message names both and what to do.
    """
    for broken, complaint in _games(config):
        if broken:
            raise UserError(_shown(complaint, config))


def complaints(config: Config) -> Iterator[str]:
    """Yield a message for each contradiction between settings."""
    for rules in (_rollouts, _memory, _schedules, _games, _cluster, _learning, _run):
        yield from (_shown(complaint, config) for broken, complaint in rules(config) if broken)


def _shown(complaint: str, config: Config) -> str:
    """Return `complaint` with the values of the flags that end with an equals sign."""
    words = {name: as_word(value).removesuffix(".0") for name, value in config.flags().items()}
    return re.sub(r"--(\w+)=", lambda flag: f"--{flag[1]} {words[flag[1]]}", complaint)


def _games(c: Config) -> list[Rule]:
    return [
        (c.environment.emulator == "warp" and c.environment.environment != "ale",
         f"--emulator warp plays --environment ale, not {c.environment.environment}: {LEAVE_OUT}"),
        (c.environment.random_starts and c.environment.random_start_frames,
         "--random_starts= and --random_start_frames= both start a game with no-ops: give "
         "--random_start_frames 0 to count steps, or --random_starts 0 to count frames"),
    ]  # fmt: skip


def _memory(c: Config) -> list[Rule]:
    """Check the replay memory's size, and its content at the first update."""
    memory, agent, workers = c.memory, c.agent, c.environment.workers
    shortest, rollouts = memory.history_length + memory.n_step, agent.schedule == "rollouts"
    # In the concurrent schedule the memory lacks the steps played during the first update.
    before = (c.run.random_steps, 0 if agent.schedule == "concurrent" else agent.train_frequency)
    rounds = 1 + sum(-(-steps // workers) for steps in before)
    return [
        (memory.replay_compression != "none" and memory.replay_device == "gpu",
         "--replay_compression= keeps the screens in RAM and --replay_device= not: give one of them"),
        (not rollouts and memory.replay_size < shortest * workers,
         f"--replay_size= cannot hold a transition of {shortest} screens for each of {workers} game(s): give "
         f"at least {shortest * workers}"),
        (not rollouts and c.network.batch_size > memory.replay_size,
         "--batch_size= is larger than --replay_size=: lower the one or raise the other"),
        # A trajectory from a cluster holds a transition.
        (not rollouts and c.run.train_steps and not c.cluster.on and rounds < shortest,
         f"memory will hold {rounds} screens of a game when the first update is due and a transition needs "
         f"{shortest}: raise --random_steps"),
    ]  # fmt: skip


def _rollouts(c: Config) -> list[Rule]:
    """Check that no setting asks for what learning from rollouts does without, and that updates are due."""
    if c.agent.schedule != "rollouts":
        return []
    size, steps = c.memory.rollout_steps * c.environment.workers, c.run.train_steps
    frequency = c.agent.train_frequency
    excluded = {
        "replay_size": c.memory.replay_size != MemoryConfig.replay_size,
        "sampler": c.memory.sampler != MemoryConfig.sampler,
        "n_step": c.memory.n_step > 1,
        "target_rule": c.network.target_rule != "max",
        "distributional": c.network.distributional != "none",
        "target_steps": c.agent.target_steps > 0,
        "cluster": c.cluster.on,
    }
    remedies = {"target_steps": "give --target_steps 0"}
    return [
        *((broken,
           "--schedule rollouts learns from λ-returns of the latest steps, without a replay memory and a "
           f"target network, so --{name}= does not fit: {remedies.get(name, LEAVE_OUT)}")
          for name, broken in excluded.items()),
        (c.network.batch_size > size,
         f"--batch_size= is larger than a rollout of --rollout_steps= with --workers=: give at most {size}"),
        (size % frequency,
         f"a rollout of {size} steps needs a --train_frequency that divides it, not {frequency}: give "
         f"{math.gcd(size, frequency)}, for example"),
        (steps % size,
         f"--rollout_steps= trains in whole rollouts of {size} steps: give a multiple of it as "
         f"--train_steps, such as {(steps // size + 1) * size}, not {steps}"),
    ]  # fmt: skip


def _schedules(c: Config) -> list[Rule]:
    """Check that a concurrent period has whole rounds and updates, and each overlapped round an update."""
    agent, workers = c.agent, c.environment.workers
    period, frequency = agent.target_steps, agent.train_frequency
    concurrent, least = agent.schedule == "concurrent", math.lcm(workers, frequency)
    return [
        (agent.schedule in ("concurrent", "overlapped") and not period,
         "--schedule= needs a target network: give a --target_steps above 0"),
        (concurrent and period % least,
         "--schedule concurrent needs a --target_steps that --workers= and --train_frequency= divide: give "
         f"{(period // least + 1) * least}, for example, in place of {period}"),
        (concurrent and period and c.run.train_steps % period,
         "--schedule concurrent trains in whole periods of --target_steps=: give a multiple of it as "
         f"--train_steps, not {c.run.train_steps}"),
        (agent.schedule == "overlapped" and workers < frequency,
         f"--schedule overlapped needs an update in every step of all games: give --workers {frequency} or "
         f"more, or --train_frequency {workers} or less"),
    ]  # fmt: skip


def _cluster(c: Config) -> list[Rule]:
    """Check that no setting asks actors for what they cannot do, or for actors without a cluster."""
    cluster, environment = c.cluster, c.environment
    shortest = c.memory.history_length + c.memory.n_step
    least = 2 * environment.workers * (cluster.chunk_steps + shortest)
    if not cluster.on:
        return [
            (cluster.actors > 1,
             "--actors= play on a cluster: give --cluster local, auto or ADDRESS, or "
             f"--workers {cluster.actors} for as many games in this process"),
        ]  # fmt: skip
    excluded = {
        "schedule": (c.agent.schedule != "serial", "actors always play while the network learns"),
        "processes": (environment.processes, "each actor is a process"),
        "display_screen": (environment.display_screen, "actors have no display"),
        "record_screen_path": (environment.record_screen_path, "actors have no display"),
        "record_sound_filename": (environment.record_sound_filename, "actors have no sound"),
        "synchronize": (c.agent.synchronize is False, "an actor predicts for all games at once"),
    }
    return [
        *((broken, f"--cluster= and --{name}= exclude each other, as {why}: {LEAVE_OUT}")
          for name, (broken, why) in excluded.items()),
        (cluster.chunk_steps < shortest,
         f"--chunk_steps= cannot hold a transition of {shortest} screens: give at least {shortest}"),
        (c.memory.replay_size < least,
         f"--replay_size= has no room for two trajectories of --chunk_steps= of "
         f"{environment.workers} game(s): give at least {least}"),
    ]  # fmt: skip


def _learning(c: Config) -> list[Rule]:
    """Check the rewards, the learning rates, and which extensions exclude each other."""
    network, kind = c.network, c.network.distributional
    return [
        (network.min_reward > network.max_reward, "--min_reward= is above --max_reward=: swap them"),
        (c.memory.n_step > 1 and not network.min_reward <= 0 <= network.max_reward,
         "--n_step= counts the steps after the end of an episode as rewards of 0, which --min_reward= with "
         "--max_reward= would clip: give limits with 0 between them"),
        (network.learning_rate_decay_updates and network.learning_rate_end > network.learning_rate,
         "--learning_rate_end= is above --learning_rate=, which can only fall: lower it, or give "
         "--learning_rate_decay_updates 0 for a rate that stays"),
        (network.target_rule == "double" and not c.agent.target_steps,
         f"--target_rule double needs a target network and --target_steps 0 has none: {LEAVE_OUT}"),
        (network.target_rule == "munchausen" and kind == "c51",
         "--target_rule munchausen adds to the return of each action and --distributional c51 has returns on "
         "fixed atoms: give --distributional quantile or none"),
        (kind != "none" and network.loss == "mse",
         f"--distributional= has its own loss and --loss mse is for scalar values: {LEAVE_OUT}"),
        (kind == "c51" and network.v_min >= network.v_max,
         "--v_min= is not below --v_max=: lower the one or raise the other"),
        (c.agent.exploration_rate_end > c.agent.exploration_rate_start,
         "--exploration_rate_end= is above --exploration_rate_start=: exploration can only fall"),
    ]  # fmt: skip


def _run(c: Config) -> list[Rule]:
    file = c.run.csv_file
    return [
        (c.agent.synchronize and c.environment.workers == 1,
         "--synchronize true needs several games to predict for: raise --workers or leave it out"),
        (c.run.tensorboard and file and not Path(file).suffix,
         "--csv_file= is also the name of the folder of --tensorboard=: give --csv_file=.csv, for example"),
        (file and not Path(file).name, "--csv_file= is a folder: give the name of a file"),
    ]  # fmt: skip
