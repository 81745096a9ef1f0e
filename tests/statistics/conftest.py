"""One phase's summary, for the writers to write."""

import pytest

from simple_dqn.statistics import PhaseSummary


@pytest.fixture(scope="session")
def summary() -> PhaseSummary:
    return PhaseSummary(
        epoch=1,
        phase="train",
        steps=250,
        nr_games=3,
        average_reward=-20.5,
        min_game_reward=-21.0,
        max_game_reward=-19.0,
        last_exploration_rate=0.1,
        total_train_steps=250,
        replay_memory_count=300,
        meanq=1 / 3,
        meancost=0.001,
        weight_updates=62,
        total_time=12.5,
        epoch_time=10.0,
        steps_per_second=25.0,
    )
