"""Clusters that cannot be used: one line, at once, and no file."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from simple_dqn.cluster.session import Session
from simple_dqn.errors import UserError
from simple_dqn.sweep.runner import SOURCE


def refusal(address: str) -> str:
    with pytest.raises(UserError) as refused:
        Session(address).close()
    return str(refused.value)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    words = refusal("local")
    assert "--cluster needs packages that are not installed" in words
    assert "extra `cluster`" in words
    assert ".venv/bin/python -m pip install 'ray" in words


def test_ray_is_not_imported_before_it_is_asked_for(tmp_path: Path) -> None:
    code = (
        "import sys; from simple_dqn import main; main.run(['sweep', 'pong', '--print_config']);"
        "sys.exit(any(name in sys.modules for name in ('ray', 'torch', 'matplotlib')))"
    )
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "SIMPLE_DQN_HOME": str(tmp_path)}
    assert subprocess.run([sys.executable, "-P", "-c", code], env=environment).returncode == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("address", ["somewhere", "host:", "ray://host:10001", "host:123456"])
def test_what_is_no_address(address: str) -> None:
    pytest.importorskip("ray", reason="the extra `cluster` is not installed")
    assert "neither local nor auto nor an address such as 10.0.0.1:6379" in refusal(address)


def test_where_nothing_answers() -> None:
    pytest.importorskip("ray", reason="the extra `cluster` is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = refusal(f"127.0.0.1:{port}")
    assert f"127.0.0.1:{port} cannot be reached" in words
    assert "check that `ray start --head` runs there" in words


def test_auto_without_a_cluster(tmp_path: Path) -> None:
    """In a process of its own: where Ray looks for one is decided when it is imported."""
    pytest.importorskip("ray", reason="the extra `cluster` is not installed")
    if any(process.info["name"] == "raylet" for process in psutil.process_iter(["name"])):
        pytest.skip("a Ray cluster runs on this machine")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "simple_dqn.main", "sweep", "pong", "--cluster", "auto"],
        env={name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {
            "PYTHONPATH": str(SOURCE), "SIMPLE_DQN_HOME": str(tmp_path), "SIMPLE_DQN_PROGRAM": "./sweep.sh",
            "RAY_TMPDIR": str(tmp_path), "RAY_ADDRESS": "",
        },
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("./sweep.sh: --cluster auto: no Ray cluster runs on this machine")
    assert line.endswith("or give --cluster local")
    assert not list(tmp_path.iterdir())
