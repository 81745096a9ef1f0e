"""Where the files of an earlier run are kept when a new run takes its name: `pong` becomes `pong_before`."""

import logging
import re
from pathlib import Path

from simple_dqn.errors import UserError
from simple_dqn.snapshot.claim import CHECKPOINTS, checkpoint_folder

logger = logging.getLogger(__name__)


def free_prefix(prefix: Path) -> Path:
    """Return a prefix that no file has yet: `pong_before`, then `pong_before_2` and so on, for `pong`."""
    last = max(_prefixes(prefix), default=0)
    return prefix.with_name(f"{prefix.name}_before_{last + 1}" if last else f"{prefix.name}_before")


def folders_aside(prefix: Path) -> list[Path]:
    """Return the folders with checkpoints of earlier runs of this name, the oldest first."""
    folders = (checkpoint_folder(kept) for _, kept in sorted(_prefixes(prefix).items()))
    return [folder for folder in folders if folder.is_dir()]


def snapshots_after(prefix: Path, epoch: int) -> list[Path]:
    """Return the snapshots `<prefix>_<number>.pkl` of later epochs than `epoch`, in order."""
    name = re.compile(re.escape(prefix.name) + r"_(\d+)\.pkl")
    named = ((name.fullmatch(path.name), path) for path in prefix.parent.glob("*.pkl"))
    found = sorted((int(match[1]), path) for match, path in named if match)
    return [path for number, path in found if number > epoch]


def set_snapshots_aside(prefix: Path, epoch: int, kept: Path) -> None:
    """Rename the snapshots of later epochs than `epoch`, so that a new run does not replace them.

    Args:
        prefix: What the names of the snapshots begin with.
        epoch: The last epoch that the new run counts as its own.
        kept: What their names begin with from now on.

    Raises:
        UserError: A snapshot cannot be renamed.
    """
    paths = snapshots_after(prefix, epoch)
    if not paths:
        return
    renamed = [path.with_name(kept.name + path.name.removeprefix(prefix.name)) for path in paths]
    logger.info("Snapshots of an earlier run, %s, are kept as %s", in_words(paths), in_words(renamed))
    try:
        for path, other in zip(paths, renamed, strict=True):
            path.rename(other)
    except OSError as error:
        raise UserError(
            f"cannot rename {path} to {other}: {error.strerror}: move it away, or give this run another label"
        ) from None


def in_words(paths: list[Path]) -> str:
    """Return the names of snapshots in one line: the first, and the last where there are several."""
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} to {paths[-1].name}"


def _prefixes(prefix: Path) -> dict[int, Path]:
    """Return by number each `pong_before`, `pong_before_2` and so on that files have."""
    name = re.compile(rf"({re.escape(prefix.name)}_before(?:_(\d+))?)(?:{CHECKPOINTS}|_\d+\.pkl)")
    found = (name.fullmatch(path.name) for path in prefix.parent.glob("*"))
    return {int(match[2] or 1): prefix.with_name(match[1]) for match in found if match}
