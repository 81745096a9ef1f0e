"""Learning is tested by learning: Catch, whose best score is 1, from several seeds."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Discrete

import simple_dqn
from simple_dqn.config import Config
from simple_dqn.errors import Interrupt
from simple_dqn.evaluation import evaluate
from simple_dqn.run import Run, make_environment, make_player, make_run
from simple_dqn.statistics import Statistics
from tests.command_line import Patch

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


class Corridor(gymnasium.Env[Any, Any]):
    """A walk to one of two doors, five steps from the middle: the right one gives 1, the other -1.

    It observes place and door as numbers, or as `channels`: two images of one row.
    """

    action_space: gymnasium.Space[Any] = Discrete(2)

    def __init__(self, channels: bool = False) -> None:
        self._channels = channels
        kind: Any = np.bool_ if channels else np.float32
        self.observation_space = Box(0, 1, (2, 3, 11), kind) if channels else Box(-1, 1, (2,), kind)

    def _look(self) -> Any:
        if not self._channels:
            return np.array([self._place / 5, self._door], np.float32)
        image = np.zeros((2, 3, 11), np.bool_)
        image[0, 1, self._place + 5] = image[1, :, 5 * self._door + 5] = True
        return image

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._place, self._door = 0, int(self.np_random.choice([-1, 1]))
        return self._look(), {}

    def step(self, action: int) -> Any:
        self._place += 2 * action - 1
        over = abs(self._place) == 5
        reward = float(np.sign(self._place) * self._door) if over else 0.0
        return self._look(), reward, over, False, {}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("channels", [False, True])
def test_a_corridor_is_solved_by_numbers(channels: bool, monkeypatch: Patch) -> None:
    make: Any = Corridor
    spec = EnvSpec("test/Corridor-v0", make, kwargs={"channels": channels}, max_episode_steps=30)
    monkeypatch.setitem(gymnasium.registry, "test/Corridor-v0", spec)
    given: dict[str, Any] = {"train_steps": 4000, "epochs": 1, "random_seed": 0, "target_steps": 200}
    run = simple_dqn.train("test/Corridor-v0", **given)
    agent = simple_dqn.load(run.snapshots[-1])
    assert agent.settings["network"] == ("minatar" if channels else "mlp")
    assert agent.evaluate(games=20, epsilon=0.0).mean == 1
    state = np.zeros((2, 1, *((2, 3, 11) if channels else (2,))), np.float32)
    assert agent.act(state).shape == (2,)
    for wrong in (state.astype(np.uint8), state[:, 0]):
        with pytest.raises(simple_dqn.UserError, match="give float32"):
            agent.act(wrong)
    with pytest.raises(simple_dqn.UserError, match="images"):
        agent.saliency(state)


@pytest.mark.usefixtures("home")
@pytest.mark.nightly
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("game", "least"), [("CartPole-v1", 475), ("catch", 0.95)])
def test_a_game_is_solved_without_further_flags(game: str, least: float, seed: int) -> None:
    run = simple_dqn.train(game, random_seed=seed)
    assert simple_dqn.load(run.snapshots[-1]).evaluate(games=30, epsilon=0.0).mean >= least
