"""What every table of bench.sh says of a bad command line."""

import subprocess
import sys
from pathlib import Path

import common
import pytest
import training

pytestmark = pytest.mark.nightly

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("environments --games none", "'none' is not a whole number"),
        ("replay --games pong pnog", "did you mean pong?"),
        ("checkpoint --steps -1", "-1 is too small: give more than 0"),
        ("playing --seconds nan", "'nan' is not a number"),
        ("cluster_plan --gigabits 0", "0 is too small: give more than 0"),
        ("learning none.csv", "none.csv has no rows of a training"),
    ],
)
def test_it_is_one_line(tmp_path: Path, words: str, complaint: str) -> None:
    command = [str(PROJECT / "bench.sh"), *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["tower"], "invalid choice: 'tower'"),
        (["--rounds", "1.5"], "'1.5' is not a whole number"),
        (["--wat"], "unknown flag --wat"),
        (["--game", "nosuch"], "no game called 'nosuch'"),
        (["--flags", "[1]"], "is not a JSON object"),
        (["--flags", '{"workrs": 2}'], "did you mean --workers?"),
        (["--flags", '{"concurrent": true, "workers": 3}'], "give 804"),
        (["peers", "--python", "/no/such/python"], "/no/such/python is not a program"),
        (["peers", "--cleanrl", "/no/such/file"], "/no/such/file is not a file"),
    ],
)
def test_a_bad_training_table_is_one_line(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["training", *words])
    assert common.console("training", training.main) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert complaint in printed.err
