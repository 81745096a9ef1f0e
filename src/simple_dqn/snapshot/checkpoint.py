"""The large state beside a snapshot: all that a run needs to go on as if it had never stopped."""

import logging
import secrets
import shutil
from pathlib import Path
from typing import Any

from simple_dqn.errors import UserError
from simple_dqn.snapshot import archive
from simple_dqn.types import State

logger = logging.getLogger(__name__)

RUN_FILE = "run.npz"
MEMORY_FILES = "memory_*.npz"
FORMAT = "simple-dqn checkpoint 1"
SPARE_BYTES = 64 << 20  # left free on the disk beside the replay memory


class Checkpoint:
    """A folder with two files: the run itself, and the replay memory that it names.

    The memory is written first under a name of its own, then the run's file is replaced in one
    rename, then the memory before is removed: at every moment the folder holds a pair that fits.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, run: State, memory: State | None) -> None:
        """Write `run`, and `memory` unless it is None: then the one written before still holds.

        A replay memory that the disk has no room for is left out, with a warning: a resume then
        refills it.

        Raises:
            UserError: The folder cannot be written; the checkpoint before is as it was.
        """
        name = self._memory_name() if memory is None else self._save_memory(memory)
        archive.write(self.folder / RUN_FILE, {"format": FORMAT, "memory": name, "run": run})
        for old in self.folder.glob(MEMORY_FILES):
            if old.name != name:
                old.unlink(missing_ok=True)

    def load_run(self) -> dict[str, Any] | None:
        """Return the state of the run, or None where there is no checkpoint.

        Raises:
            UserError: The file is damaged.
        """
        content = self._read()
        return None if content is None else content["run"]

    def load_memory(self) -> dict[str, Any] | None:
        """Return the replay memory's state, or None where it was left out.

        Raises:
            UserError: The file is missing or damaged.
        """
        name = self._memory_name()
        return archive.read(self.folder / name) if name else None

    def _read(self) -> dict[str, Any] | None:
        path = self.folder / RUN_FILE
        if not path.exists():
            return None
        content: dict[str, Any] = archive.read(path)
        if content.get("format") != FORMAT:
            raise UserError(f"{path} is not a {FORMAT!r}: remove the folder to go on without it")
        return content

    def _memory_name(self) -> str | None:
        content = self._read()
        return None if content is None else content["memory"]

    def _save_memory(self, memory: State) -> str | None:
        size = _bytes_of(memory)
        self.folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.folder).free
        if free < size + SPARE_BYTES:
            logger.warning(
                "The replay memory (%.1f GB) is not saved: %s has %.1f GB free. A resume will refill it.",
                size / 1e9, self.folder, free / 1e9,
            )  # fmt: skip
            return None
        name = MEMORY_FILES.replace("*", secrets.token_hex(4))
        archive.write(self.folder / name, memory)
        return name


def _bytes_of(value: Any) -> int:
    if isinstance(value, dict):
        return sum(_bytes_of(item) for item in value.values())
    return int(getattr(value, "nbytes", 0))
