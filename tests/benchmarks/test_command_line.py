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


def test_every_table_is_a_program(tmp_path: Path) -> None:
    command = [str(PROJECT / "bench.sh"), "learning", "none.csv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "none.csv has no rows of a training" in done.stderr
