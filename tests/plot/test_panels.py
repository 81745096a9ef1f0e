"""What is drawn, as data, against the rows of a CSV."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from simple_dqn.errors import UserError
from simple_dqn.human_scores import references
from simple_dqn.plot.panels import (
    AXES,
    COLOURS,
    STRETCHES,
    TITLES,
    Line,
    Panel,
    Plot,
    View,
    aligned,
    make_plot,
    thinned,
)
from simple_dqn.plot.png import draw
from simple_dqn.statistics import Run, read_run


def values(panel: Panel) -> dict[str, tuple[list[float], list[float]]]:
    return {line.label: (line.x.tolist(), line.values.tolist()) for line in panel.lines}


def test_a_panel_has_random_train_and_test(plot_of: Callable[..., Plot]) -> None:
    plot = plot_of(["average_reward", "meancost"])
    assert [panel.title for panel in plot.panels] == ["Average reward", "Average loss"]
    assert values(plot.panels[0]) == {
        "Random": ([], [-20.5]),
        "Train": ([1, 2, 3], [-20.25, -19.75, -17.5]),
        "Test": ([1, 2, 3], [0, -18.5, -15.25]),
    }


@pytest.mark.parametrize(
    ("fields", "grid"), [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (5, (2, 3)), (7, (3, 3))]
)
def test_panels_stand_in_a_near_square_grid(
    plot_of: Callable[..., Plot], fields: int, grid: tuple[int, int]
) -> None:
    assert plot_of(list(TITLES)[:fields]).grid == grid


def test_every_field_has_its_title(csv_file: Path, plot_of: Callable[..., Plot]) -> None:
    assert list(read_run(csv_file, "pong").columns) == list(TITLES)
    assert [panel.title for panel in plot_of(list(TITLES)).panels] == list(TITLES.values())


def test_a_column_of_later_versions_goes_by_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "pong.csv"
    path.write_text("epoch,phase,td_error\n1,train,0.5\n1,test,\n")
    (panel,) = make_plot([read_run(path, "pong")], ["pong"], View(["td_error"])).panels
    assert panel.title == "td_error"
    assert values(panel) == {"Train": ([1], [0.5])}


def test_a_field_without_values_has_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "pong.csv"
    path.write_text("epoch,phase,meanq\n1,train,\n1,test,\n")
    assert make_plot([read_run(path, "pong")], ["pong"], View(["meanq"])).panels[0].lines == ()


def test_of_several_random_phases_the_last_is_the_level(tmp_path: Path) -> None:
    path = tmp_path / "pong.csv"
    path.write_text("epoch,phase,meanq\n0,random,1\n1,train,2\n1,random,3\n")
    (panel,) = make_plot([read_run(path, "pong")], ["pong"], View(["meanq"])).panels
    assert values(panel)["Random"] == ([], [3])


def test_runs_differ_in_colour_and_phases_in_style(plot_of: Callable[..., Plot]) -> None:
    plot = plot_of(["average_reward", "nr_games"], "a", "b")
    assert plot.legend == ["a Random", "a Train", "a Test", "b Random", "b Train", "b Test"]
    looks = {line.label: (line.colour, line.style) for line in plot.panels[0].lines}
    assert len(set(looks.values())) == 6
    assert {colour for label, (colour, _) in looks.items() if label.startswith("a")} == {COLOURS[0]}
    assert {style for label, (_, style) in looks.items() if label.endswith("Test")} == {"solid"}


def test_the_legend_keeps_its_order_where_the_first_panel_lacks_a_phase(tmp_path: Path) -> None:
    path = tmp_path / "pong.csv"
    path.write_text("epoch,phase,meanq,steps\n0,random,,9\n1,train,2,9\n1,test,2,9\n")
    plot = make_plot([read_run(path, "pong")], ["pong"], View(["meanq", "steps"]))
    assert list(values(plot.panels[0])) == ["Train", "Test"]
    assert plot.legend == ["Random", "Train", "Test"]


def test_a_run_keeps_its_name_and_colour_while_others_are_waited_for(csv_file: Path) -> None:
    plot = make_plot([read_run(csv_file, "b")], ["a", "b"], View(["meanq"]))
    assert {line.colour for line in plot.panels[0].lines} == {COLOURS[1]}
    assert plot.legend == ["b Random", "b Train", "b Test"]


def test_there_are_colours_for_any_number_of_runs(plot_of: Callable[..., Plot]) -> None:
    names = [str(number) for number in range(len(COLOURS) + 1)]
    lines = plot_of(["meanq"], *names).panels[0].lines
    assert lines[0].colour == lines[-1].colour


def test_a_field_that_a_run_lacks_is_refused(plot_of: Callable[..., Plot]) -> None:
    with pytest.raises(UserError, match="no field 'score' in pong: choose among epoch, steps, nr_games, "):
        plot_of(["meanq", "score"])


def test_steps_and_hours_come_from_the_csv(csv_file: Path) -> None:
    run = read_run(csv_file, "pong")
    for name, column, unit in (("steps", "total_train_steps", 1), ("hours", "total_time", 3600)):
        (panel,) = make_plot([run], ["pong"], View(["meanq"], ["test"], AXES[name])).panels
        expected = run.columns[column][run.phases == "test"] / unit
        assert panel.lines[0].x.tolist() == expected.tolist()


def test_the_median_of_seeds_is_at_the_median_of_their_times(csv_file: Path) -> None:
    seeds = [read_run(csv_file, "pong") for _ in range(3)]
    for seed, run in enumerate(seeds):
        run.columns["total_time"] *= (1, 5, 2)[seed]
    (panel,) = make_plot(seeds, ["pong"], View(["meanq"], ["test"], AXES["hours"])).panels
    times = seeds[2].columns["total_time"][seeds[2].phases == "test"] / 3600
    assert panel.lines[0].x.tolist() == times.tolist()


def test_smoothing_takes_the_mean_of_the_latest_values_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "pong.csv"
    path.write_text("epoch,phase,meanq\n0,random,9\n1,test,1\n2,test,5\n3,test,\n4,test,6\n5,test,10\n")
    (panel,) = make_plot([read_run(path, "pong")], ["pong"], View(["meanq"], smooth=3)).panels
    assert values(panel) == {"Random": ([], [9]), "Test": ([1, 2, 4, 5], [1, 3, 4, 7])}


def test_references_are_levels_beside_the_rewards_alone(csv_file: Path) -> None:
    view = View(["average_reward", "meanq"], levels=references("pong"), title="Pong")
    plot = make_plot([read_run(csv_file, "pong")], ["pong"], view)
    first, second = (values(panel) for panel in plot.panels)
    assert list(first)[3:] == [
        "simple_dqn 19.8 (its best test epoch)", "DeepMind 18.9 (Mnih et al. 2015)",
        "a person 14.6 (Wang et al. 2016)", "random play −20.7 (Wang et al. 2016)",
    ]  # fmt: skip
    assert first["DeepMind 18.9 (Mnih et al. 2015)"] == ([], [18.9])
    assert list(second) == ["Random", "Train", "Test"]
    assert plot.legend == list(first)


def test_a_long_curve_is_thinned_and_looks_the_same() -> None:
    """Drawn with all its points or with few, a curve with rare spikes covers the same pixels."""
    rng = np.random.default_rng(0)
    x = np.arange(100_000.0)
    values = np.sin(x / 7_000) + rng.normal(0, 0.05, len(x))
    values[[0, 31_337, 77_777]] = 5, -9, 8  # peaks of one point
    whole = Line("Train", x, values, "#1f77b4", "solid", 1.5, low=values - 1, high=values + 1)
    few = thinned(whole)
    assert len(few.x) <= 8 * STRETCHES < len(x) / 2
    assert {0, 31_337, 77_777, 99_999} <= set(few.x.tolist())
    assert few.low is not None
    assert few.high is not None
    assert (few.low.min(), few.high.max()) == (-10, 9)
    assert (few.values == values[few.x.astype(int)]).all()
    pictures = []
    for line in (whole, few):
        figure = draw(Plot(("x",), (Panel("Panel", (line,)),)), 8, 4.5)
        canvas: Any = FigureCanvasAgg(figure)
        canvas.draw()
        pictures.append(np.asarray(canvas.buffer_rgba(), np.int64))
    off = np.abs(pictures[0] - pictures[1]).max(axis=2) > 64
    assert off.mean() < 0.003, "only the antialiasing of edges may differ"
    short = Line("Train", x[:5], values[:5], "#1f77b4", "solid", 1.5)
    assert thinned(short) is short


@pytest.mark.parametrize("smooth", [1, 2, 7, 1000])
def test_smoothing_is_the_mean_of_the_latest_values(smooth: int) -> None:
    epochs, values = np.arange(1.0, 41), np.random.default_rng(1).normal(size=40)
    values[[4, 9]] = np.nan
    run = Run("x", np.array(["train"] * 40), {"epoch": epochs, "meanq": values})
    found = aligned([run], "train", "meanq", View(smooth=smooth))
    there = values[~np.isnan(values)]
    expected = [there[max(0, end - smooth) : end].mean() for end in range(1, len(there) + 1)]
    np.testing.assert_allclose(found[1][:, 0], expected, atol=1e-12)
    assert found[0][:, 0].tolist() == epochs[~np.isnan(values)].tolist()
