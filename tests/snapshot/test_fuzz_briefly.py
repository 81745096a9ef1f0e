import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_spoilt_snapshots_are_refused_or_sound() -> None:
    command = [sys.executable, "tests/soak/fuzz_snapshots.py", "--count", "12", "--seed", "1"]
    environment = os.environ | {"PYTHONPATH": str(PROJECT / "src")}
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 snapshots, 0 failures" in done.stdout
    assert "refused" in done.stdout
    assert "sound" in done.stdout
