"""Runs that differ in their seed alone, against a median that is reckoned row by row."""

import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simple_dqn.errors import UserError
from simple_dqn.plot import png
from simple_dqn.plot.panels import Plot, View, make_plot
from simple_dqn.statistics import Run, read_run


def run(folder: Path, name: str, rewards: dict[int, float | str]) -> Run:
    path = folder / f"{name}.csv"
    rows = "".join(f"{epoch},test,{reward}\n" for epoch, reward in rewards.items())
    path.write_text(f"epoch,phase,average_reward\n0,random,1\n{rows}")
    return read_run(path, "pong")


def plot_of(runs: list[Run]) -> Plot:
    return make_plot(runs, ["pong"], View(["average_reward"]))


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Three seeds: the second stops after two epochs, the third has an epoch in which no game ended."""
    return [
        run(tmp_path, "a", {1: 5, 2: 7, 3: 9, 4: 11}),
        run(tmp_path, "b", {1: 1, 2: 8}),
        run(tmp_path, "c", {1: 3, 2: 4, 3: "", 4: 20}),
    ]


def test_the_median_and_the_range_end_where_the_first_run_does(runs: list[Run]) -> None:
    (panel,) = plot_of(runs).panels
    by_epoch = {1: [5, 1, 3], 2: [7, 8, 4]}
    level, line, *single = panel.lines
    assert line.low is not None
    assert line.high is not None
    assert line.x.tolist() == list(by_epoch)
    assert line.values.tolist() == [statistics.median(values) for values in by_epoch.values()]
    assert line.low.tolist() == [min(values) for values in by_epoch.values()]
    assert line.high.tolist() == [max(values) for values in by_epoch.values()]
    assert line.label == "Test, median and range of 3"
    assert (level.x.tolist(), level.values.tolist()) == ([], [1])
    # The two that go on do so as themselves, from where the median ends.
    assert [(one.x.tolist(), one.values.tolist()) for one in single] == [
        ([2, 3, 4], [7, 9, 11]),
        ([2, 4], [4, 20]),
    ]
    assert {one.label for one in single} == {"Test, single runs"}
    assert all(one.width < line.width for one in single)


def test_an_epoch_that_one_run_lacks_is_left_out_of_the_median(tmp_path: Path) -> None:
    runs = [run(tmp_path, "a", {1: 5, 2: 7, 3: 9}), run(tmp_path, "b", {1: 1, 2: "", 3: 3})]
    (panel,) = plot_of(runs).panels
    _, line = panel.lines
    assert (line.x.tolist(), line.values.tolist()) == ([1, 3], [3, 6])
    assert line.low is not None
    assert line.low.tolist() == [1, 3]


def test_runs_that_have_no_epoch_in_common_are_single(tmp_path: Path) -> None:
    runs = [run(tmp_path, "a", {1: "", 2: 7, 3: 9}), run(tmp_path, "b", {1: 1})]
    (panel,) = plot_of(runs).panels
    assert [(one.x.tolist(), one.values.tolist()) for one in panel.lines[1:]] == [
        ([2, 3], [7, 9]),
        ([1], [1]),
    ]
    assert all(line.low is None for line in panel.lines)


def test_the_level_of_random_play_is_the_median_of_the_latest_values(tmp_path: Path) -> None:
    runs = [run(tmp_path, name, {1: 5}) for name in "abc"]
    for one, value in zip(runs, (3.0, 4.0, np.nan), strict=True):
        one.columns["average_reward"][0] = value
    (panel,) = plot_of(runs).panels
    assert (panel.lines[0].label, panel.lines[0].values.tolist()) == ("Random, median of 2", [3.5])


def test_one_seed_has_no_range(runs: list[Run]) -> None:
    (panel,) = plot_of(runs[:1]).panels
    assert all(line.low is None for line in panel.lines)
    assert [line.label for line in panel.lines] == ["Random", "Test"]
    assert panel.lines[1].values.tolist() == [5, 7, 9, 11]


def test_nothing_yet(tmp_path: Path) -> None:
    (panel,) = plot_of([]).panels
    assert not panel.lines


def test_two_settings_have_a_colour_and_a_band_each(runs: list[Run]) -> None:
    others = [replace(one, name="other") for one in runs[:2]]
    (panel,) = make_plot([*runs, *others], ["pong", "other"], View(["average_reward"], ["test"])).panels
    first, *single, second, last = panel.lines
    assert [first.label, second.label] == [
        "pong, median and range of 3",
        "other, median and range of 2",
    ]
    assert [line for line in panel.lines if line.low is not None] == [first, second]
    assert {line.colour for line in single} == {first.colour} != {second.colour} == {last.colour}
    assert second.high is not None
    assert second.high.tolist() == [5, 8]
    assert last.label == "other, single runs"


def test_a_field_that_a_run_lacks_is_refused(runs: list[Run]) -> None:
    with pytest.raises(UserError, match="no field 'score' in pong"):
        make_plot(runs, ["pong"], View(["score"]))


def test_the_picture_shows_the_band_and_names_single_runs_once(runs: list[Run]) -> None:
    (axes,) = png.draw(plot_of(runs), 8, 6).axes
    (band,) = axes.collections
    corners = {tuple(corner) for corner in np.asarray(band.get_paths()[0].vertices).tolist()}
    assert {(1.0, 1.0), (1.0, 5.0), (2.0, 4.0), (2.0, 8.0)} <= corners
    assert max(epoch for epoch, _ in corners) == 2
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "Random, median of 3",
        "Test, median and range of 3",
        "Test, single runs",
    ]
