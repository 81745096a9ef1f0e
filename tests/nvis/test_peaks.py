"""The strongest answers of filters, against a loop over every state and every filter."""

import numpy as np
import pytest

from nvis.filters import Peaks, find_peaks
from nvis.played import PlayedGame
from simple_dqn.dqn import DeepQNetwork


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
    twice = PlayedGame(
        catch.history_length,
        catch.action_names,
        np.concatenate([catch.screens] * 6),
        np.zeros(6 * len(catch), np.int64),
        np.zeros(6 * len(catch), np.float32),
    )
    guided = network.guided_backpropagation()
    once, again = (find_peaks(game, guided, guided.layers[0]) for game in (catch, twice))
    same = np.isclose(once.activations, again.activations, rtol=1e-5)
    assert same.any(), "every filter answers to where one game follows another"
    np.testing.assert_array_equal(once.times[same], again.times[same])


def test_the_most_active_filters_come_first_and_silent_ones_not_at_all() -> None:
    peaks = Peaks(
        filters=np.arange(5),
        activations=np.array([0.5, 0, 3, 0.5, 1], np.float32),
        times=np.array([10, 11, 12, 13, 14]),
        rows=np.array([0, 1, 2, 3, 4]),
        columns=np.array([5, 6, 7, 8, 9]),
    )
    two, all_of_them = peaks.most_active(2), peaks.most_active(64)
    assert two.filters.tolist() == [2, 4]
    assert all_of_them.filters.tolist() == [2, 4, 0, 3]
    assert all_of_them.activations.tolist() == [3, 1, 0.5, 0.5]
    assert all_of_them.times.tolist() == [12, 14, 10, 13]
    assert all_of_them.rows.tolist() == [2, 4, 0, 3]
    assert all_of_them.columns.tolist() == [7, 9, 5, 8]
