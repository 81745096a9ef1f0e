"""Learning from rollouts (PQN): the returns, the samples, the order of events, and refused settings."""

from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from simple_dqn import rules
from simple_dqn.agent import Agent
from simple_dqn.config import Config, MemoryConfig, NetworkConfig
from simple_dqn.dqn import lambda_returns
from simple_dqn.errors import Interrupt, UserError
from simple_dqn.replay import ReplayMemory
from simple_dqn.run import make_run
from simple_dqn.schedules import RolloutSchedule
from simple_dqn.snapshot import Snapshot
from simple_dqn.types import Step
from tests.training import test_schedules
from tests.training.test_schedules import watch

Values: TypeAlias = NDArray[np.float32]


class Rollout(NamedTuple):
    """The rewards, ends of episodes and starts of games [T, E] that `ReplayMemory.rollout` returns."""

    rewards: Values
    terminals: NDArray[np.bool_]
    starts: NDArray[np.bool_]


CATCH = {
    **test_schedules.CATCH, "replay_size": 1_000_000, "random_steps": 0, "train_steps": 192, "epochs": 2,
    "target_steps": 0, "workers": 4, "rollout_steps": 6, "train_frequency": 4,
}  # fmt: skip


def started() -> Agent:
    """Return an agent whose games have begun."""
    agent = make_run(Config.from_flags(CATCH), Interrupt()).agent
    RolloutSchedule(6).start(agent)
    return agent


def random_rollout(seed: int, steps: int = 9, games: int = 5) -> tuple[Rollout, Values]:
    """Return steps in which episodes end in every way, and the values of their states."""
    rng = np.random.default_rng(seed)
    starts = rng.random((steps, games)) < 0.15
    terminals = (rng.random((steps, games)) < 0.2) & ~starts
    rewards = np.where(starts, 0, rng.integers(-3, 4, (steps, games))).astype(np.float32)
    return Rollout(rewards, terminals, starts), rng.normal(size=(steps + 1, games)).astype(np.float32)


def slow_return(rollout: Rollout, values: Values, t: int, game: int, gamma: float, decay: float) -> float:
    """Return (1 - λ) Σ_n λ^(n-1) G^(n) + λ^(N-1) G^(N), where N steps are left in the episode or rollout."""
    if rollout.starts[t, game]:
        return float(values[t, game])
    n_step_returns, total, discount = [], 0.0, 1.0
    for k in range(t, len(rollout.rewards)):
        total += discount * float(rollout.rewards[k, game])
        discount *= gamma
        ends = bool(rollout.terminals[k, game])
        n_step_returns.append(total + (0.0 if ends else discount * float(values[k + 1, game])))
        if ends or (k + 1 < len(rollout.rewards) and rollout.starts[k + 1, game]):
            break
    *earlier, last = n_step_returns
    mixed = sum((1 - decay) * decay**n * value for n, value in enumerate(earlier))
    return mixed + decay ** len(earlier) * last


@pytest.mark.parametrize(("seed", "decay"), [(0, 0.0), (1, 0.65), (2, 0.65), (3, 1.0)])
def test_returns_equal_the_mean_of_n_step_returns(seed: int, decay: float) -> None:
    rollout, values = random_rollout(seed)
    returns = lambda_returns(*rollout, values, 0.9, decay)
    slow = [[slow_return(rollout, values, t, game, 0.9, decay) for game in range(5)] for t in range(9)]
    np.testing.assert_allclose(returns, slow, rtol=1e-5, atol=1e-5)


def test_rewards_are_clipped_in_the_returns() -> None:
    rollout, values = random_rollout(2)
    clipped, config = rollout._replace(rewards=rollout.rewards.clip(-1, 1)), NetworkConfig()
    expected = lambda_returns(*clipped, values, config.discount_rate, config.trace_decay)
    np.testing.assert_array_equal(started().network.returns(*rollout, values), expected)


def test_each_transition_is_sampled_once_before_any_is_sampled_again() -> None:
    config = MemoryConfig(rollout_steps=8, history_length=3)
    memory = ReplayMemory(config, 4, (2, 2), 0.9, np.random.default_rng(0))
    starts = np.random.default_rng(3).random((30, 4)) < 0.2
    for t, started in enumerate(starts):
        step = Step.start(np.zeros((4, 2, 2), np.uint8))
        step.actions[:] = 4 * t + np.arange(4)
        step.starts[:] = started
        memory.add(step)
    expected = [4 * t + e for t in range(22, 30) for e in range(4) if not starts[t, e]]
    numbers = np.concatenate([memory.sample(3).numbers for _ in range(2 * len(expected) // 3 + 1)])
    for passed in (numbers[: len(expected)], numbers[len(expected) : 2 * len(expected)]):
        assert sorted(passed.tolist()) == expected
    assert not np.array_equal(numbers[: len(expected)], numbers[len(expected) : 2 * len(expected)])


def test_a_minibatch_has_the_states_that_were_played_and_their_returns() -> None:
    agent = started()
    for _ in range(3):
        agent.memory.add(agent.execute(agent.player.choose(agent.exploration_rates())))
    seen, starts = [], []
    for _ in range(6):
        seen.append(agent.player.states.copy())
        agent.memory.add(agent.execute(agent.player.choose(agent.exploration_rates())))
        starts.append(agent.memory.rollout()[2][-1])
    states, played = np.concatenate(seen), ~np.concatenate(starts)
    assert played.sum() < 24
    returns = np.arange(24, dtype=np.float32)
    agent.memory.set_returns(returns.reshape(6, 4))
    minibatch = agent.memory.sample(int(played.sum()))
    places = minibatch.numbers - 4 * (1 + 3)
    assert sorted(places.tolist()) == np.flatnonzero(played).tolist()
    assert minibatch.returns is not None
    np.testing.assert_array_equal(minibatch.returns, returns[places])
    np.testing.assert_array_equal(minibatch.prestates, states[places])


@pytest.mark.parametrize("stopped", [False, True])
def test_a_rollout_is_played_whole_before_its_updates(stopped: bool) -> None:
    agent = started()
    tape: list[str] = []
    for owner, name in ((agent, "execute"), (agent.memory, "set_returns"), (agent.network, "update")):
        watch(owner, name, lambda *_, name=name: tape.append(name))
    for steps in RolloutSchedule(6).train(agent, 240 if stopped else 48):
        tape.append(str(steps))
        if tape.count("execute") >= 9:
            break
    assert tape == 2 * [*["execute"] * 6, "set_returns", *["update"] * 6, "24"]


OVERLAPPED = {"rollout_steps": 0, "random_steps": 100, "overlap": True, "target_steps": 1000, "workers": 8}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"replay_size": 5000}, "--replay_size 5000"), ({"prioritized": True}, "--sampler prioritized"),
    ({"n_step": 3}, "--n_step 3"), ({"double": True}, "--target_rule double"),
    ({"distributional": "c51"}, "--distributional c51"), ({"target_steps": 100}, "--target_steps 100"),
    ({"concurrent": True}, "--schedule concurrent"), ({"overlap": True}, "--schedule overlapped"),
    ({"cluster": "local"}, "--cluster local"), ({"batch_size": 25}, "--batch_size 25"),
    ({"train_frequency": 5}, "--train_frequency"), ({"train_steps": 100}, "give 120"),
    ({**OVERLAPPED, "concurrent": True}, "exclude each other"),
    ({**OVERLAPPED, "target_steps": 0}, "needs a target network"),
    ({**OVERLAPPED, "workers": 3}, "give --workers 4 or more"),
    ({**OVERLAPPED, "cluster": "local"}, "exclude each other"),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "named"), REFUSED, ids=str)
def test_what_does_not_fit_a_schedule_is_refused_by_name(flags: dict[str, Any], named: str) -> None:
    rules.check(Config.from_flags(CATCH))
    with pytest.raises(UserError, match=named):
        rules.check(Config.from_flags({**CATCH, **flags}))


def test_snapshots_and_tests_use_the_mean_of_the_weights(tmp_path: Path) -> None:
    flags = {"epochs": 1, "average_updates": 64, "checkpoint_minutes": 0, "test_steps": 20}
    config = Config.from_flags({**CATCH, **flags, "save_weights_prefix": str(tmp_path / "catch")})
    run = make_run(config, Interrupt())
    run.begin()
    network = run.agent.network
    mean, latest = network.get_weights(average=True), network.get_weights()
    saved = Snapshot.load(tmp_path / "catch_1.pkl").weights
    assert all(np.array_equal(saved[name], mean[name]) for name in mean)
    assert any(not np.array_equal(saved[name], latest[name]) for name in latest)
    states = run.agent.player.states
    assert run._tester
    for player, average in ((run._tester._player, True), (run.agent.player, False)):
        np.testing.assert_array_equal(player._predict(states), network.predict(states, average=average))
    assert np.any(network.predict(states) != network.predict(states, average=True))
