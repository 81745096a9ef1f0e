"""An actor, without Ray: what it sends, and how much of it."""

import pickle
from itertools import pairwise
from typing import Any

import lz4.frame
import numpy as np
import pytest

from simple_dqn.cluster import RemoteGames
from simple_dqn.cluster.actor import Actor
from simple_dqn.cluster.chunk import Chunk, Task
from simple_dqn.cluster.lane import Lane
from simple_dqn.config import Config
from simple_dqn.environment import make
from simple_dqn.random_streams import stream
from simple_dqn.replay_memory import ReplayMemory
from simple_dqn.snapshot.experience_log import unpack
from simple_dqn.types import Minibatch
from simple_dqn.wiring import make_environment, make_network

CATCH: dict[str, Any] = {
    "game": "catch", "environment": "catch", "screen_width": 36, "screen_height": 36, "history_length": 2,
    "replay_size": 2000, "random_seed": 0, "workers": 2, "chunk_steps": 20, "backend": "cpu", "threads": 1,
}  # fmt: skip


def actor(number: int = 0, life: int = 0, **flags: Any) -> tuple[Actor, Config]:
    config = Config.from_flags({**CATCH, **flags})
    made = Actor()
    made.begin(Task(config, number, life))
    return made, config


def test_a_screen_is_sent_once_and_little_else() -> None:
    """Of all that an actor answers, the screens that are new make up five sixths, compressed as they are."""
    config = Config.from_flags({"game": "pong", "workers": 4, "random_seed": 0, "prioritized": True})
    weights = make_network(config, make_environment(config, training=True)).get_weights()
    pong = Actor()
    pong.begin(Task(config, 0, 0))
    pong.play(None, 0, 1.0)
    for version in (1, 2):
        chunk = pong.play(weights, version, 0.5)
        experience = unpack(chunk.packed)
        assert experience.screens.shape == (config.cluster.chunk_steps, 4, 84, 84)
        screens = lz4.frame.compress(np.ascontiguousarray(experience.screens.swapaxes(0, 1)))
        assert len(pickle.dumps(chunk)) <= 1.2 * len(screens)


def test_no_two_actors_play_the_same_games_nor_does_one_that_takes_a_place() -> None:
    packed = {actor(number, life)[0].play(None, 0, 1.0).packed for number in (0, 1) for life in (0, 1)}
    assert len(packed) == 4
    assert actor(0, 1)[0].play(None, 0, 1.0).packed in packed  # by the seed


def test_nor_do_those_of_a_run_that_was_resumed() -> None:
    config = Config.from_flags(CATCH)
    games = RemoteGames(make_environment(config, training=False))
    sittings = [games.sitting]
    for _ in range(2):
        games.set_state(games.get_state())
        sittings.append(games.sitting)
    tasks = [
        Task(config, number, life, sitting) for number in (0, 1) for life in (0, 1) for sitting in sittings
    ]
    assert len({task.index for task in tasks}) == 12


def test_of_what_follows_on_random_play_no_error_is_told() -> None:
    one, config = actor(prioritized=True, n_step=3)
    weights = make_network(config, make_environment(config, training=True)).get_weights()
    errors = [one.play(*given).errors for given in ((None, 0, 1.0), (weights, 0, 0.5), (weights, 0, 0.5))]
    assert [known is None for known in errors] == [True, True, False]


def test_scores_are_those_of_the_games_that_ended() -> None:
    one, _ = actor()
    chunks = [one.play(None, 0, 1.0) for _ in range(6)]
    games = np.concatenate([unpack(chunk.packed).rewards for chunk in chunks])
    starts = np.concatenate([unpack(chunk.packed).starts for chunk in chunks])
    expected = []
    for game in range(2):
        bounds = np.flatnonzero(starts[:, game]).tolist()
        expected += [float(games[first:end, game].sum()) for first, end in pairwise(bounds)]
    assert sorted(score for chunk in chunks for score in chunk.scores) == sorted(expected)


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("distributional", ["none", "quantile"])
def test_first_errors_are_those_of_an_update(n_step: int, distributional: str) -> None:
    """With the weights of both its networks the same, the learner would find what the actor found."""
    one, config = actor(n_step=n_step, prioritized=True, distributional=distributional, quantiles=8)
    environment = make_environment(config, training=True)
    network = make_network(config, environment)
    memory = ReplayMemory(
        config.memory, environment.games, environment.screen_shape, config.network.discount_rate,
        stream(0, "sampling"),
    )  # fmt: skip
    lane, told = Lane(2, n_step), dict[int, float]()
    for version in range(3):
        chunk: Chunk = one.play(network.get_weights(), 0, 0.5)
        assert chunk.number == version
        assert chunk.errors is not None
        first, piece = memory.taken, lane.take(unpack(chunk.packed))
        for step in piece.steps():
            memory.add(step)
        errors = chunk.errors[piece.begins[piece.first : piece.end]]
        told |= dict(zip((first + np.flatnonzero(piece.begins)).tolist(), errors.tolist(), strict=True))
    numbers = memory._ring.transitions()
    assert sorted(told) == numbers.tolist()
    for number in numbers:
        batch: Minibatch = memory._gather(np.array([number]), np.ones(1, np.float32))
        fresh = make_network(config, environment)
        fresh.update(fresh.prepare(batch))
        (outcome,) = fresh.take_outcomes()
        assert outcome.errors[0] == pytest.approx(told[int(number)], rel=1e-3, abs=1e-4)


def test_what_it_plays_is_what_the_learner_would_play() -> None:
    """The predictor's Q-values are the network's."""
    one, config = actor()
    network = make_network(config, make_environment(config, training=True))
    one.play(network.get_weights(), 0, 0.0)
    states = np.random.default_rng(0).integers(0, 256, (5, 2, 36, 36), np.uint8)
    np.testing.assert_allclose(
        one._predictor.predict_to_explore(states), network.predict(states), rtol=1e-5, atol=1e-6
    )


def test_its_games_are_those_of_training() -> None:
    one, config = actor()
    streams = [stream(0, f"actor environment {game}") for game in range(2)]
    games = make(config.environment, streams, training=True)
    first = unpack(one.play(None, 0, 1.0).packed)
    np.testing.assert_array_equal(first.screens[0], games.reset().screens)
    for row in range(1, 21):
        np.testing.assert_array_equal(first.screens[row], games.step(first.actions[row]).screens)
