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


def test_the_picture_is_beside_the_csv_in_its_size(
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
    # As in simple_dqn's own examples, with one dash:
    main(["-csv_file", str(csv_file), "-fields", "meanq,meancost", "-png_file", str(other), "-dpi", "20"])
    assert shape(other) == (9 * 20, 16 * 20, 4)
    assert not csv_file.with_suffix(".png").exists()


NAMES = [  # CSVs, the arguments, the picture
    (["pong.csv", "b/pong.csv"], ["pong.csv", "b/pong.csv"], "pong.png"),
    (["pong.csv", "second.csv"], ["quick=pong.csv,second.csv", "--phases", "test"], "quick.png"),
    (["lr=1.csv"], ["lr=1.csv"], "lr=1.png"),  # no setting
]


@pytest.mark.parametrize(("csvs", "words", "picture"), NAMES)
def test_several_files_are_drawn_beside_the_first(
    csvs: list[str], words: list[str], picture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b").mkdir()
    for csv in csvs:
        shutil.copy(ORIGINAL, csv)
    main([*words, *SMALL])
    assert list(tmp_path.rglob("*.png")) == [tmp_path / picture]


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


def test_other_refusals(csv_file: Path, tmp_path: Path) -> None:
    breakout, mine = (str(shutil.copy(csv_file, tmp_path / name)) for name in ("breakout.csv", "mine.csv"))
    pong = str(csv_file)
    for words, complaint in (
        ([f"one={pong}", f"all={pong}"], "is both one and all"),
        ([pong, f"all={pong}"], "is both pong and all"),
        ([], "CSV"),
        ([pong, breakout, "--reference"], "--reference needs CSVs of one game"),
        ([mine, "--reference"], "--reference needs CSVs of one game"),
        ([pong, "--png_file", pong], "cannot be written as"),
    ):
        with pytest.raises(UserError, match=complaint):
            main(words)
    assert csv_file.read_text() == ORIGINAL.read_text()
    main([pong, mine, "--reference", "true", *SMALL])
