"""Memory that this process may still take, by the machine and by its control groups."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from simple_dqn.machine import available_memory, control_group_allowances


def write_group(folder: Path, files: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


def write_group_2(folder: Path, limit: object, usage: int, cache: int) -> None:
    stat = f"anon 5\ninactive_file {cache}\nactive_file 7\nshmem 1000"
    write_group(folder, {"memory.max": limit, "memory.current": usage, "memory.stat": stat})


@pytest.fixture
def membership(tmp_path: Path) -> Path:
    path = tmp_path / "cgroup"
    path.write_text("0::/outer/inner\n")
    return path


def test_every_group_around_the_process_counts(tmp_path: Path, membership: Path) -> None:
    groups = tmp_path / "groups"
    write_group_2(groups / "outer", limit=500, usage=300, cache=20)
    write_group_2(groups / "outer" / "inner", limit=900, usage=100, cache=3)
    write_group_2(groups / "other", limit=1, usage=0, cache=0)
    assert sorted(control_group_allowances(membership, groups)) == [227, 810]


def test_group_without_limit_allows_all(tmp_path: Path, membership: Path) -> None:
    write_group_2(tmp_path / "groups" / "outer", limit="max", usage=300, cache=20)
    assert control_group_allowances(membership, tmp_path / "groups") == []


def test_container_sees_its_group_at_the_top(tmp_path: Path, membership: Path) -> None:
    write_group_2(tmp_path / "groups", limit=500, usage=300, cache=20)
    assert control_group_allowances(membership, tmp_path / "groups") == [227]


def test_group_that_is_over_its_limit_allows_nothing(tmp_path: Path, membership: Path) -> None:
    write_group_2(tmp_path / "groups", limit=100, usage=300, cache=20)
    assert control_group_allowances(membership, tmp_path / "groups") == [0]


def test_first_version_of_groups_is_ignored(tmp_path: Path) -> None:
    membership = tmp_path / "cgroup"
    membership.write_text("5:cpu,cpuacct:/outer\n4:memory:/outer\n")
    files = {"memory.limit_in_bytes": 500, "memory.usage_in_bytes": 300, "memory.stat": ""}
    write_group(tmp_path / "groups" / "memory" / "outer", files)
    assert control_group_allowances(membership, tmp_path / "groups") == []


def test_machine_without_groups(tmp_path: Path) -> None:
    assert control_group_allowances(tmp_path / "absent", tmp_path) == []


@pytest.mark.parametrize(("machine", "groups", "least"), [(5, [], 5), (5, [7, 3], 3), (2, [7, 3], 2)])
def test_the_tightest_limit_holds(
    monkeypatch: pytest.MonkeyPatch, machine: int, groups: list[int], least: int
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=machine))
    monkeypatch.setattr("simple_dqn.machine.control_group_allowances", lambda: groups)
    assert available_memory() == least
