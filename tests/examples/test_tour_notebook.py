"""The notebook `examples/tour.ipynb`: every cell runs, in order."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
NOTEBOOK = PROJECT / "examples" / "tour.ipynb"


@pytest.mark.nightly
def test_the_notebook_runs_without_jupyter(tmp_path: Path) -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells)
    code, found = re.subn(r'"(train|test|random)_steps": \d+', r'"\1_steps": 60', code)
    assert found == 3  # else the test takes a minute
    for name in ("snapshots", "src"):
        (tmp_path / name).mkdir()
    for package in ("simple_dqn", "atari2600"):
        (tmp_path / "src" / package).symlink_to(PROJECT / "src" / package)
    (tmp_path / "snapshots" / "trained").symlink_to(PROJECT / "snapshots" / "trained")
    (tmp_path / "examples").mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SIMPLE_DQN")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "examples",
        env=environment | {"MPLBACKEND": "agg"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("breakout ('NOOP', 'FIRE', 'RIGHT', 'LEFT')\n")
    assert done.stdout.endswith("\nsarsa\n")
    assert {path.name for path in (tmp_path / "results").glob("*.csv")} == {
        "catch_tour.csv", "catch_tour_sarsa.csv",
    }  # fmt: skip


def test_the_notebook_holds_no_outputs() -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
