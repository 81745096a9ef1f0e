"""Figures as matplotlib draws them, against the rows of CSVs; and the command line of plot.sh."""

import re
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from simple_dqn.errors import UserError
from simple_dqn.evaluation import references
from simple_dqn.plot import AXES, View, aligned, draw, main, picture, run_names
from simple_dqn.statistics.csv_file import RunData, read_run
from tests.command_line import ORIGINAL, Capsys, Patch

SMALL = ["--figure_width", "6", "--figure_height", "4", "--dpi", "50"]
Points = tuple[list[float], ...]  # x and y; a level is drawn from 0 to 1, the edges of the panel


def figure_of(view: View, *names: str, runs: Sequence[RunData] = ()) -> Figure:
    figure, names = Figure(figsize=(10, 6), layout="constrained"), names or ("pong",)
    draw(figure, runs or [read_run(ORIGINAL, name) for name in names], names, view)
    return figure


def run(folder: Path, rows: str, name: str = "pong") -> RunData:
    path = folder / "run.csv"
    path.write_text("epoch,phase,meanq\n" + rows.replace(" ", "\n") + "\n")
    return read_run(path, name)


def panel_of(runs: Sequence[RunData], view: View | None = None) -> Axes:
    return figure_of(view or View(["meanq"]), runs=runs).axes[0]


def points(line: Line2D) -> Points:
    return tuple(np.array(line.get_data()).tolist())


def lines_of(axes: Axes) -> dict[str, Points]:
    return {str(line.get_label()): points(line) for line in axes.lines}


def words(legend: Any) -> list[str]:
    return [text.get_text() for text in legend.get_texts()]


def test_a_panel_has_random_train_and_test() -> None:
    first, *others = figure_of(View(["average_reward", "meancost", "weight_updates"])).axes
    assert [axes.get_title() for axes in others] == ["Average loss", "Weight updates"]
    labels = (first.get_title(), first.get_xlabel(), first.get_ylabel())
    assert labels == ("Average reward", "Epoch", "Average reward")
    assert lines_of(first) == {
        "Random": ([0, 1], [-20.5, -20.5]), "Train": ([1, 2, 3], [-20.25, -19.75, -17.5]),
        "Test": ([1, 2, 3], [0, -18.5, -15.25]),
    }  # fmt: skip
    assert words(first.get_legend()) == ["Random", "Train", "Test"]


@pytest.mark.parametrize(("fields", "shape"), [(1, (1, 1)), (2, (1, 2)), (5, (2, 3))])
def test_panels_are_in_a_near_square_grid(fields: int, shape: tuple[int, int]) -> None:
    grids = [axes.get_gridspec() for axes in figure_of(View(["meanq"] * fields)).axes]
    assert [grid and grid.get_geometry() for grid in grids] == [shape] * fields


def test_runs_differ_in_color_and_phases_in_style_and_share_a_legend() -> None:
    figure = figure_of(View(["average_reward", "nr_games"]), "a", "b", *map(str, range(9)))
    lines = figure.axes[0].lines
    looks = {str(line.get_label()): (line.get_color(), line.get_linestyle()) for line in lines}
    assert len(set(looks.values())) == 30  # ten colors
    assert {color for label, (color, _) in looks.items() if label.startswith("a")} == {"C0"}
    assert {style for label, (_, style) in looks.items() if label.endswith("Test")} == {"-"}
    (legend,) = figure.legends
    assert words(legend) == list(looks)
    assert words(legend)[:6] == ["a Random", "a Train", "a Test", "b Random", "b Train", "b Test"]


def test_steps_and_hours_come_from_the_csv() -> None:
    seeds = [read_run(ORIGINAL, "pong") for _ in range(3)]
    for name, column, unit in (
        ("steps", "total_train_steps", 1),
        ("minutes", "total_time", 60),
        ("hours", "total_time", 3600),
    ):
        (line,) = panel_of(seeds[:1], View(["meanq"], ["test"], AXES[name])).lines
        assert points(line)[0] == (seeds[0].columns[column][seeds[0].phases == "test"] / unit).tolist()
    for factor, one in zip((1, 5, 2), seeds, strict=True):
        one.columns["total_time"] *= factor
    line = panel_of(seeds, View(["meanq"], ["test"], AXES["hours"])).lines[0]
    median = seeds[2].columns["total_time"][seeds[2].phases == "test"] / 3600
    assert points(line)[0] == median.tolist()  # the median of their times


def test_references_are_levels_beside_the_rewards_alone() -> None:
    figure = figure_of(View(["average_reward", "meanq"], levels=references("pong"), title="Pong"))
    first, second = map(lines_of, figure.axes)
    assert list(first)[3:] == [
        "simple_dqn 19.8 (its best test epoch)", "DeepMind 18.9 (Mnih et al. 2015)",
        "a person 14.6 (Wang et al. 2016)", "random play −20.7 (Wang et al. 2016)",
    ]  # fmt: skip
    assert first["DeepMind 18.9 (Mnih et al. 2015)"] == ([0, 1], [18.9, 18.9])
    assert list(second) == ["Random", "Train", "Test"]
    assert figure.get_suptitle() == "Pong"


@pytest.mark.parametrize("smooth", [1, 2, 7, 1000])
def test_smoothing_is_the_mean_of_the_latest_values(smooth: int) -> None:
    epochs, column = np.arange(1.0, 41), np.random.default_rng(1).normal(size=40)
    column[[4, 9]] = np.nan
    one = RunData("x", np.array(["train"] * 40), {"epoch": epochs, "meanq": column})
    found = aligned([one], "train", "meanq", View(smooth=smooth))
    there = column[~np.isnan(column)]
    expected = [there[max(0, end - smooth) : end].mean() for end in range(1, len(there) + 1)]
    np.testing.assert_allclose(found[1][:, 0], expected, atol=1e-12)
    assert found[0][:, 0].tolist() == epochs[~np.isnan(column)].tolist()


@pytest.fixture
def seeds(tmp_path: Path) -> list[RunData]:
    """Three seeds: the second stops after two epochs, the third has an epoch in which no game ended."""
    first, second = "1,test,5 2,test,7 3,test,9 4,test,11", "1,test,1 2,test,8"
    rows = (first, second, "1,test,3 2,test,4 3,test, 4,test,20")
    return [run(tmp_path, f"0,random,1 {one}") for one in rows]


def test_the_median_and_the_range_end_where_the_first_run_does(seeds: list[RunData]) -> None:
    axes = panel_of(seeds)
    random, line, *single = axes.lines
    # The values are 5, 1 and 3 in the first epoch, and 7, 8 and 4 in the second.
    assert points(line) == ([1, 2], [3, 7])
    (band,) = axes.collections
    corners = {tuple(corner) for corner in np.asarray(band.get_paths()[0].vertices).tolist()}
    assert corners == {(1.0, 1.0), (1.0, 5.0), (2.0, 4.0), (2.0, 8.0)}
    assert points(random) == ([0, 1], [1, 1])
    # The two that go on are lines of their own, from where the median ends.
    assert [points(one) for one in single] == [([2, 3, 4], [7, 9, 11]), ([2, 4], [4, 20])]
    assert all(one.get_linewidth() < line.get_linewidth() for one in single)
    assert words(axes.get_legend()) == ["Random, median of 3", line.get_label(), "Test, single runs"]


@pytest.mark.parametrize(("rows", "lines"), [
    (["1,train,0.5 1,test,"], [([1], [0.5])]),  # a phase without values
    (["1,train, 1,test,"], []),
    (["0,random,1 1,train,2 1,random,3"], [([0, 1], [3, 3]), ([1], [2])]),  # the latest level
    (["1,test,5 2,test,7 3,test,9", "1,test,1 2,test, 3,test,3"], [([1, 3], [3, 6])]),  # a gap in one
    (["1,test, 2,test,7 3,test,9", "1,test,1"], [([2, 3], [7, 9]), ([1], [1])]),  # no epoch in common
    (["1,test,5 2,test,7"], [([1, 2], [5, 7])]),  # one seed
    (["0,random,3 1,test,5", "0,random,5 1,test,5", "0,random, 1,test,5"], [([0, 1], [4, 4]), ([1], [5])]),
])  # fmt: skip
def test_values_and_epochs_that_runs_lack(tmp_path: Path, rows: list[str], lines: list[Points]) -> None:
    axes = panel_of([run(tmp_path, one) for one in rows])
    assert [points(one) for one in axes.lines] == lines
    assert [text.get_text() for text in axes.texts] == ([] if lines else ["no values yet"])


def test_two_settings_have_a_color_and_a_band_each(seeds: list[RunData]) -> None:
    others = [replace(one, name="other") for one in seeds[:2]]
    view, names = View(["meanq"], ["test"]), ("gone", "pong", "other")
    (axes,) = figure_of(view, *names, runs=[*seeds, *others]).axes
    first, *single, second, last = axes.lines
    assert [first.get_label(), second.get_label(), last.get_label()] == [
        "pong, median and range of 3", "other, median and range of 2", "other, single runs",
    ]  # fmt: skip
    assert len(axes.collections) == 2  # bands
    assert {line.get_color() for line in [first, *single]} == {"C1"}  # whatever has no values yet
    assert second.get_color() == last.get_color() == "C2"


@pytest.mark.parametrize(("length", "columns"), [(5, 3), (40, 2), (60, 1)])
def test_the_legend_has_as_many_columns_as_fit(length: int, columns: int) -> None:
    figure = figure_of(View(["average_reward"]), *(letter * length for letter in "abc"))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert len({round(text.get_window_extent().x0) for text in legend.get_texts()}) == columns
    assert legend.get_window_extent().width <= figure.bbox.width


@pytest.mark.filterwarnings("error")
def test_names_are_escaped_and_letters_missing_in_the_font_give_no_warning(tmp_path: Path) -> None:
    run = read_run(ORIGINAL, "\x1b[2J你")
    run.columns["\x1b你"] = run.columns["meanq"]
    with picture(tmp_path / "a.png") as figure:
        draw(figure, [run], [run.name, "b"], View(["\x1b你"], ["test"], title="\x1b[31m你"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        texts = [text.get_text() for text in figure.findobj(Text)]
    assert all(text.isprintable() for text in texts)
    assert {r"\x1b[2J你", r"\x1b[31m你", r"\x1b你"} <= set(texts)


def test_a_picture_is_written_completely_or_not_at_all(tmp_path: Path, monkeypatch: Patch) -> None:
    path = tmp_path / "pictures" / "pong.png"
    command = [str(ORIGINAL), "--png_file", str(path), *SMALL]
    main(command)
    pixels = matplotlib.image.imread(path)  # float32 [height, width, RGBA]
    assert pixels.shape == (200, 300, 4)
    for color in ("white", "C0", "C1"):
        close = np.abs(pixels[:, :, :3] - np.array(to_rgb(color))).max(axis=2) < 0.02
        assert close.sum() > 20, color
    before = path.read_bytes()

    def fail(figure: Figure, path: Path, **how: Any) -> None:
        path.write_bytes(b"half a picture")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(UserError, match="No space left"):
        main(command)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_the_picture_is_beside_the_csv_or_where_it_is_asked_for(tmp_path: Path, capsys: Capsys) -> None:
    csv_file, other = Path(shutil.copy(ORIGINAL, tmp_path / "pong.csv")), tmp_path / "other name.png"
    beside = csv_file.with_suffix(".png")
    main([str(csv_file), "--png_file", str(other), "--fields", "steps,phase_time", *SMALL])
    assert matplotlib.image.imread(other).shape == (200, 300, 4)
    # As in simple_dqn's own examples, with one dash:
    main(["-csv_file", str(csv_file), "-fields", "meanq,meancost", "-png_file", str(other), "-dpi", "20"])
    assert matplotlib.image.imread(other).shape == (9 * 20, 16 * 20, 4)
    assert not beside.exists()
    capsys.readouterr()
    main([str(csv_file)])
    assert capsys.readouterr().out == f"The figure is in {beside}\n"
    assert matplotlib.image.imread(beside).shape == (9 * 80, 16 * 80, 4)


@pytest.mark.parametrize(("names", "words", "png"), [
    ({"pong.csv": "pong", "b/pong.csv": "b/pong"}, ["pong.csv", "b/pong.csv"], "pong.png"),
    ({"pong.csv": "quick", "second.csv": "quick"}, ["quick=pong.csv,second.csv"], "quick.png"),
    ({"lr=1.csv": "lr=1"}, ["lr=1.csv"], "lr=1.png"),  # the name of a file, not a setting
    ({"pong.csv": "pong", "mine.csv": "mine"}, ["pong.csv", "mine.csv", "--reference", "true"], "pong.png"),
])  # fmt: skip
def test_several_files_are_named_and_drawn_beside_the_first(
    names: dict[str, str], words: list[str], png: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b").mkdir()
    for csv in names:
        shutil.copy(ORIGINAL, csv)
    assert run_names([word for word in words if ".csv" in word]) == {Path(csv): names[csv] for csv in names}
    main([*words, *SMALL])
    assert list(tmp_path.rglob("*.png")) == [tmp_path / png]


def test_the_flags_choose_what_is_drawn(tmp_path: Path, monkeypatch: Patch) -> None:
    views: list[View] = []
    monkeypatch.setattr("simple_dqn.plot.draw", lambda _figure, _runs, _names, view: views.append(view))
    csv = shutil.copy(ORIGINAL, tmp_path / "pong.csv")
    flags = "--fields meanq --phases test --x hours --smooth 2 --reference true --title mine"
    main([str(csv), *flags.split()])
    assert views == [View(["meanq"], ["test"], AXES["hours"], 2, references("pong"), "mine")]


@pytest.mark.parametrize("word", ["tab", "\\t", "\t"])
def test_a_tab_may_separate_the_columns(word: str, tmp_path: Path) -> None:
    csv = tmp_path / "pong.csv"
    csv.write_text(ORIGINAL.read_text().replace(",", "\t"))
    main([str(csv), "--delimiter", word, *SMALL])
    assert csv.with_suffix(".png").exists()


@pytest.mark.parametrize(("words", "complaint"), [
    (["pong.csv", "--fields", "score"], "no field 'score' in pong: choose among epoch, steps, "),
    (["pong.csv", "--dpi", "0"], "--dpi: 0 is too small: give at least 10"),
    (["pong.csv", "--figure_width", "nan"], "'nan' is not a number"),
    (["pong.csv", "--figure_width", "99", "--figure_height", "99", "--dpi", "1200"], "lower --dpi"),
    (["pong.csv", "--delimiter", ",,"], "not a single character"),
    (["pong.csv", "--reference", "perhaps"], "'perhaps' is not one of yes, true"),
    (["pong.csv", "--png_file", "/proc/none/pong.png"], "cannot write /proc/none/pong.png"),
    (["pong.csv", "--png_file", "pong.csv"], "cannot write pong.csv: it is a file of another kind"),
    (["pong.csv", "--png_file", "pong.pdf"], "give a name that ends in .png, not pong.pdf"),
    (["pong.csv", "--phases", "play"], "'play' is not a list of phases: choose from random, train, test"),
    (["pong.csv", "breakout.csv", "--reference"], "--reference needs CSVs of one game"),
    (["mine.csv", "--reference"], "--reference needs CSVs of one game"),
    (["quick="], "'quick=' names no seeds of a setting"), (["quick=a.csv,,b.csv"], "names no seeds"),
    ([f"long={','.join(f'{i}.csv' for i in range(99))}"], "cannot read 0.csv"),
    (["one=pong.csv", "all=pong.csv"], "is both one and all"), (["."], "is a folder"),
    (["none.csv"], "cannot read none.csv: No such file"), ([], "CSV"),
])  # fmt: skip
def test_refusals_are_one_line(words: list[str], complaint: str, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("pong", "breakout", "mine"):
        shutil.copy(ORIGINAL, f"{name}.csv")
    with pytest.raises(UserError, match=f"^[^\n]*{re.escape(complaint)}[^\n]*$"):
        main(words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["breakout.csv", "mine.csv", "pong.csv"]
    assert Path("pong.csv").read_text() == ORIGINAL.read_text()
