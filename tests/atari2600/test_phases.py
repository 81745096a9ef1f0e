"""The 6507 as a GPU executes it, compiled for the CPU: it plays every game as ALE does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("warp", reason="NVIDIA Warp is not installed")
pytestmark = pytest.mark.nightly  # compiles the emulator once more

HOME = Path(__file__).parents[2]


def test_phases_equal_ale(tmp_path: Path) -> None:
    shutil.copytree(HOME / "src", tmp_path / "src")
    file = tmp_path / "src" / "atari2600" / "cpu6507.py"
    code = file.read_text()
    for there, here in (("#ifdef __CUDA_ARCH__", "#if 1"), ("static __constant__", "static const")):
        assert code.count(there) == 1
        code = code.replace(there, here)
    file.write_text(code)
    tests = [HOME / "tests" / "atari2600" / name for name in ("test_against_ale.py", "test_cpu6507.py")]
    source = f"pythonpath={tmp_path / 'src'} {HOME}"
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-o",
        source,
        "-m",
        "",
        *tests,
    ]
    environment = os.environ | {"WARP_CACHE_PATH": str(tmp_path / "cache")}
    done = subprocess.run(command, cwd=HOME, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
