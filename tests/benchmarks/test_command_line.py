"""What every table of bench.sh says of a bad command line."""

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("environments --games none", "'none' is not a whole number"),
        ("environments --game pnog", "did you mean pong?"),
        ("environments --seconds 0", "0 is too small: give more than 0"),
        ("replay --rounds 0", "0 is too small: give more than 0"),
        ("replay --games pong pnog", "did you mean pong?"),
        ("checkpoint --steps -1", "-1 is too small: give more than 0"),
        ("playing --seconds nan", "'nan' is not a number"),
        ("cluster_plan --gigabits 0", "0 is too small: give more than 0"),
        ("learning pong --seeds 0", "0 is too small: give more than 0"),
        ("learning none.csv", "none.csv has no rows of a training"),
        ("learning README.md.csv", "README.md.csv has no rows of a training"),
    ],
)
def test_it_is_one_line(tmp_path: Path, words: str, complaint: str) -> None:
    (tmp_path / "README.md.csv").write_text((PROJECT / "README.md").read_text())
    done = subprocess.run(
        [PROJECT / "bench.sh", *words.split()], cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1
