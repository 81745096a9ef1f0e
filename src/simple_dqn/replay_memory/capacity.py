"""How much memory this process may still take."""

import logging
from dataclasses import dataclass
from pathlib import Path

import psutil

from simple_dqn.errors import UserError

logger = logging.getLogger(__name__)

# The replay memory may take this share of what is free; the rest is for the network and the games.
SHARE = 0.9


@dataclass(frozen=True)
class GroupFiles:
    """Where a version of Linux control groups keeps its figures, below the folder of all groups."""

    folder: str
    limit: str
    usage: str
    cache: tuple[str, str]  # lines of memory.stat: pages of files, given up when memory runs short


# By the name of the controller in /proc/self/cgroup; version 2 has one nameless hierarchy for all.
GROUP_FILES = {
    "": GroupFiles("", "memory.max", "memory.current", ("inactive_file", "active_file")),
    "memory": GroupFiles(
        "memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
}


def require_memory(replay_size: int, experience_bytes: int, most_bytes: int = 0) -> None:
    """Refuse a memory of `replay_size` experiences that does not fit, and warn of one that may not.

    Args:
        replay_size: Experiences.
        experience_bytes: What each takes, or takes at the least.
        most_bytes: What each may take, where that is not known yet.

    Raises:
        UserError: How large a --replay_size fits, and how to keep the screens on disk.
    """
    needed, at_most = replay_size * experience_bytes, replay_size * most_bytes
    spare = int(SHARE * available_memory())
    if needed > spare:
        fits = _round_down(spare // experience_bytes)
        raise UserError(
            f"--replay_size {replay_size} needs {gigabytes(needed)} of memory and this machine can spare "
            f"{gigabytes(spare)}: --replay_size {fits} fits, or --replay_file PATH keeps the screens on disk"
        )
    if at_most > spare:
        logger.warning(
            "--replay_size %d takes %s to %s of memory, as far as the game's screens compress, and this "
            "machine can spare %s: --replay_size %d would fit either way",
            replay_size, gigabytes(needed), gigabytes(at_most), gigabytes(spare),
            _round_down(spare // most_bytes),
        )  # fmt: skip


def available_memory() -> int:
    """Return the bytes that are free on the machine, or fewer where a control group allows fewer."""
    return min([psutil.virtual_memory().available, *control_group_allowances()])


def control_group_allowances(
    membership: Path = Path("/proc/self/cgroup"), groups: Path = Path("/sys/fs/cgroup")
) -> list[int]:
    """Return the bytes that each limited control group around this process may still take.

    A container sees its own group at the top of `groups` even where `membership` names the
    host's path to it, so every folder from that path up to the top is looked at.
    """
    allowances = []
    for line in membership.read_text().splitlines() if membership.exists() else []:
        _, controllers, path = line.split(":", 2)
        for files in [GROUP_FILES[name] for name in controllers.split(",") if name in GROUP_FILES]:
            parts = [part for part in path.split("/") if part]
            for depth in range(len(parts) + 1):
                folder = groups.joinpath(files.folder, *parts[:depth])
                allowances += _allowance(folder, files)
    return allowances


def _allowance(folder: Path, files: GroupFiles) -> list[int]:
    """Return the bytes that the group in `folder` may still take; nothing where it has no limit."""
    try:
        limit = (folder / files.limit).read_text().strip()
        usage = int((folder / files.usage).read_text())
        lines = [line.split() for line in (folder / "memory.stat").read_text().splitlines()]
    except OSError:
        return []
    if limit == "max":
        return []
    cache = sum(int(value) for name, value in lines if name in files.cache)
    return [max(0, int(limit) - usage + cache)]


def gigabytes(count: int) -> str:
    """Return `count` bytes as a person reads them."""
    return f"{count / 1e9:.3g} GB"


def _round_down(number: int) -> int:
    """Return the largest number of two significant digits that is at most `number`.

    What is free changes from one moment to the next, so a figure to the last byte would be stale.
    """
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return number // unit * unit
