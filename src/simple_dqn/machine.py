"""The machine's resources: cores, memory available to this process, and a display."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from simple_dqn.errors import UserError

# The replay memory may take this share of the available memory; the rest is for the network and the games.
SHARE = 0.9
MEMBERSHIP, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")  # control groups, version 2


def available_memory() -> int:
    """Return the free bytes of the machine, or of the control group if it allows fewer."""
    return min([psutil.virtual_memory().available, *control_group_allowances()])


def control_group_allowances(membership: Path = MEMBERSHIP, groups: Path = GROUPS) -> list[int]:
    """Return the bytes that this process may still allocate in each of its control groups with a limit."""
    allowances = []
    for folder in _control_groups(membership, groups):
        limit, usage = _lines(folder / "memory.max"), _lines(folder / "memory.current")
        if usage and limit not in ([], ["max"]):
            # The kernel frees cached file pages when memory runs short.
            stat = [line.split() for line in _lines(folder / "memory.stat")]
            cache = sum(int(value) for name, value in stat if name in ("inactive_file", "active_file"))
            allowances.append(max(0, int(limit[0]) - int(usage[0]) + cache))
    return allowances


def _control_groups(membership: Path, groups: Path) -> list[Path]:
    """Return the folders of the control groups of this process, from the top down."""
    paths = [line[3:] for line in _lines(membership) if line.startswith("0::")]
    parts = [part for path in paths for part in path.split("/") if part]
    return [groups.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]


def _lines(file: Path) -> list[str]:
    with suppress(OSError):
        return file.read_text().splitlines()
    return []


def gigabytes(count: float) -> str:
    """Return `count` bytes as text, such as 7.07 GB."""
    return f"{count / 1e9:.3g} GB"


def usable_cores() -> int:
    """Return the number of cores that this process may use, in whole cores of CPU time."""
    return max(1, min([len(core_numbers()), *control_group_cores()]))


def control_group_cores(membership: Path = MEMBERSHIP, groups: Path = GROUPS) -> list[int]:
    """Return the CPU time of each control group with a limit, in whole cores, rounded down."""
    files = [folder / "cpu.max" for folder in _control_groups(membership, groups)]
    limits = [line.split() for file in files for line in _lines(file)]
    return [int(quota) // int(period) for quota, period in limits if quota != "max"]


def idle_cores(seconds: float = 0.2) -> int:
    """Return the number of usable cores that are idle more than half of the next `seconds`."""
    usable, shares = core_numbers(), psutil.cpu_percent(seconds, percpu=True)
    idle = [core for core, percent in enumerate(shares) if core in usable and percent <= 50]
    return min(len(idle), usable_cores())


def core_numbers() -> set[int]:
    """Return the numbers of the cores that this process may run on, from 0."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def require_display(advice: str) -> None:
    """Raise UserError, which ends with `advice`, without a display: SDL would draw nowhere, silently."""
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"} & os.environ.keys():
        raise UserError(f"there is no display (DISPLAY is not set): {advice}")
