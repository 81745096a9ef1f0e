"""Settings that belong together, by name: the recipes of papers and of a book, and our own for one machine.

Each holds what differs from the defaults, which are simple_dqn's; flags given beside a preset win.
"""

from typing import Any

from simple_dqn.config import Share

# fmt: off
# Mnih et al. 2015, where simple_dqn differs.
NATURE: dict[str, Any] = {
    "color_averaging": False,  # Methods, "preprocessing": the maximum of the last two frames
    "test_steps": 135_000,  # extended data table 3, "validation frames", of which the agent sees one in four
}
# How the games of actors explore unless told otherwise: Horgan et al. 2018, section 4.1.
APE_X_EXPLORATION: dict[str, Any] = {
    "exploration_rate_start": 0.4, "exploration_rate_end": 0.4, "exploration_spread": 7.0,
}
PRESETS: dict[str, dict[str, Any]] = {
    "simple_dqn": {},
    "nature": NATURE,
    # Daley & Amato 2021, at the size of their speed test.
    "fast_dqn": {**NATURE, "workers": 8, "schedule": "concurrent", "synchronize": True},
    # Lapan, Deep Reinforcement Learning Hands-On, chapter 9: Pong. Adam's epsilon stays our own, since the
    # usual 1e-8 lets filters die (docs/notebook/2026-11.md).
    "hands_on": {
        "color_averaging": False, "replay_size": 100_000, "random_steps": 10_000,
        "optimizer": "adam", "learning_rate": 1e-4, "loss": "mse",
        "train_frequency": 1, "target_steps": 1000,
        "exploration_decay_steps": 100_000, "exploration_rate_end": 0.02,
        "train_steps": 20_000, "test_steps": 0, "epochs": 50,
    },
    # Hessel et al. 2018, table 1.
    "rainbow": {
        **NATURE, "optimizer": "adam", "learning_rate": 6.25e-5,
        "random_steps": 20_000, "target_steps": 8000, "n_step": 3,
        "sampler": "prioritized", "priority_exponent": 0.5,
        "priority_beta_start": 0.4, "priority_beta_steps": 50_000_000,
        "target_rule": "double", "dueling": True, "noisy": True, "distributional": "c51",
        # The noise explores.
        "exploration_rate_start": 0.0, "exploration_rate_end": 0.0, "exploration_rate_test": 0.001,
    },
    # Our own, found by experiment (docs/recipes.md).
    "quick": {
        "workers": 8, "processes": 1, "schedule": "overlapped",
        "color_averaging": False, "screen_width": 64, "screen_height": 64,
        "replay_size": 100_000, "random_steps": 5000, "n_step": 3,
        "sampler": "prioritized", "priority_exponent": 0.5, "priority_beta_steps": 400_000,
        "distributional": "quantile", "quantiles": 51,
        "network": "small", "normalization": "layer", "datatype": "auto", "target_steps": 2000,
        "optimizer": "adam", "learning_rate": 3e-4,
        "learning_rate_end": 5e-5, "learning_rate_decay_updates": 75_000,
        "exploration_decay_steps": 100_000, "exploration_rate_end": 0.01,
        "train_steps": 20_000, "test_steps": 0, "epochs": 50,
    },
    # Our own, for environments that observe numbers and no screens: CartPole in two minutes of one core.
    "vector": {
        "workers": 8, "discount_rate": 0.98, "replay_size": 100_000, "random_steps": 1000, "n_step": 3,
        "batch_size": 128, "target_rule": "double", "target_steps": 400, "average_updates": Share(5),
        "dueling": True, "backend": "cpu", "threads": 1, "optimizer": "adam",
        "adam_epsilon": 1e-3,  # with a smaller one, a solved game may be lost (docs/notebook/2026-11.md)
        "learning_rate": 2e-3, "learning_rate_end": 1e-5, "learning_rate_decay_updates": Share(100),
        "exploration_decay_steps": Share(20), "exploration_rate_end": 0.02,
        "train_steps": 10_000, "test_steps": 0, "epochs": 10,
    },
    # The toy game, in a minute of one core.
    "catch": {
        "screen_width": 36, "screen_height": 36, "history_length": 2, "network": "small",
        "replay_size": 5000, "random_steps": 500, "target_steps": 200, "backend": "cpu", "threads": 1,
        "optimizer": "adam", "learning_rate": 3e-4,
        "exploration_decay_steps": 4000, "exploration_rate_end": 0.05,
        "train_steps": 2000, "test_steps": 700, "epochs": 5, "exploration_rate_test": 0.0,
    },
    # Our own, the same for every game: PQN (Gallici et al. 2024) on Nature's network, 20 million steps.
    # The games explore at rates from 0.1, DeepMind's in training, to 0.032; the tests' 0.05 is in between.
    "strong": {
        "workers": 64, "schedule": "rollouts", "rollout_steps": 16, "train_frequency": 64,
        "color_averaging": False, "random_starts": 0, "random_start_frames": 30,
        "random_steps": 0, "batch_size": 128, "target_steps": 0,
        "normalization": "layer", "initializer": "orthogonal", "datatype": "auto",
        "optimizer": "radam", "adam_epsilon": 1e-8, "learning_rate": 2.5e-4,
        "learning_rate_end": 5e-6, "learning_rate_decay_updates": Share(100), "average_updates": Share(1),
        "exploration_decay_steps": Share(2.5), "exploration_spread": 0.5,
        "train_steps": 102_400, "test_steps": 0,
    },
}
# fmt: on

USUAL = "quick"  # the preset of `train.sh` without --preset
