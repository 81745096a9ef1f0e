"""The figures that plot.sh draws, decoded, and the refusals."""

import shutil
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from simple_dqn.errors import UserError
from simple_dqn.plot import TITLES, draw, main
from simple_dqn.statistics import read_run

ORIGINAL = Path(__file__).parent / "data" / "simple_dqn_2015.csv"


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    return Path(shutil.copy(ORIGINAL, tmp_path / "pong.csv"))


def pixels(path: Path) -> Any:
    """Return the picture as float32 [height, width, RGBA]."""
    return matplotlib.image.imread(path)


def lines(panel: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {
        str(line.get_label()): (np.array(line.get_xdata()).tolist(), np.array(line.get_ydata()).tolist())
        for line in panel.lines
    }


def test_the_figure_lies_beside_the_csv_in_its_size(
    csv_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(csv_file)])
    png_file = csv_file.with_suffix(".png")
    assert str(png_file) in capsys.readouterr().out
    picture = pixels(png_file)
    assert picture.shape == (9 * 80, 16 * 80, 4)
    for colour in ("white", "C0", "C1"):
        close = np.abs(picture[:, :, :3] - np.array(to_rgb(colour))).max(axis=2) < 0.02
        assert close.sum() > 100, colour


def test_size_name_and_fields_are_those_asked_for(csv_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other name.png"
    main([str(csv_file), "--png_file", str(other), "--figure_width", "5", "--figure_height", "4",
          "--dpi", "50", "--fields", "steps,phase_time"])  # fmt: skip
    assert pixels(other).shape == (200, 250, 4)
    assert not csv_file.with_suffix(".png").exists()


def test_a_panel_shows_random_train_and_test(csv_file: Path) -> None:
    figure = draw([read_run(csv_file, "pong")], ["average_reward", "meancost"], 16, 9)
    panel = figure.axes[0]
    assert (panel.get_title(), panel.get_xlabel()) == ("Average reward", "Epoch")
    assert panel.get_ylabel() == "Average reward"
    assert lines(panel) == {
        "Random": ([0, 1], [-20.5, -20.5]),  # from edge to edge of the panel
        "Train": ([1, 2, 3], [-20.25, -19.75, -17.5]),
        "Test": ([1, 2, 3], [0, -18.5, -15.25]),
    }
    legend = panel.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["Random", "Train", "Test"]


@pytest.mark.parametrize(
    ("fields", "shape"), [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (5, (2, 3)), (7, (3, 3))]
)
def test_panels_stand_in_a_near_square_grid(csv_file: Path, fields: int, shape: tuple[int, int]) -> None:
    figure = draw([read_run(csv_file, "pong")], list(TITLES)[:fields], 16, 9)
    assert len(figure.axes) == fields
    grids = [panel.get_gridspec() for panel in figure.axes]
    assert {grid and grid.get_geometry() for grid in grids} == {shape}


def test_every_field_can_be_drawn_and_has_its_title(csv_file: Path) -> None:
    run = read_run(csv_file, "pong")
    assert list(run.columns) == list(TITLES)
    figure = draw([run], list(TITLES), 16, 9)
    assert [panel.get_title() for panel in figure.axes] == list(TITLES.values())
    main([str(csv_file), "--fields", ",".join(TITLES)])


def test_a_column_of_later_versions_goes_by_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "pong.csv"
    path.write_text("epoch,phase,td_error\n1,train,0.5\n1,test,\n")
    (panel,) = draw([read_run(path, "pong")], ["td_error"], 8, 5).axes
    assert panel.get_title() == "td_error"
    assert lines(panel) == {"Train": ([1], [0.5])}


def test_a_field_without_values_yet_says_so(tmp_path: Path) -> None:
    path = tmp_path / "pong.csv"
    path.write_text("epoch,phase,meanq\n1,train,\n1,test,\n")
    (panel,) = draw([read_run(path, "pong")], ["meanq"], 8, 5).axes
    assert [text.get_text() for text in panel.texts] == ["no values yet"]


def test_runs_are_compared_by_name_colour_and_style(csv_file: Path) -> None:
    runs = [read_run(csv_file, name) for name in ("pong_a", "pong_b")]
    figure = draw(runs, ["average_reward", "nr_games"], 16, 9)
    names = [f"{run} {phase}" for run in ("pong_a", "pong_b") for phase in ("Random", "Train", "Test")]
    assert list(lines(figure.axes[0])) == names
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == names
    drawn = {line.get_label(): line for line in figure.axes[0].lines}
    assert drawn["pong_a Test"].get_color() == drawn["pong_a Train"].get_color()
    assert drawn["pong_a Test"].get_color() != drawn["pong_b Test"].get_color()
    assert drawn["pong_a Test"].get_linestyle() == drawn["pong_b Test"].get_linestyle()
    assert drawn["pong_a Test"].get_linestyle() != drawn["pong_a Train"].get_linestyle()


def test_several_files_are_drawn_beside_the_first(csv_file: Path, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    shutil.copy(csv_file, tmp_path / "b" / "pong.csv")
    main([str(csv_file), str(tmp_path / "b" / "pong.csv")])
    assert csv_file.with_suffix(".png").exists()
    assert not (tmp_path / "b" / "pong.png").exists()


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--fields", "score"], "no field 'score' in pong: choose among epoch, steps, nr_games, "),
        (["--fields", "phase"], "no field 'phase'"),
        (["--fields", ""], "no field ''"),
        (["--dpi", "0"], "--dpi: '0' is not a number from 10 to 1200"),
        (["--dpi", "many"], "'many' is not a number"),
        (["--figure_width", "nan"], "'nan' is not a number"),
        (["--figure_width", "100", "--figure_height", "100", "--dpi", "1200"], "too large: lower --dpi"),
        (["--delimiter", ",,"], "not a single character"),
        (["--feilds", "meanq"], "unknown flag --feilds: did you mean --fields?"),
        (["--png_file", "/proc/none/pong.png"], "cannot write /proc/none/pong.png"),
        (["--png_file", "/"], "cannot be written as /"),
        (["none.csv"], "cannot read none.csv: No such file"),
    ],
)
def test_refusals_are_one_line_and_leave_nothing(csv_file: Path, flags: list[str], complaint: str) -> None:
    with pytest.raises(UserError) as raised:
        main([str(csv_file), *flags])
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)
    assert list(csv_file.parent.iterdir()) == [csv_file]


def test_no_csv_is_refused() -> None:
    with pytest.raises(UserError, match="CSV"):
        main([])


def test_a_csv_is_never_overwritten_by_its_figure(csv_file: Path) -> None:
    with pytest.raises(UserError, match="cannot be written as"):
        main([str(csv_file), "--png_file", str(csv_file)])
    assert csv_file.read_text() == ORIGINAL.read_text()


def test_an_older_figure_survives_a_failure(csv_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    png_file = csv_file.with_suffix(".png")
    main([str(csv_file)])
    before = png_file.read_bytes()

    def fail(figure: Figure, path: Path, **how: Any) -> None:
        path.write_bytes(b"half a picture")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    with pytest.raises(UserError, match="No space left"):
        main([str(csv_file)])
    assert png_file.read_bytes() == before
    assert sorted(csv_file.parent.iterdir()) == [csv_file, png_file]
