"""What is drawn, as data, against the rows of a CSV."""

from collections.abc import Callable
from pathlib import Path

import pytest

from simple_dqn.errors import UserError
from simple_dqn.plot.panels import COLOURS, TITLES, Panel, Plot, make_plot
from simple_dqn.statistics import read_run


def values(panel: Panel) -> dict[str, tuple[list[float], list[float]]]:
    return {line.label: (line.epochs.tolist(), line.values.tolist()) for line in panel.lines}


def test_a_panel_has_random_train_and_test(plot_of: Callable[..., Plot]) -> None:
    plot = plot_of(["average_reward", "meancost"])
    assert [panel.title for panel in plot.panels] == ["Average reward", "Average loss"]
    assert values(plot.panels[0]) == {
        "Random": ([0], [-20.5]),
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
    (panel,) = make_plot([read_run(path, "pong")], ["td_error"], ["pong"]).panels
    assert panel.title == "td_error"
    assert values(panel) == {"Train": ([1], [0.5])}


def test_a_field_without_values_has_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "pong.csv"
    path.write_text("epoch,phase,meanq\n1,train,\n1,test,\n")
    assert make_plot([read_run(path, "pong")], ["meanq"], ["pong"]).panels[0].lines == ()


def test_of_several_random_phases_the_last_is_the_level(tmp_path: Path) -> None:
    path = tmp_path / "pong.csv"
    path.write_text("epoch,phase,meanq\n0,random,1\n1,train,2\n1,random,3\n")
    (panel,) = make_plot([read_run(path, "pong")], ["meanq"], ["pong"]).panels
    assert values(panel)["Random"] == ([1], [3])


def test_runs_differ_in_colour_and_phases_in_style(plot_of: Callable[..., Plot]) -> None:
    plot = plot_of(["average_reward", "nr_games"], "a", "b")
    assert list(plot.legend) == ["a Random", "a Train", "a Test", "b Random", "b Train", "b Test"]
    looks = {label: (line.colour, line.style) for label, line in plot.legend.items()}
    assert len(set(looks.values())) == 6
    assert {colour for label, (colour, _) in looks.items() if label.startswith("a")} == {COLOURS[0]}
    assert {style for label, (_, style) in looks.items() if label.endswith("Test")} == {"solid"}


def test_the_legend_keeps_its_order_where_the_first_panel_lacks_a_phase(tmp_path: Path) -> None:
    path = tmp_path / "pong.csv"
    path.write_text("epoch,phase,meanq,steps\n0,random,,9\n1,train,2,9\n1,test,2,9\n")
    plot = make_plot([read_run(path, "pong")], ["meanq", "steps"], ["pong"])
    assert list(values(plot.panels[0])) == ["Train", "Test"]
    assert list(plot.legend) == ["Random", "Train", "Test"]


def test_a_run_keeps_its_name_and_colour_while_others_are_waited_for(csv_file: Path) -> None:
    plot = make_plot([read_run(csv_file, "b")], ["meanq"], ["a", "b"])
    assert {line.colour for line in plot.panels[0].lines} == {COLOURS[1]}
    assert list(plot.legend) == ["b Random", "b Train", "b Test"]


def test_there_are_colours_for_any_number_of_runs(plot_of: Callable[..., Plot]) -> None:
    names = [str(number) for number in range(len(COLOURS) + 1)]
    lines = plot_of(["meanq"], *names).panels[0].lines
    assert lines[0].colour == lines[-1].colour


def test_a_field_that_a_run_lacks_is_refused(plot_of: Callable[..., Plot]) -> None:
    with pytest.raises(UserError, match="no field 'score' in pong: choose among epoch, steps, nr_games, "):
        plot_of(["meanq", "score"])
