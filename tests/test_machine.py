"""Memory that this process may still take, by the machine and by its control groups."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from simple_dqn.machine import available_memory, control_group_allowances


def write_group(folder: Path, limit: object, usage: int, cache: int = 20) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stat = f"anon 5\ninactive_file {cache}\nactive_file 7\nshmem 1000\n"
    for name, text in {"max": f"{limit}\n", "current": f"{usage}\n", "stat": stat}.items():
        (folder / f"memory.{name}").write_text(text)


@pytest.mark.parametrize(
    ("groups", "allowed"),
    [
        ({"outer": (500, 300), "outer/inner": (900, 100, 3), "other": (1, 0, 0)}, [227, 810]),
        ({"outer": ("max", 300)}, []),
        ({".": (500, 300)}, [227]),  # a container sees its group at the top
        ({".": (100, 300)}, [0]),
        ({}, []),
    ],
)
def test_every_group_around_the_process_counts(
    tmp_path: Path, groups: dict[str, tuple[int, ...]], allowed: list[int]
) -> None:
    membership = tmp_path / "cgroup"
    membership.write_text("0::/outer/inner\n")
    for name, figures in groups.items():
        write_group(tmp_path / "groups" / name, *figures)
    assert control_group_allowances(membership, tmp_path / "groups") == allowed
    assert control_group_allowances(tmp_path / "absent", tmp_path / "nowhere") == []


def test_the_tightest_limit_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simple_dqn.machine.control_group_allowances", lambda: [7, 3])
    for machine, least in ((5, 3), (2, 2)):
        monkeypatch.setattr(psutil, "virtual_memory", lambda n=machine: SimpleNamespace(available=n))
        assert available_memory() == least
