"""Learning is tested by learning: Catch, whose best score is 1, from several seeds."""

import pytest

from simple_dqn.config import Config
from simple_dqn.errors import Interrupt
from simple_dqn.evaluation import evaluate
from simple_dqn.run import Run, make_environment, make_player, make_run
from simple_dqn.statistics import Statistics

SETTINGS = {
    "game": "catch", "environment": "catch", "screen_width": 36, "screen_height": 36, "history_length": 2,
    "network": "small",
    "replay_size": 5_000, "random_steps": 500, "train_steps": 8_000, "test_steps": 0, "epochs": 1,
    "exploration_decay_steps": 4_000, "exploration_rate_test": 0.0, "target_steps": 200,
    "optimizer": "adam", "learning_rate": 0.0003, "backend": "cpu",
}  # fmt: skip


def train(seed: int, **flags: object) -> tuple[Run, Config]:
    config = Config.from_flags({**SETTINGS, "random_seed": seed, **flags})
    run = make_run(config, Interrupt())
    run.begin()
    return run, config


def score(run: Run, config: Config) -> float:
    config = config.with_flags({"play_games": 100, "random_seed": 1_000})
    player = make_player(config, make_environment(config, training=False), run.agent.network)
    mean = evaluate(player, config, "simple_dqn", Statistics([]), Interrupt()).mean
    assert mean is not None
    return mean


SCHEDULES: dict[str, dict[str, object]] = {
    "serial": {},
    # bfloat16 where the processor computes in it: imitated, these six trainings take an hour of a core
    "serial, 4 games, bfloat16": {"workers": 4, "datatype": "auto"},
    "prioritized, 3 steps": {"prioritized": True, "n_step": 3, "priority_beta_steps": 8_000},
    "concurrent": {"concurrent": True},
    "overlapped, 4 games": {"overlap": True, "workers": 4},
    "rollouts, 16 games": {
        "rollout_steps": 16, "workers": 16, "train_frequency": 16, "target_steps": 0, "random_steps": 0,
        "replay_size": 1_000_000, "layer_norm": True, "train_steps": 32_768, "learning_rate": 0.0005,
    },
    "implicit quantiles": {"distributional": "iqn", "quantiles": 8},
    "rollouts, implicit quantiles": {
        "schedule": "rollouts", "rollout_steps": 16, "workers": 16, "train_frequency": 16, "target_steps": 0,
        "random_steps": 0, "replay_size": 1_000_000, "normalization": "layer", "train_steps": 32_768,
        "learning_rate": 0.0005, "distributional": "iqn", "quantiles": 8,
    },
    "concurrent, 4 games, bfloat16": {"concurrent": True, "workers": 4, "datatype": "auto"},
}  # fmt: skip


# `make nightly` has all the others.
BRIEF = [("serial", 0), ("rollouts, 16 games", 0)]
LONG = [(schedule, seed) for schedule in SCHEDULES for seed in range(3) if (schedule, seed) not in BRIEF]


@pytest.mark.parametrize(
    ("schedule", "seed"), [*BRIEF, *(pytest.param(*one, marks=pytest.mark.nightly) for one in LONG)]
)
def test_catch_is_solved(schedule: str, seed: int) -> None:
    run, config = train(seed, **SCHEDULES[schedule])
    assert score(run, config) >= 0.9


def test_what_has_not_learnt_does_not_catch() -> None:
    run, config = train(0, train_steps=0)
    assert score(run, config) < 0.5
