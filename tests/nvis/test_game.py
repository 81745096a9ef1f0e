"""The game that is kept, against the player's own; its peaks, against a loop; and the pictures of both."""

import numpy as np
import pytest

from nvis.game import Peaks, PlayedGame, find_peaks, percent_of_strongest, play_game
from nvis.page import color_channels, gradient_picture, state_picture
from simple_dqn.agent import Player
from simple_dqn.config import EnvironmentConfig
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.environment import make
from simple_dqn.types import QValues, States


@pytest.mark.parametrize("games", [1, 3])
def test_states_are_those_that_the_player_saw(games: int) -> None:
    seen: list[States] = []

    def predict(states: States) -> QValues:
        """Prefer the action that the number of calls so far says."""
        seen.append(states[0].copy())
        return np.tile(np.eye(3, dtype=np.float32)[len(seen) % 3], (len(states), 1))

    config = EnvironmentConfig(environment="catch", screen_height=16, screen_width=10)
    streams = [np.random.default_rng(seed) for seed in range(games)]
    environment = make(config, streams, training=False)
    player = Player(environment, predict, 3, np.random.default_rng(0))
    for _ in range(3):
        seen.clear()
        game = play_game(player, 3, exploration_rate=0)
        assert len(game) == 7
        np.testing.assert_array_equal(game.states(np.arange(7)), np.stack(seen))
        np.testing.assert_array_equal(game.actions, (np.arange(7) + 1) % 3)
        assert (game.rewards[:-1] == 0).all()
        assert abs(game.rewards[-1]) == 1
        assert game.action_names == environment.action_names


def test_states_in_any_order_and_those_without_a_screen_from_before_the_game(noise: PlayedGame) -> None:
    before = noise.screens.copy()
    times = np.array([40, 0, 40, 1])
    states = noise.states(times)
    np.testing.assert_array_equal(states[0], noise.screens[38:41])
    np.testing.assert_array_equal(states[2], states[0])
    assert not states[1, :2].any()
    np.testing.assert_array_equal(states[3, 1:], noise.screens[:2])
    states[:] = 99  # the caller's
    np.testing.assert_array_equal(noise.screens, before)
    whole = [time for time, state in enumerate(noise.states(np.arange(75))) if state.any(axis=(1, 2)).all()]
    np.testing.assert_array_equal(noise.whole(), whole)
    short = PlayedGame(5, ("NOOP",), np.ones((2, 4, 4), np.uint8), *np.zeros((2, 2), np.int64))
    np.testing.assert_array_equal(short.whole(), [1])


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("kind", ["noise", "catch"])
def test_no_state_of_the_game_activates_a_filter_more(
    request: pytest.FixtureRequest, network: DeepQNetwork, kind: str, place: int
) -> None:
    game: PlayedGame = request.getfixturevalue(kind)
    guided = network.guided_backpropagation()
    layer = guided.layers[place]
    peaks = find_peaks(game, guided, layer)
    answers = [guided.activations(game.states(np.array([time])), layer.name)[0] for time in range(len(game))]
    assert len(peaks.filters) == layer.filters
    for number, filter_ in enumerate(peaks.filters):
        highest = max(float(answers[time][filter_].max()) for time in game.whole())
        time, row, column = (int(each[number]) for each in (peaks.times, peaks.rows, peaks.columns))
        assert peaks.activations[number] == pytest.approx(highest, rel=1e-5, abs=1e-7)
        assert answers[time][filter_, row, column] == pytest.approx(highest, rel=1e-5, abs=1e-7)
    assert len(set(peaks.times.tolist())) > 1


def test_of_equal_answers_the_first_counts(network: DeepQNetwork, catch: PlayedGame) -> None:
    many, nothing = np.concatenate([catch.screens] * 6), np.zeros(6 * len(catch))
    twice = PlayedGame(
        catch.history_length, catch.action_names, many, nothing.astype(int), nothing.astype(np.float32)
    )
    guided = network.guided_backpropagation()
    once, again = (find_peaks(game, guided, guided.layers[0]) for game in (catch, twice))
    same = np.isclose(once.activations, again.activations, rtol=1e-5)
    assert same.any(), "every filter answers to where one game follows another"
    np.testing.assert_array_equal(once.times[same], again.times[same])


def test_the_most_active_filters_come_first_and_silent_ones_not_at_all() -> None:
    activations, numbers = np.array([0.5, 0, 3, 0.5, 1], np.float32), np.arange(5)
    peaks = Peaks(numbers, activations, numbers + 10, numbers, numbers + 5)
    two, all_of_them = peaks.most_active(2), peaks.most_active(64)
    assert two.filters.tolist() == [2, 4]
    assert all_of_them.activations.tolist() == [3, 1, 0.5, 0.5]
    for chosen, first in (("filters", 0), ("times", 10), ("rows", 0), ("columns", 5)):
        assert getattr(all_of_them, chosen).tolist() == [first + number for number in (2, 4, 0, 3)]


@pytest.mark.parametrize(
    ("screens", "channels"), [(1, (0, 0, 0)), (2, (0, 0, 1)), (3, (0, 1, 2)), (4, (1, 2, 3)), (6, (3, 4, 5))]
)
def test_the_last_three_screens_are_red_green_and_blue(screens: int, channels: tuple[int, ...]) -> None:
    state = np.arange(screens, dtype=np.uint8)[:, np.newaxis, np.newaxis] * np.ones((1, 4, 5), np.uint8)
    assert color_channels(state).shape == (4, 5, 3)
    assert (color_channels(state) == channels).all()


def test_a_state_as_the_browser_reads_its_bytes() -> None:
    state = np.random.default_rng(0).integers(0, 256, (4, 3, 5), dtype=np.uint8)
    pixels = state_picture(state).view(np.uint8).reshape(3, 5, 4)
    for row in range(3):
        for column in range(5):
            assert pixels[row, column].tolist() == [*state[1:, row, column].tolist(), 255]


def test_a_gradient_is_grey_where_it_is_nothing_and_full_where_it_is_strongest() -> None:
    gradient = np.zeros((3, 2, 2), np.float32)
    gradient[0, 0, 0], gradient[1, 0, 1], gradient[2, 1, 0] = -4e-3, 2e-3, 4e-3
    pixels = gradient_picture(gradient).view(np.uint8).reshape(2, 2, 4)
    assert pixels.tolist() == [
        [[0, 128, 128, 255], [128, 191, 128, 255]],
        [[128, 128, 255, 255], [128, 128, 128, 255]],
    ]
    assert (gradient_picture(np.zeros((3, 2, 2), np.float32)).view(np.uint8)[:, :3] == 128).all()


def test_saliency_is_a_share_of_the_strongest_pixel_of_its_state() -> None:
    gradients = np.zeros((3, 2, 2, 2), np.float32)
    gradients[0, :, 0, 0] = (-8, 2)
    gradients[0, :, 1, 1] = (1, 4)
    gradients[2, 1, 1, 0] = 1e-9
    assert percent_of_strongest(gradients).tolist() == [
        [[100, 0], [0, 50]],
        [[0, 0], [0, 0]],
        [[0, 0], [100, 0]],
    ]
