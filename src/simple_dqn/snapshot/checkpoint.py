"""Checkpoints: all that a run needs to go on as if it had never stopped."""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.snapshot import archive, experience_log
from simple_dqn.snapshot.experience_log import CHUNKS, Chunk
from simple_dqn.snapshot.modification import Modification, from_record
from simple_dqn.types import CheckpointState, Experience

logger = logging.getLogger(__name__)

RUNS = "run_*.npz"
RUN_NAME = re.compile(r"run_(\d+)\.npz")
FORMAT = "simple-dqn checkpoint 2"


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was read, and found to be whole."""

    path: Path
    run: dict[str, Any]  # the state of the run, but for the experience
    rows: int  # rows that the replay memory had taken in
    held: int  # those of them that it held: the first `kept`, and the last
    chunks: list[Chunk]  # of the experience log, which hold these at least
    kept: int = 0  # rows that it keeps for good
    modification: Modification | None = None  # what the run was made with, beside the flags

    def experience(self) -> Iterator[Experience]:
        """Yield what the replay memory held, oldest first.

        Raises:
            UserError: A chunk of the log is gone by now.
        """
        first = self.rows - (self.held - self.kept)
        return experience_log.read(self.path.parent, self.chunks, first, self.kept)


class Checkpoints:
    """A folder with the last few checkpoints of a run, `run_<number>.npz`, and the chunks that they name.

    A chunk is there before a checkpoint names it, and goes when none does: at every moment each file
    `run_<number>.npz` is whole, and so is all that it names.
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        """Look after `folder`, which need not exist.

        Args:
            folder: Where the checkpoints are.
            keep: How many of them stay.
        """
        self.folder = folder
        self._keep = keep
        self._kept: list[tuple[Path, list[Chunk]]] = []  # oldest first
        self._last = 0  # number of the latest

    def newest(self, fits: Callable[[dict[str, Any]], bool] = lambda _: True) -> Saved | None:
        """Return the latest checkpoint that is whole and whose run `fits`; None: there is none.

        A line in the log tells of each that is damaged.
        """
        for path in reversed(self._paths()):
            try:
                saved = _read(path)
                if not fits(saved.run):
                    continue
                for chunk in saved.chunks:
                    chunk.read(self.folder)
            except UserError as error:
                logger.warning("%s cannot be used (%s): trying the checkpoint before it", path, error)
                continue
            return saved
        return None

    def latest_number(self) -> int:
        """Return the number of the latest checkpoint, whole or not: they only grow; 0 where there is none."""
        return max(map(_number, self._paths()), default=0)

    def take_up(self, saved: Saved) -> None:
        """Go on from `saved`; others, be they damaged or later, go once the next one is written."""
        self._kept = [(saved.path, saved.chunks)]
        self._last = self.latest_number()

    def set_aside(self, folder: Path) -> None:
        """Move what is there to `folder`, which is made for it.

        Raises:
            UserError: The files cannot be moved.
        """
        files = self._files()
        if not any(path.match(RUNS) for path in files):
            return
        logger.info("%s holds the checkpoints of another run: they are kept as %s", self.folder, folder)
        try:
            folder.mkdir()
            for path in files:
                path.rename(folder / path.name)
        except OSError as error:
            raise UserError(
                f"cannot move the checkpoints in {self.folder} to {folder}: {error.strerror}: move them "
                "away, or give this run another label"
            ) from None

    def write(
        self, run: CheckpointState, rows: int, held: int, chunks: Sequence[Chunk], kept: int = 0
    ) -> None:
        """Write a checkpoint, then remove what is no longer needed.

        Args:
            run: The state of the run, but for the experience.
            rows: Rows that the replay memory had taken in.
            held: Those of them that it held: the first `kept`, and the last.
            chunks: Where these are; the files are there.
            kept: Rows that it keeps for good.

        Raises:
            UserError: It cannot be written; the checkpoints before it are as they were.
        """
        path = self.folder / f"run_{self._last + 1:06d}.npz"
        named = {
            "first": np.array([chunk.first for chunk in chunks], np.int64),
            "end": np.array([chunk.end for chunk in chunks], np.int64),
            "sum": np.array([chunk.sum for chunk in chunks], np.uint32),
        }
        counts = {"rows": rows, "held": held, "kept": kept}
        archive.write(path, {"format": FORMAT, **counts, "chunks": named, "run": run})
        self._last += 1
        self._kept = [*self._kept, (path, list(chunks))][-self._keep :]
        self._tidy()

    def _tidy(self) -> None:
        """Remove all files that no kept checkpoint needs."""
        needed = {path.name for path, _ in self._kept}
        needed |= {chunk.name for _, chunks in self._kept for chunk in chunks}
        with suppress(OSError):  # They are in nobody's way, and the next checkpoint tries again.
            for path in self._files():
                if path.name not in needed:
                    path.unlink()

    def _paths(self) -> list[Path]:
        """Return the checkpoints, oldest first."""
        return sorted((path for path in self.folder.glob(RUNS) if RUN_NAME.fullmatch(path.name)), key=_number)

    def _files(self) -> list[Path]:
        return [*self._paths(), *self.folder.glob(CHUNKS)]


def _number(path: Path) -> int:
    match = RUN_NAME.fullmatch(path.name)
    assert match
    return int(match[1])


def _read(path: Path) -> Saved:
    """Return the checkpoint in `path`, whose chunks are not looked at.

    Raises:
        UserError: It is damaged, or something else.
    """
    content = archive.read(path)
    if content.get("format") != FORMAT:
        raise UserError(f"it is not a {FORMAT!r}")
    try:
        named = (content["chunks"][name].tolist() for name in ("first", "end", "sum"))
        chunks = [Chunk(*numbers) for numbers in zip(*named, strict=True)]
        kept = content.get("kept", 0)  # unknown to those from before there were rows to keep
        run = content["run"]
        modification = from_record(run.get("modification"))  # older ones record none
        return Saved(path, run, content["rows"], content["held"], chunks, kept, modification)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise archive.damaged(path, error) from None
