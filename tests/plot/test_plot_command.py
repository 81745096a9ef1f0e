"""The command line of plot.sh: what is written where, both spellings, and the refusals."""

import shutil
from pathlib import Path

import matplotlib.image
import pytest

from simple_dqn.errors import UserError
from simple_dqn.plot import main

ORIGINAL = Path(__file__).parents[1] / "data" / "simple_dqn_2015.csv"
SMALL = ["--figure_width", "4", "--figure_height", "3", "--dpi", "50"]


def shape(path: Path) -> tuple[int, ...]:
    """Return height, width and channels of a picture."""
    return tuple(matplotlib.image.imread(path).shape)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_picture_lies_beside_the_csv_in_its_size(
    csv_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(csv_file)])
    assert names(csv_file.parent) == ["pong.csv", "pong.png"]
    assert capsys.readouterr().out == f"The figure is in {csv_file.with_suffix('.png')}\n"
    assert shape(csv_file.with_suffix(".png")) == (9 * 80, 16 * 80, 4)


def test_size_name_and_fields_are_those_asked_for(csv_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other name.png"
    main([str(csv_file), "--png_file", str(other), "--fields", "steps,phase_time", *SMALL])
    assert shape(other) == (150, 200, 4)
    assert not csv_file.with_suffix(".png").exists()


def test_simple_dqns_own_examples_work_with_their_one_dash(csv_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.png"
    main(["-csv_file", str(csv_file), "-fields", "meanq,meancost", "-png_file", str(other), "-dpi", "20"])
    assert shape(other) == (9 * 20, 16 * 20, 4)


def test_several_files_are_drawn_beside_the_first(csv_file: Path, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    shutil.copy(csv_file, tmp_path / "b" / "pong.csv")
    main([str(csv_file), str(tmp_path / "b" / "pong.csv"), *SMALL])
    assert csv_file.with_suffix(".png").exists()
    assert not (tmp_path / "b" / "pong.png").exists()


def test_seeds_of_one_setting_are_drawn_beside_the_first_by_its_name(csv_file: Path, tmp_path: Path) -> None:
    shutil.copy(csv_file, tmp_path / "second.csv")
    main([f"quick={csv_file},{tmp_path / 'second.csv'}", "--phases", "test", *SMALL])
    assert names(tmp_path) == ["pong.csv", "quick.png", "second.csv"]


def test_a_file_may_have_an_equals_sign_in_its_name(csv_file: Path, tmp_path: Path) -> None:
    csv_file.rename(tmp_path / "lr=1.csv")
    main([str(tmp_path / "lr=1.csv"), *SMALL])
    assert names(tmp_path) == ["lr=1.csv", "lr=1.png"]


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--fields", "score"], "no field 'score' in pong: choose among epoch, steps, nr_games, "),
        (["--fields", "phase"], "no field 'phase'"),
        (["--fields", ""], "no field ''"),
        (["--dpi", "0"], "--dpi: 0 is too small: give at least 10"),
        (["--dpi", "many"], "'many' is not a whole number"),
        (["--figure_width", "nan"], "'nan' is not a number"),
        (["--figure_width", "100", "--figure_height", "100", "--dpi", "1200"], "too large: lower --dpi"),
        (["--delimiter", ",,"], "not a single character"),
        (["--feilds", "meanq"], "unknown flag --feilds: did you mean --fields?"),
        (["-feilds", "meanq"], "unknown flag --feilds: did you mean --fields?"),
        (["--reference", "perhaps"], "'perhaps' is not one of yes, true"),
        (["--smooth", "0"], "0 is too small: give at least 1"),
        (["--x", "days"], "invalid choice: 'days'"),
        (["--html", "true"], "unknown flag --html"),
        (["--png_file", "/proc/none/pong.png"], "cannot write /proc/none/pong.png"),
        (["--png_file", "/"], "cannot be written as /"),
        (["--phases", "play"], "'play' is not a list of phases: choose from random, train, test"),
        (["quick="], "'quick=' names no seeds of a setting"),
        (["quick=a.csv,,b.csv"], "names no seeds"),
        (["=a.csv"], "names no seeds"),
        (["quick=none.csv"], "cannot read none.csv: No such file"),
        (["none.csv"], "cannot read none.csv: No such file"),
    ],
)
def test_refusals_are_one_line_and_leave_nothing(csv_file: Path, flags: list[str], complaint: str) -> None:
    with pytest.raises(UserError) as raised:
        main([str(csv_file), *flags])
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)
    assert list(csv_file.parent.iterdir()) == [csv_file]


def test_a_run_of_two_names_is_refused_and_not_left_out(csv_file: Path) -> None:
    for words in ([f"one={csv_file}", f"all={csv_file}"], [str(csv_file), f"all={csv_file}"]):
        with pytest.raises(UserError, match="is both"):
            main(words)


def test_no_csv_is_refused() -> None:
    with pytest.raises(UserError, match="CSV"):
        main([])


def test_references_need_one_known_game(csv_file: Path, tmp_path: Path) -> None:
    others = [Path(shutil.copy(csv_file, tmp_path / name)) for name in ("breakout.csv", "mine.csv")]
    for words in ([csv_file, others[0]], others[1:]):
        with pytest.raises(UserError, match="--reference needs CSVs of one game"):
            main([*map(str, words), "--reference"])
    main([str(csv_file), str(others[1]), "--reference", "true", *SMALL])


def test_a_csv_is_never_overwritten_by_its_figure(csv_file: Path) -> None:
    with pytest.raises(UserError, match="cannot be written as"):
        main([str(csv_file), "--png_file", str(csv_file)])
    assert csv_file.read_text() == ORIGINAL.read_text()
