import os
import sys
from pathlib import Path

import pytest

from tests.command_line import PROJECT, Patch

# What bench.sh does: the tables are programs, and no installed package.
sys.path.insert(0, str(PROJECT / "benchmarks"))


@pytest.fixture(autouse=True)
def _paths(monkeypatch: Patch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(PROJECT / part) for part in ("src", "benchmarks")))
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
