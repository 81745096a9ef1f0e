"""doctor.sh: every check on a sound machine, and each failing in turn; and how much memory is left."""

import logging
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from ale_py.roms import get_rom_path

from simple_dqn import doctor, main
from simple_dqn.doctor import CHECKS, Finding, examine
from simple_dqn.machine import available_memory, control_group_allowances
from tests.command_line import Capsys, Logs, Patch

Prepare = Callable[[Patch, Path], object]


@pytest.fixture(autouse=True)
def _packages(home: Path) -> None:
    (home / "requirements.txt").write_text("# pinned\nnumpy>=1\n")


def broken_roms(patch: Patch, home: Path) -> None:
    shipped = get_rom_path("pong")
    assert shipped
    copies = shutil.copytree(shipped.parent, home / "copies")
    (copies / "pong.bin").write_bytes(b"not pong")
    patch.setenv("ALE_ROMS_DIR", str(copies))


def lock(line: str) -> Prepare:
    return lambda _patch, home: (home / "requirements.txt").write_text(f"{line}\n")


def attribute(name: str, value: object) -> Prepare:
    return lambda patch, _home: patch.setattr(name, value)


def free_disk(count: float) -> Prepare:
    return attribute("shutil.disk_usage", lambda _path: SimpleNamespace(free=count))


# Check, what is done to the machine, how bad that is, and words of the line that tells it.
CASES: list[tuple[str, Prepare, str, str]] = [
    ("packages", lock("no-such-package==1.0"), "error", "missing: no-such-package"),
    ("packages", lock("numpy==0.1"), "warning", "instead of 0.1"),
    ("packages", lambda _, home: (home / "requirements.txt").unlink(), "warning", "to compare with"),
    ("GPU", attribute("simple_dqn.device.gpus", lambda: ["H200"] * 2), "ok", "0: H200, 1: H200"),
    ("GPU", attribute("simple_dqn.device.gpus", list), "warning", "on the CPU"),
    # As if PyTorch were broken.
    ("GPU", lambda patch, _: patch.setitem(sys.modules, "simple_dqn.device", None), "error", "remove .venv"),
    ("ROMs", lambda *_: None, "ok", "each with the correct MD5"),
    ("ROMs", broken_roms, "error", "install ale-py again"),
    ("disk", free_disk(9e9), "ok", "9 GB are free"),
    ("disk", free_disk(2e9), "warning", "make room for 3 GB, or lower --replay_size"),
    ("disk", free_disk(9e8), "error", "make room"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "prepare", "level", "words"), CASES, ids=[f"{case[0]}-{case[3]}" for case in CASES]
)
def test_each_check_tells_what_is_wrong_and_what_to_do(
    home: Path, monkeypatch: Patch, name: str, prepare: Prepare, level: str, words: str
) -> None:
    prepare(monkeypatch, home)
    finding = examine(CHECKS[name], home)
    assert finding[0] == level, finding
    assert words in finding[1]
    assert "\n" not in finding[1]
    assert {case[0] for case in CASES} == set(CHECKS)


def test_warnings_are_no_failure(home: Path, monkeypatch: Patch, capsys: Capsys, caplog: Logs) -> None:
    def talk(_home: Path) -> Finding:
        logging.getLogger("simple_dqn.anything").error("said")
        return "ok", "fine"

    before = sorted(home.rglob("*"))
    assert main.run(["doctor"]) == 0
    assert sorted(home.rglob("*")) == before
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == list(CHECKS)
    warned = {"a": talk, "b": lambda _: ("warning", "so: do")}
    monkeypatch.setattr(doctor, "CHECKS", warned)
    assert main.run(["doctor"]) == 0
    logging.getLogger("simple_dqn.anything").error("heard")
    assert [record.message for record in caplog.records] == ["heard"]  # the log is still meanwhile alone
    monkeypatch.setattr(doctor, "CHECKS", {**warned, "c": lambda _: ("error", "no: fix it")})
    with pytest.raises(SystemExit) as raised:
        main.run(["doctor"])
    assert raised.value.code == 1
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == [["ok", "a", "fine"], ["warning", "b", "so:", "do"]]
    assert lines[-1][:2] == ["error", "c"]


@pytest.mark.parametrize(("groups", "allowed"), [
    ({"outer": (500, 300), "outer/inner": (900, 100, 3), "other": (1, 0, 0)}, [227, 810]),
    ({"outer": ("max", 300)}, []),
    ({".": (500, 300)}, [227]),  # a container sees its group at the top
    ({".": (100, 300)}, [0]),
    ({}, []),
])  # fmt: skip
def test_every_group_counts(tmp_path: Path, groups: dict[str, tuple[Any, ...]], allowed: list[int]) -> None:
    membership = tmp_path / "cgroup"
    membership.write_text("0::/outer/inner\n")
    for group, (limit, usage, *cache) in groups.items():
        stat = f"anon 5\ninactive_file {cache[0] if cache else 20}\nactive_file 7\nshmem 1000\n"
        folder = tmp_path / "groups" / group
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in {"max": f"{limit}\n", "current": f"{usage}\n", "stat": stat}.items():
            (folder / f"memory.{name}").write_text(text)
    assert control_group_allowances(membership, tmp_path / "groups") == allowed
    assert control_group_allowances(tmp_path / "absent", tmp_path / "nowhere") == []


def test_the_tightest_limit_holds(monkeypatch: Patch) -> None:
    monkeypatch.setattr("simple_dqn.machine.control_group_allowances", lambda: [7, 3])
    for machine, least in ((5, 3), (2, 2)):
        monkeypatch.setattr(psutil, "virtual_memory", lambda n=machine: SimpleNamespace(available=n))
        assert available_memory() == least
