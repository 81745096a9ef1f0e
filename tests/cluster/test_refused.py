"""Clusters that cannot be used: one line, at once, and no file."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from simple_dqn.sweep.pool import SOURCE

LOCAL = ("--cluster", "local")
BAD = [
    (["--cluster", "127.0.0.1:FREE"], ["cannot be reached", "ray start --head"]),
    *((["--cluster", address], ["neither local nor auto nor an address", "10.0.0.1:6379"])
      for address in ("nowhere", "host:", "ray://127.0.0.1:10001", "host:123456")),
    (["--actors", "3"], ["--actors 3 play on a cluster", "--cluster local"]),
    ([*LOCAL, "--schedule", "concurrent"], ["--schedule concurrent", "exclude each other"]),
    ([*LOCAL, "--processes", "1"], ["--processes 1", "exclude each other"]),
    ([*LOCAL, "--display_screen", "true"], ["--display_screen true", "exclude each other"]),
    ([*LOCAL, "--chunk_steps", "4"], ["--chunk_steps 4", "at least 5"]),
    ([*LOCAL, "--replay_size", "100"], ["--replay_size 100", "give at least 110"]),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=lambda part: " ".join(part)[:40])
def test_bad_input_is_a_line(
    tmp_path: Path, start: Callable[..., int], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("simple_dqn.cluster.session.require_extra", lambda *_: None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        arguments = [word.replace("FREE", str(free.getsockname()[1])) for word in arguments]
        given = ["catch", "--environment", "catch", "--preset", "simple_dqn", "--replay_size", "1000"]
        assert start(".", "train", *given, "--backend", "cpu", "--threads", "1", *arguments) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("simple-dqn train: ")
    assert all(word in line for word in words), line
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("command", ["train catch --environment catch", "sweep pong"])
def test_without_ray_the_extra_is_named(
    start: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:  # fmt: skip
    monkeypatch.setitem(sys.modules, "ray", None)
    assert start(".", *command.split(), "--cluster", "local") == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert "--cluster needs packages that are not installed" in line
    assert ".venv/bin/python -m pip install 'ray" in line
    assert "the extra `cluster`" in line
    assert "concurrent" not in line  # the preset gave way


@pytest.mark.nightly
def test_auto_without_a_cluster(tmp_path: Path) -> None:
    """In a process of its own: where Ray looks for one is decided when it is imported."""
    pytest.importorskip("ray", reason="the extra `cluster` is not installed")
    if any(process.info["name"] == "raylet" for process in psutil.process_iter(["name"])):
        pytest.skip("a Ray cluster runs on this machine")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    ours = {"PYTHONPATH": SOURCE, "SIMPLE_DQN_HOME": tmp_path, "RAY_TMPDIR": tmp_path, "RAY_ADDRESS": ""}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "simple_dqn.main", "sweep", "pong", "--cluster", "auto"],
        env=environment | {name: str(value) for name, value in ours.items()}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "--cluster auto" in line
    assert "ray start" in line
    assert not list(tmp_path.iterdir())
