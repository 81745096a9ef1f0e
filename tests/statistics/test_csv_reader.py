"""CSVs of every kind that may be given to be drawn."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simple_dqn.errors import UserError
from simple_dqn.statistics import Run, read_run

ORIGINAL = Path(__file__).parent.parent / "data" / "simple_dqn_2015.csv"
TEXT = ORIGINAL.read_text()


def read(tmp_path: Path, text: str, **how: Any) -> Run:
    path = tmp_path / "run.csv"
    path.write_text(text)
    return read_run(path, "run", **how)


def values(run: Run, phase: str, field: str) -> dict[float, float]:
    return dict(zip(*(line.tolist() for line in run.line(phase, field)), strict=True))


def test_the_original_is_read_and_its_maxint_is_no_score() -> None:
    run = read_run(ORIGINAL, "run")
    assert values(run, "random", "average_reward") == {0: -20.5}
    assert values(run, "train", "average_reward") == {1: -20.25, 2: -19.75, 3: -17.5}
    assert values(run, "test", "min_game_reward") == {2: -20, 3: -19}
    assert values(run, "test", "max_game_reward") == {2: -14, 3: -10}


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (TEXT.replace("epoch_time", "phase_time"), {}),
        (TEXT.split("\n", 1)[1], {"skip_rows": 0}),
        (TEXT, {"skip_rows": 1}),
        ("# Pong\n" + TEXT, {"skip_rows": 2}),
        ("# Pong\n" + TEXT.split("\n", 1)[1], {"skip_rows": 1}),
        (TEXT.replace(",", ";"), {"delimiter": ";"}),
        (TEXT.replace(",", ", ").replace("\n", "\r\n\r\n"), {}),
        ("\ufeff" + TEXT, {}),
    ],
)
def test_the_same_run_in_other_clothes(tmp_path: Path, text: str, how: dict[str, Any]) -> None:
    expected, run = read_run(ORIGINAL, "run"), read(tmp_path, text, **how)
    assert run.phases.tolist() == expected.phases.tolist()
    assert list(run.columns) == list(expected.columns)
    for field, column in expected.columns.items():
        np.testing.assert_array_equal(run.columns[field], column)


def test_more_columns_blanks_and_booleans(tmp_path: Path) -> None:
    run = read(tmp_path, "epoch,phase,meanq,solved,speed\n1,train,,False,2\n2,train,1.5,True,nan\n")
    assert values(run, "train", "meanq") == {2: 1.5}
    assert values(run, "train", "solved") == {1: 0, 2: 1}
    assert values(run, "train", "speed") == {1: 2}


@given(cut=st.integers(TEXT.index("1,test"), len(TEXT)))
def test_what_is_still_being_written_is_left_out(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    whole, text = read_run(ORIGINAL, "run"), TEXT[:cut]
    run = read(tmp_path_factory.mktemp("half"), text)
    *lines, last = text.split("\n")[1:]
    there = len(lines) + (last.count(",") == 15)
    assert run.phases.tolist() == whole.phases.tolist()[:there]
    for field, column in run.columns.items():
        expected = whole.columns[field][:there].copy()
        if there > len(lines) and field == "steps_per_second":
            expected[-1] = np.nan
        np.testing.assert_array_equal(column, expected)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        (TEXT.split("\n")[0] + "\n", "nothing to draw"),
        ("\n".join(TEXT.split("\n")[:2]) + "\n", "nothing to draw"),
        (TEXT.split("\n", 1)[1], "does not begin with the names of columns"),
        ("time,score\n1,2\n", "does not begin with the names of columns"),
        (TEXT.replace(",", ";"), "does not begin with the names of columns"),
        (TEXT.replace("-17.5", "many"), "could not convert string to float: 'many'"),
        (TEXT.replace(",20000,24,-20.25", ""), "row 2 of its data has 13 columns instead of 16"),
    ],
)
def test_what_cannot_be_drawn_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as raised:
        read(tmp_path, text)
    assert "\n" not in str(raised.value)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "pong.pkl"
    binary.write_bytes(bytes(range(256)))
    for path, complaint in (
        (tmp_path, "Is a directory"),
        (tmp_path / "none.csv", "No such file"),
        (binary, "not a text file"),
    ):
        with pytest.raises(UserError, match=complaint):
            read_run(path, "run")
