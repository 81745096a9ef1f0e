"""The picture, decoded, and matplotlib's own account of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from simple_dqn.errors import UserError
from simple_dqn.plot.panels import COLOURS, Plot, View, make_plot
from simple_dqn.plot.png import draw, write
from simple_dqn.statistics import read_run


def lines(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {
        str(line.get_label()): (np.array(line.get_xdata()).tolist(), np.array(line.get_ydata()).tolist())
        for line in axes.lines
    }


def words(legend: Any) -> list[str]:
    return [text.get_text() for text in legend.get_texts()]


def test_the_picture_has_its_size_and_colours(plot_of: Callable[..., Plot], tmp_path: Path) -> None:
    path = tmp_path / "figures" / "pong.png"
    write(plot_of(["average_reward"]), path, 8, 6, 50)
    picture = matplotlib.image.imread(path)  # float32 [height, width, RGBA]
    assert picture.shape == (300, 400, 4)
    for colour in ("white", *COLOURS[:2]):
        close = np.abs(picture[:, :, :3] - np.array(to_rgb(colour))).max(axis=2) < 0.02
        assert close.sum() > 20, colour


def test_a_panel_shows_its_lines_and_words(plot_of: Callable[..., Plot]) -> None:
    figure = draw(plot_of(["average_reward", "meancost"]), 16, 9)
    first = figure.axes[0]
    assert (first.get_title(), first.get_xlabel()) == ("Average reward", "Epoch")
    assert first.get_ylabel() == "Average reward"
    assert lines(first) == {
        "Random": ([0, 1], [-20.5, -20.5]),  # from edge to edge of the panel
        "Train": ([1, 2, 3], [-20.25, -19.75, -17.5]),
        "Test": ([1, 2, 3], [0, -18.5, -15.25]),
    }
    assert words(first.get_legend()) == ["Random", "Train", "Test"]


@pytest.mark.parametrize(("fields", "shape"), [(1, (1, 1)), (4, (2, 2)), (5, (2, 3))])
def test_panels_stand_in_the_grid(plot_of: Callable[..., Plot], fields: int, shape: tuple[int, int]) -> None:
    figure = draw(plot_of(["meanq"] * fields), 16, 9)
    assert len(figure.axes) == fields
    grids = [axes.get_gridspec() for axes in figure.axes]
    assert {grid and grid.get_geometry() for grid in grids} == {shape}


def test_a_field_without_values_yet_says_so(tmp_path: Path) -> None:
    path = tmp_path / "pong.csv"
    path.write_text("epoch,phase,meanq\n1,train,\n1,test,\n")
    (axes,) = draw(make_plot([read_run(path, "pong")], ["pong"], View(["meanq"])), 8, 5).axes
    assert [text.get_text() for text in axes.texts] == ["no values yet"]


def test_runs_share_one_legend(plot_of: Callable[..., Plot]) -> None:
    plot = plot_of(["average_reward", "nr_games"], "pong_a", "pong_b")
    figure = draw(plot, 16, 9)
    assert list(lines(figure.axes[0])) == list(plot.legend)
    (legend,) = figure.legends
    assert words(legend) == list(plot.legend)
    drawn = {line.get_label(): line for line in figure.axes[0].lines}
    assert drawn["pong_a Test"].get_color() != drawn["pong_b Test"].get_color()
    assert drawn["pong_a Test"].get_linestyle() != drawn["pong_a Train"].get_linestyle()


@pytest.mark.parametrize(("length", "columns"), [(5, 3), (40, 2), (60, 1)])
def test_the_legend_has_as_many_columns_as_fit(
    plot_of: Callable[..., Plot], length: int, columns: int
) -> None:
    names = [letter * length for letter in "abc"]
    figure = draw(plot_of(["average_reward"], *names), 10, 6)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    edges = {round(text.get_window_extent().x0) for text in legend.get_texts()}
    assert len(edges) == columns
    assert legend.get_window_extent().width <= figure.bbox.width


def test_an_older_picture_survives_a_failure(
    plot_of: Callable[..., Plot], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plot, path = plot_of(["meanq"]), tmp_path / "pictures" / "pong.png"
    write(plot, path, 4, 3, 50)
    before = path.read_bytes()

    def fail(figure: Figure, path: Path, **how: Any) -> None:
        path.write_bytes(b"half a picture")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(UserError, match="No space left"):
        write(plot, path, 4, 3, 50)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
