"""Runs that differ in their seed alone, against a median that is reckoned row by row."""

import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simple_dqn.errors import UserError
from simple_dqn.plot import html, png
from simple_dqn.plot.panels import Plot, make_plot
from simple_dqn.statistics import Run, read_run


def run(folder: Path, name: str, rewards: dict[int, float | str]) -> Run:
    path = folder / f"{name}.csv"
    rows = "".join(f"{epoch},test,{reward}\n" for epoch, reward in rewards.items())
    path.write_text(f"epoch,phase,average_reward\n0,random,1\n{rows}")
    return read_run(path, "pong")


def plot_of(runs: list[Run]) -> Plot:
    return make_plot(runs, ["average_reward"], ["pong"])


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Three seeds, the second an epoch behind, the third with an epoch in which no game ended."""
    return [
        run(tmp_path, "a", {1: 5, 2: 7, 3: 9}),
        run(tmp_path, "b", {1: 1, 2: 8}),
        run(tmp_path, "c", {1: 3, 2: "", 3: 20}),
    ]


def test_the_median_and_the_range_of_those_that_have_a_value(runs: list[Run]) -> None:
    (panel,) = plot_of(runs).panels
    by_epoch = {1: [5, 1, 3], 2: [7, 8], 3: [9, 20]}
    level, line = panel.lines
    (band,) = panel.bands
    assert line.epochs.tolist() == band.epochs.tolist() == list(by_epoch)
    assert line.values.tolist() == [statistics.median(values) for values in by_epoch.values()]
    assert band.low.tolist() == [min(values) for values in by_epoch.values()]
    assert band.high.tolist() == [max(values) for values in by_epoch.values()]
    assert line.label == "Test, median of 3"
    assert (level.phase, level.values.tolist()) == ("random", [1])


def test_one_seed_has_no_range(runs: list[Run]) -> None:
    (panel,) = plot_of(runs[:1]).panels
    assert not panel.bands
    assert panel.lines[1].values.tolist() == [5, 7, 9]


def test_nothing_yet(tmp_path: Path) -> None:
    (panel,) = plot_of([]).panels
    assert not panel.lines
    assert not panel.bands


def test_two_settings_have_a_colour_and_a_band_each(runs: list[Run]) -> None:
    others = [replace(one, name="other") for one in runs[:2]]
    (panel,) = make_plot([*runs, *others], ["average_reward"], ["pong", "other"], ["test"]).panels
    assert [line.label for line in panel.lines] == ["pong Test, median of 3", "other Test, median of 2"]
    assert [line.colour for line in panel.lines] == [band.colour for band in panel.bands]
    assert panel.lines[0].colour != panel.lines[1].colour
    assert panel.bands[1].high.tolist() == [5, 8, 9]


def test_a_field_that_a_run_lacks_is_refused(runs: list[Run]) -> None:
    with pytest.raises(UserError, match="no field 'score' in pong"):
        make_plot(runs, ["score"], ["pong"])


def test_the_picture_shows_the_band(runs: list[Run]) -> None:
    figure = png.draw(plot_of(runs), 8, 6)
    (band,) = figure.axes[0].collections
    corners = {tuple(corner) for corner in np.asarray(band.get_paths()[0].vertices).tolist()}
    assert {(1.0, 1.0), (1.0, 5.0), (2.0, 7.0), (2.0, 8.0), (3.0, 9.0), (3.0, 20.0)} <= corners


def test_the_page_takes_it(runs: list[Run], tmp_path: Path) -> None:
    html.save(plot_of(runs), tmp_path / "pong.html")
    assert "VArea" in (tmp_path / "pong.html").read_text()
