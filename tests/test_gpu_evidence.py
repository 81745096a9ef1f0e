"""`scripts/gpu_evidence.sh`: what it lists is there and fits, and it runs without a GPU, tiny."""

import os
import re
import subprocess
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
SCRIPT = HOME / "scripts" / "gpu_evidence.sh"
MIB = 1 << 20


def start(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(SCRIPT), *words], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(not (HOME / ".git").exists(), reason="the project is no clone")
def test_what_is_to_be_copied_is_there_and_fits() -> None:
    done = start("list")
    assert done.returncode == 0, done.stderr
    folders = done.stdout.split("git sparse-checkout set ")[1].splitlines()[0].split()
    listed = ["git", "ls-files", "-z", "--", *folders, ":(glob)*"]
    files = subprocess.run(listed, cwd=HOME, capture_output=True, text=True, check=True).stdout.split("\0")
    sizes = {name: (HOME / name).stat().st_size for name in files if name}
    assert {name.split("/")[0] for name in sizes if "/" in name} == set(folders)
    assert sum(sizes.values()) < 14 * MIB  # of 64, so that a part of 50 travels along
    script = SCRIPT.read_text()
    assert {*re.findall(r"(?:tests|benchmarks|scripts|src)/[\w/]+\.\w+", script)} <= sizes.keys()
    assert set(re.findall(r"gpu_evidence.sh (\d)", done.stdout)) == set(
        re.findall(r"^    (\d)\)", script, re.M)
    )


@pytest.mark.parametrize(("words", "environment"), [
    ((), {}), (("7",), {}), (("1",), {"DEVICE": "tpu"}), (("1",), {"PYTHON": "false"}),
], ids=str)  # fmt: skip
def test_bad_input_is_one_line(words: tuple[str, ...], environment: dict[str, str]) -> None:
    done = start(*words, **environment)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_pieces_run_without_a_gpu_and_measure_nothing_twice(tmp_path: Path) -> None:
    warp = pytest.importorskip("warp", reason="NVIDIA Warp is not installed")
    warp.init()
    folder, out = tmp_path / "evidence", tmp_path / "out"
    out.mkdir()
    settings = {"DEVICE": "cpu", "SMALL": "1", "FOLDER": str(folder), "OUT": str(out)}
    settings["WARP_CACHE_PATH"] = str(Path(warp.config.kernel_cache_dir).parent)  # compiled once
    seen = []
    for _ in range(2):
        for piece in ("3", "6"):
            done = start(piece, **settings)
            assert done.returncode == 0, done.stderr + done.stdout
        seen.append({path.name: path.stat().st_mtime_ns for path in folder.glob("*_*.txt")})
    assert seen[0] == seen[1]
    assert seen[0].keys() == {"games_2.txt", "games_4.txt"}
    assert "1024 steps in" in (out / "figures.md").read_text()
    assert (out / "state_00").stat().st_size < 16 * MIB
