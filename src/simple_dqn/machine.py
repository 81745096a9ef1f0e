"""The machine's resources: cores, memory available to this process, and a display."""

import os
import sys
import time
from pathlib import Path

import psutil

from simple_dqn.errors import UserError

DISPLAY_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")

# The replay memory may take this share of the available memory; the rest is for the network and the games.
SHARE = 0.9

# Where each version of Linux control groups has its figures, by the name of the controller in
# /proc/self/cgroup (version 2 has one nameless hierarchy for all): the folder, the files of the limit and of
# the usage, and the prefix of names in memory.stat.
GROUP_FILES = {
    "": ("", "memory.max", "memory.current", ""),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
}


def available_memory() -> int:
    """Return the free bytes of the machine, or of the control group if it allows fewer."""
    return min([psutil.virtual_memory().available, *control_group_allowances()])


def control_group_allowances(
    membership: Path = Path("/proc/self/cgroup"), groups: Path = Path("/sys/fs/cgroup")
) -> list[int]:
    """Return the bytes that each limited control group of this process may still take.

    A container sees its own group at the top of `groups` even if `membership` names the path on the
    host, so every folder from that path up to the top is read.
    """
    allowances = []
    for line in membership.read_text().splitlines() if membership.exists() else []:
        _, controllers, path = line.split(":", 2)
        for top, *files in [GROUP_FILES[name] for name in controllers.split(",") if name in GROUP_FILES]:
            parts = [part for part in path.split("/") if part]
            for depth in range(len(parts) + 1):
                allowances += _allowance(groups.joinpath(top, *parts[:depth]), *files)
    return allowances


def _allowance(folder: Path, limit_file: str, usage_file: str, prefix: str) -> list[int]:
    """Return the bytes that the group in `folder` may still take; an empty list if it has no limit."""
    try:
        limit = (folder / limit_file).read_text().strip()
        usage = int((folder / usage_file).read_text())
        lines = [line.split() for line in (folder / "memory.stat").read_text().splitlines()]
    except OSError:
        return []
    if limit == "max":
        return []
    # The kernel frees cached file pages when memory runs short.
    cached = (f"{prefix}inactive_file", f"{prefix}active_file")
    cache = sum(int(value) for name, value in lines if name in cached)
    return [max(0, int(limit) - usage + cache)]


def gigabytes(count: float) -> str:
    """Return `count` bytes in words, such as 7.07 GB."""
    return f"{count / 1e9:.3g} GB"


def usable_cores() -> int:
    """Return how many cores this process may run on."""
    return len(core_numbers())


def core_numbers() -> set[int]:
    """Return which cores this process may run on, counted from 0."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def busy_seconds() -> dict[int, float]:
    """Return the busy seconds of each usable core so far, over all processes."""
    times, usable = psutil.cpu_times(percpu=True), core_numbers()
    return {core: sum(t) - t.idle - getattr(t, "iowait", 0) for core, t in enumerate(times) if core in usable}


def cpu_seconds() -> float:
    """Return the CPU seconds so far of this process and its children."""
    seconds = time.process_time()
    for child in psutil.Process().children():
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        seconds += times.user + times.system
    return seconds


def require_display(advice: str) -> None:
    """Require a display: without one SDL would draw nowhere, silently.

    Raises:
        UserError: There is no display. The message ends with `advice`.
    """
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in DISPLAY_VARIABLES):
        raise UserError(f"there is no display (DISPLAY is not set): {advice}")
