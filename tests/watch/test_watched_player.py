from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from simple_dqn.agent import Player
from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import Environment, Frame, as_played, make
from simple_dqn.random_streams import stream
from simple_dqn.types import QValues, States
from simple_dqn.watch.watched_player import FrameFollower, WatchedPlayer

CATCH = EnvironmentConfig(game="catch", environment="catch", screen_width=16, screen_height=16)


def environment() -> Environment:
    return make(CATCH, [stream(1, "environment")], training=False)


def predict(states: States) -> QValues:
    """Return values that depend on the whole state."""
    sums = states.astype(np.float32).reshape(len(states), -1) @ np.arange(states[0].size, dtype=np.float32)
    return np.stack([np.sin(sums), np.cos(sums), np.sin(2 * sums)], axis=1).astype(np.float32)


def watched(saliency: Callable[[States], NDArray[np.float32]] | None = None) -> WatchedPlayer:
    return WatchedPlayer(environment(), predict, 4, stream(1, "exploration"), saliency)


def test_a_watched_player_plays_as_a_player_does() -> None:
    player = WatchedPlayer(environment(), predict, 4, stream(1, "exploration"))
    plain = Player(environment(), predict, 4, stream(1, "exploration"))
    player.start()
    plain.start()
    explored = 0
    for _ in range(100):
        one, other = player.step(0.3), plain.step(0.3)
        assert np.array_equal(one.actions, other.actions)
        assert np.array_equal(one.screens, other.screens)
        assert not player.human
        explored += player.exploring
    assert 0 < explored < 60


def test_a_watched_player_keeps_the_last_qvalues() -> None:
    player = watched()
    states = np.arange(4 * 9, dtype=np.uint8).reshape(1, 4, 3, 3)
    expected = predict(states)[0]
    player.choose(0.0, states=states)
    states[:] = 0
    assert player.qvalues is not None
    assert np.array_equal(player.qvalues, expected)
    assert player.heat_map() is None


def test_a_person_chooses_whenever_there_is_one() -> None:
    wanted: list[int | None] = [None]
    player = WatchedPlayer(environment(), predict, 4, stream(1, "exploration"), person=lambda: wanted[0])
    step = player.start()
    for turn in range(60):
        wanted[0] = 2 if turn % 3 else None
        starts = step.resets[0]
        step = player.step(0.0)
        assert player.human == (wanted[0] is not None)
        assert player.qvalues is not None
        assert player.action == (2 if player.human else player.qvalues.argmax())
        assert starts or step.actions[0] == player.action


def test_without_an_agent_nobody_moves_unless_the_person_does() -> None:
    wanted: list[int | None] = [None]
    player = WatchedPlayer(environment(), None, 4, stream(1, "exploration"), person=lambda: wanted[0])
    player.start()
    assert player.step(1.0).actions[0] == 0
    wanted[0] = 2
    assert player.step(1.0).actions[0] == 2
    assert not player.exploring


def test_the_heat_map_is_the_strongest_of_the_screens_and_worked_out_once() -> None:
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(1, 4, 5, 6)).astype(np.float32)
    asked: list[States] = []

    def saliency(states: States) -> NDArray[np.float32]:
        asked.append(states)
        return gradients

    player = watched(saliency)
    assert player.heat_map() is None
    states = np.ones((1, 4, 5, 6), np.uint8)
    player.choose(0.0, states=states)
    states[:] = 0
    assert not asked
    heat = player.heat_map()
    assert player.heat_map() is heat
    assert len(asked) == 1
    assert asked[0].all()
    assert heat is not None
    for y in range(5):
        for x in range(6):
            strongest = max(abs(float(gradients[0, s, y, x])) for s in range(4))
            assert heat[y, x] == pytest.approx(strongest / np.abs(gradients).max())
    player.choose(0.0, states=np.ones((1, 4, 5, 6), np.uint8))
    assert player.heat_map() is not heat


def test_an_agent_that_looks_nowhere_has_a_cold_heat_map() -> None:
    player = watched(lambda states: np.zeros(states.shape, np.float32))
    player.choose(0.0, states=np.ones((1, 4, 5, 6), np.uint8))
    heat = player.heat_map()
    assert heat is not None
    assert np.array_equal(heat, np.zeros((5, 6)))


class Screening:
    """Follows a player's games, and keeps the frames as they are shown."""

    def __init__(self, config: EnvironmentConfig) -> None:
        self.follower = FrameFollower(self._show)
        games = make(as_played(config), [stream(1, "environment")], training=False, watcher=self._watch)
        self.player = WatchedPlayer(games, newest, 4, stream(1, "exploration"))
        self.shown: list[tuple[Frame, float, NDArray[np.float32] | None]] = []
        self.rewards = 0.0  # of the frames since the last step

    def _watch(self, frame: Frame) -> None:
        self.rewards += frame.reward
        self.follower.watch(frame)

    def _show(self, frame: Frame, score: float, begins: bool) -> None:
        view = self.player.view(score, frame.lives, 0.5, heat_map=False, begins=begins)
        self.shown.append((frame, view.score, view.qvalues))


def newest(states: States) -> QValues:
    """Return Q-values that tell the newest screen of a state."""
    return np.repeat(states[:, -1].mean(axis=(1, 2))[:, np.newaxis], 6, axis=1).astype(np.float32)


def test_a_frame_is_shown_with_the_qvalues_of_the_state_that_it_ends() -> None:
    screening = Screening(CATCH)
    screening.follower.add(screening.player.start())
    for _ in range(40):
        screening.follower.add(screening.player.step(0.0))
    frames = screening.shown
    assert len(frames) == 40  # of 41; the last one is held back
    for frame, _, qvalues in frames:
        assert qvalues is not None
        assert qvalues[0] == np.float32(frame.picture[:, :, 0].mean())
    # A game of Catch has eight frames and pays with its last, which shows it; the next game begins at 0.
    games = [[score for _, score, _ in frames[first : first + 8]] for first in range(0, 40, 8)]
    assert all(scores[:7] == [0] * 7 for scores in games)
    assert [scores[7] for scores in games] == screening.follower.scores
    screening.follower.flush()
    assert len(frames) == 41


def test_the_score_is_that_of_each_frame_within_a_step() -> None:
    """Points are won in one of the four frames of a step, and are shown from this frame on."""
    screening = Screening(EnvironmentConfig(game="space_invaders"))
    follower, within = screening.follower, 0
    follower.add(screening.player.start())
    for _ in range(300):
        shown, before, screening.rewards = len(screening.shown), follower.score, 0.0
        step = screening.player.step(1.0)
        assert screening.rewards == step.rewards[0]
        follower.add(step)
        scores = [score for _, score, _ in screening.shown[shown:]]
        assert len(scores) == 4
        assert scores[0] == before  # of the last frame of the step before
        within += len(set(scores)) > 1
    assert within, "points were won before the last frame of a step"
