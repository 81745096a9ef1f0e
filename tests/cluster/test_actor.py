"""An actor, without Ray: its trajectories, and their size."""

import pickle
from itertools import pairwise
from typing import Any

import lz4.frame
import numpy as np
import pytest

from simple_dqn.cluster.actor import Actor, ActorSettings
from simple_dqn.cluster.trajectory import Trajectory, TrajectoryStream
from simple_dqn.config import Config
from simple_dqn.environment import make
from simple_dqn.random_streams import stream
from simple_dqn.replay import ReplayMemory
from simple_dqn.run import make_environment, make_network
from simple_dqn.snapshot import unpack
from tests.replay_memory.transitions import transitions_of

CATCH: dict[str, Any] = {
    "game": "catch", "environment": "catch", "screen_width": 36, "screen_height": 36, "history_length": 2,
    "replay_size": 2000, "random_seed": 0, "workers": 2, "chunk_steps": 20, "backend": "cpu", "threads": 1,
}  # fmt: skip


def actor(number: int = 0, generation: int = 0, **flags: Any) -> tuple[Actor, Config]:
    config = Config.from_flags({**CATCH, **flags})
    made = Actor()
    made.start(ActorSettings(config, number, generation))
    return made, config


def test_a_screen_is_sent_once_and_little_else() -> None:
    """The compressed new screens are at least five sixths of what an actor sends."""
    config = Config.from_flags({"game": "pong", "workers": 4, "random_seed": 0, "prioritized": True})
    weights = make_network(config, make_environment(config, training=True)).get_weights()
    pong = Actor()
    pong.start(ActorSettings(config, 0, 0))
    pong.play(None, 0, 1.0)
    for version in (1, 2):
        trajectory = pong.play(weights, version, 0.5)
        experience = unpack(trajectory.packed)
        assert experience.screens.shape == (config.cluster.chunk_steps, 4, 84, 84)
        screens = lz4.frame.compress(np.ascontiguousarray(experience.screens.swapaxes(0, 1)))
        assert len(pickle.dumps(trajectory)) <= 1.2 * len(screens)


def test_no_two_actors_play_the_same_games() -> None:
    packed = {
        actor(number, generation)[0].play(None, 0, 1.0).packed for number in (0, 1) for generation in (0, 1)
    }
    assert len(packed) == 4
    assert actor(0, 1)[0].play(None, 0, 1.0).packed in packed  # by the seed


def test_no_errors_are_sent_for_random_play() -> None:
    one, config = actor(prioritized=True, n_step=3)
    weights = make_network(config, make_environment(config, training=True)).get_weights()
    errors = [one.play(*given).errors for given in ((None, 0, 1.0), (weights, 0, 0.5), (weights, 0, 0.5))]
    assert [known is None for known in errors] == [True, True, False]


def test_scores_are_those_of_the_games_that_ended() -> None:
    one, _ = actor()
    trajectories = [one.play(None, 0, 1.0) for _ in range(6)]
    games = np.concatenate([unpack(trajectory.packed).rewards for trajectory in trajectories])
    starts = np.concatenate([unpack(trajectory.packed).starts for trajectory in trajectories])
    expected = []
    for game in range(2):
        bounds = np.flatnonzero(starts[:, game]).tolist()
        expected += [float(games[first:end, game].sum()) for first, end in pairwise(bounds)]
    assert sorted(score for trajectory in trajectories for score in trajectory.scores) == sorted(expected)


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("distributional", ["none", "quantile"])
def test_td_errors_are_those_of_an_update(n_step: int, distributional: str) -> None:
    """If both networks of the learner have the same weights, its TD errors are the same."""
    one, config = actor(n_step=n_step, prioritized=True, distributional=distributional, quantiles=8)
    environment = make_environment(config, training=True)
    network = make_network(config, environment)
    memory = ReplayMemory(
        config.memory, environment.games, environment.screen_shape, config.network.discount_rate,
        stream(0, "sampling"),
    )  # fmt: skip
    trajectories, told = TrajectoryStream(2, n_step), dict[int, float]()
    for version in range(3):
        trajectory: Trajectory = one.play(network.get_weights(), 0, 0.5)
        assert trajectory.number == version
        assert trajectory.errors is not None
        first, rows = memory.taken, trajectories.append(unpack(trajectory.packed))
        for step in rows.steps():
            memory.add(step)
        errors = trajectory.errors[rows.begins[rows.first : rows.end]]
        told |= dict(zip((first + np.flatnonzero(rows.begins)).tolist(), errors.tolist(), strict=True))
    numbers = memory._ring.transitions()
    assert sorted(told) == numbers.tolist()
    for number in numbers:
        batch = transitions_of(memory, np.array([number]))
        fresh = make_network(config, environment)
        fresh.update(fresh.prepare(batch))
        (outcome,) = fresh.take_outcomes()
        assert outcome.errors[0] == pytest.approx(told[int(number)], rel=1e-3, abs=1e-4)


def test_it_predicts_as_the_learner_does() -> None:
    """The predictor's Q-values are the network's."""
    one, config = actor()
    network = make_network(config, make_environment(config, training=True))
    one.play(network.get_weights(), 0, 0.0)
    states = np.random.default_rng(0).integers(0, 256, (5, 2, 36, 36), np.uint8)
    np.testing.assert_allclose(
        one._network.predict(states, explore=True), network.predict(states), rtol=1e-5, atol=1e-6
    )


def test_its_games_are_those_of_training() -> None:
    one, config = actor()
    streams = [stream(0, f"actor environment {game}") for game in range(2)]
    games = make(config.environment, streams, training=True)
    first = unpack(one.play(None, 0, 1.0).packed)
    np.testing.assert_array_equal(first.screens[0], games.reset().screens)
    for row in range(1, 21):
        np.testing.assert_array_equal(first.screens[row], games.step(first.actions[row]).screens)
