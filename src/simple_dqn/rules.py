"""Rules about settings: which exclude each other, and which a resume must not change."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simple_dqn import own_code
from simple_dqn.config import REGISTERED, SETTINGS, Config, as_word
from simple_dqn.errors import UserError

# Settings that determine the layers of a network; with distributions, `atoms` and `quantiles` do, too.
NETWORK_SHAPE = (
    "observation", "history_length", "screen_width", "screen_height", "network", "normalization", "dueling",
    "noisy", "distributional",
)  # fmt: skip
# Settings that determine the shape and the meaning of a checkpoint's state, or only the beginning of a run.
# The datatype is not among them: the optimizer's weights are float32 in both float32 and bfloat16.
KEPT_ON_RESUME = (
    "environment", "emulator", "workers", "minimal_action_set", "replay_size", "rollout_steps",
    *NETWORK_SHAPE, "atoms", "quantiles", "optimizer", "decay_rate", "priority_exponent", "random_seed",
    "initializer", "noisy_sigma", "random_steps", "start_epoch",
)  # fmt: skip


def check(config: Config) -> None:
    """Raise UserError unless every name is registered and no two settings contradict each other."""
    settings, file = config.flags(), config.environment.imports
    file = None if file == own_code.names() else file  # already imported, it did not register it
    for name, known in REGISTERED.items():
        if settings[name] not in known:
            raise UserError(
                f"--{name} {settings[name]} is not registered (choose from {', '.join(known)}): give "
                f"--import {file or 'FILE.py'}, which calls simple_dqn.register_{name}"
            )
    for complaint in complaints(config):
        raise UserError(complaint)


def complaints(config: Config) -> Iterator[str]:
    """Yield a message for each contradiction between settings."""
    words = {name: as_word(value).removesuffix(".0") for name, value in config.flags().items()}
    f = SimpleNamespace(**config.flags())
    for broken, complaint in [*_exclusions(f), *_requirements(f)]:
        if broken:
            yield re.sub(r"--(\w+)=", lambda flag: f"--{flag[1]} {words[flag[1]]}", complaint)


def _exclusions(f: SimpleNamespace) -> Iterator[tuple[object, str]]:
    """Yield, for flags that exclude each other, whether the settings `f` have both, and the complaint.

    In a complaint `=` stands for a flag's value.
    """
    actors, rollouts = f.cluster != "none", f.schedule == "rollouts"
    needs_target = "it needs a target network", "give a --target_steps above 0"
    latest = "it learns from the latest steps alone, without a replay memory and a target network"
    on_cluster = "actors play on their own, without a screen, while the network learns"
    others = ("replay_size", "sampler", "n_step", "target_rule")
    pairs: list[tuple[Any, ...]] = [  # broken, the flags that exclude each other, why, and another remedy
        *((rollouts and vars(f)[name] != SETTINGS[name]["default"], f"schedule {name}", latest)
          for name in others),
        (rollouts and f.distributional == "c51", "schedule distributional", "its targets are single returns"),
        (rollouts and f.target_steps, "schedule target_steps", latest, "give --target_steps 0"),
        (f.schedule in ("concurrent", "overlapped") and not f.target_steps, "schedule target_steps",
         *needs_target),
        (rollouts and f.synchronize is False, "schedule synchronize", "its games are predicted in one batch"),
        (f.target_rule == "double" and not f.target_steps, "target_rule target_steps", *needs_target),
        *((actors and broken, f"cluster {name}", on_cluster) for name, broken in (
            ("schedule", f.schedule != "serial"), ("processes", f.processes),
            ("display_screen", f.display_screen), ("record_screen_path", f.record_screen_path),
            ("record_sound_filename", f.record_sound_filename), ("synchronize", f.synchronize is False))),
        (f.emulator == "warp" and f.environment != "ale", "emulator environment", "Warp plays ALE's games"),
        (f.random_starts and f.random_start_frames, "random_starts random_start_frames",
         "both start a game with no-ops",
         "give --random_start_frames 0 to count steps, or --random_starts 0 to count frames"),
        (f.replay_compression != "none" and f.replay_device == "gpu", "replay_compression replay_device",
         "screens are compressed in RAM"),
        (f.target_rule == "munchausen" and f.distributional == "c51", "target_rule distributional",
         "c51 has its returns on fixed atoms"),
        (f.distributional != "none" and f.loss == "mse", "distributional loss", "it has its own loss"),
    ]  # fmt: skip
    for broken, names, why, *remedy in pairs:
        both = " and ".join(f"--{name}=" for name in names.split())
        yield broken, f"{both} exclude each other, as {why}: {[*remedy, 'leave out one of them'][0]}"


def _requirements(f: SimpleNamespace) -> Iterator[tuple[object, str]]:
    """Yield, for each requirement of a setting, whether the settings `f` break it, and the complaint."""
    actors, rollouts, concurrent = (f.cluster != "none", f.schedule == "rollouts", f.schedule == "concurrent")
    shortest, rollout = f.history_length + f.n_step, max(1, f.rollout_steps * f.workers)
    least_replay = (shortest + 1) * f.workers  # as one row may begin a game, which no action does
    # In the concurrent schedule the memory lacks the steps played during the first update.
    before = (f.random_steps, 0 if concurrent else f.train_frequency)
    rounds = 1 + sum(-(-steps // f.workers) for steps in before)
    period, least = f.target_steps, math.lcm(f.workers, f.train_frequency)
    chunks = 2 * f.workers * (f.chunk_steps + shortest)
    yield from [
        (not rollouts and f.replay_size < least_replay,
         f"--replay_size= may hold no transition of {shortest} screens of {f.workers} game(s): "
         f"give at least {least_replay}"),
        (not rollouts and f.batch_size > f.replay_size,
         "--batch_size= is larger than --replay_size=: lower the one or raise the other"),
        # A trajectory from a cluster holds a transition.
        (not rollouts and f.train_steps and not actors and rounds < shortest,
         f"memory will hold {rounds} screens of a game when the first update is due and a transition needs "
         f"{shortest}: raise --random_steps"),
        (rollouts and f.rollout_steps == 1,
         "--rollout_steps= may hold nothing but the first screen of a game: give at least 2"),
        (rollouts and f.batch_size > rollout,
         f"--batch_size= is larger than a rollout of --rollout_steps= with --workers=: give {rollout}"),
        (rollouts and rollout % f.train_frequency,
         f"--train_frequency= does not divide {rollout} steps: give {math.gcd(rollout, f.train_frequency)}"),
        (rollouts and f.train_steps % rollout,
         f"--train_steps= has no whole rollouts: give {(f.train_steps // rollout + 1) * rollout}"),
        (concurrent and period % least,
         "--schedule concurrent needs a --target_steps that --workers= and --train_frequency= divide: give "
         f"{(period // least + 1) * least}, for example, in place of {period}"),
        (concurrent and period and f.train_steps % period,
         f"--train_steps= has no whole periods of --target_steps=: give a multiple of {period}"),
        (f.schedule == "overlapped" and f.workers < f.train_frequency,
         f"--schedule overlapped updates in every round: give --workers {f.train_frequency} or more"),
        (f.processes > f.workers, "--processes= is more than the games of --workers=: lower it"),
        (not actors and f.actors > 1,
         f"--actors= play on a cluster: give --cluster local, or --workers {f.actors} to play them here"),
        (actors and f.chunk_steps < shortest,
         f"--chunk_steps= cannot hold a transition of {shortest} screens: give at least {shortest}"),
        (actors and f.replay_size < chunks,
         f"--replay_size= has no room for two trajectories of --chunk_steps=: give at least {chunks}"),
        (f.normalization == "batch" and f.batch_size == 1,
         "--normalization= cannot normalize over --batch_size=: raise it"),
        (f.min_reward > f.max_reward, "--min_reward= is above --max_reward=: swap them"),
        (f.n_step > 1 and not f.min_reward <= 0 <= f.max_reward,
         "--n_step= adds rewards of 0, outside --min_reward= and --max_reward=: give limits with 0 between"),
        (f.learning_rate_decay_updates and f.learning_rate_end > f.learning_rate,
         "--learning_rate_end= is above --learning_rate=: lower it, or give --learning_rate_decay_updates 0"),
        (f.distributional == "c51" and f.v_min >= f.v_max,
         "--v_min= is not below --v_max=: lower the one or raise the other"),
        (f.exploration_rate_end > f.exploration_rate_start,
         "--exploration_rate_end= is above --exploration_rate_start=: exploration can only fall"),
        (f.tensorboard and f.csv_file and not Path(f.csv_file).suffix,
         "--csv_file= is the name of the folder of --tensorboard=, too: give --csv_file=.csv, for example"),
        *((vars(f)[name] not in (False, "none") and not f.csv_file,
           f"--{name}= accompanies a CSV: give --csv_file FILE") for name in ("tensorboard", "track")),
        (f.keep == "best" and not f.test_steps, "--keep= needs tests: give --test_steps, such as 10000"),
        (f.csv_file and not Path(f.csv_file).name, "--csv_file= is a folder: give the name of a file"),
        (f.csv_file and Path(f.csv_file).suffix == ".yaml",
         "--csv_file= has the name of the settings written beside it: give a name in .csv"),
    ]  # fmt: skip
