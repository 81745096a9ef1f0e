"""Every way of learning, in the concurrent schedule: threads against sequence, bit for bit."""

from typing import Any

import pytest

from simple_dqn.config import Config
from simple_dqn.interrupt import Interrupt
from simple_dqn.run import make_run
from simple_dqn.schedules import ConcurrentSchedule
from simple_dqn.types import CheckpointState
from tests.network.updates import assert_same
from tests.training.sequence import train_in_sequence

CATCH = {
    "game": "catch", "environment": "catch", "screen_width": 36, "screen_height": 36, "replay_size": 400,
    "random_steps": 96, "train_steps": 192, "test_steps": 0, "epochs": 1, "batch_size": 8, "target_steps": 48,
    "exploration_rate_start": 0.2, "backend": "cpu", "random_seed": 0, "concurrent": True, "threads": 1,
    "network": "small", "learning_rate": 0.001, "workers": 2,
}  # fmt: skip
WAYS: list[dict[str, Any]] = [
    {"double": True},
    {"double": True, "batch_norm": True, "n_step": 3},
    {"noisy": True, "synchronize": False},
    {"noisy": True, "double": True, "dueling": True, "distributional": "c51"},
    {"munchausen": True, "distributional": "quantile", "quantiles": 10, "layer_norm": True},
]


def learned(way: dict[str, Any]) -> CheckpointState:
    run = make_run(Config.from_flags({**CATCH, **way}), Interrupt())
    run.begin()
    state = run.agent.get_state()
    run.close()
    return state


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_threads_equal_sequence(way: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    threads = learned(way)
    assert threads["network"]["updates"] == 48
    monkeypatch.setattr(ConcurrentSchedule, "train", lambda _self, *run: train_in_sequence(*run))
    assert_same(threads, learned(way))
