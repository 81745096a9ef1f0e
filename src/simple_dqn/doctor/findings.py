"""What a check found, and how it is told."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from simple_dqn.errors import UserError


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"  # something is slower, or missing; the rest works
    ERROR = "error"  # training does not work


@dataclass(frozen=True)
class Finding:
    """What a check found, in a line."""

    level: Level
    text: str
    advice: str = ""  # what to do

    def line(self, name: str) -> str:
        """Return what a person reads about the check called `name`."""
        return f"{self.level.value:<8} {name:<9} {self.text}" + (f": {self.advice}" if self.advice else "")


# Looks at one thing; is given the folder that holds `snapshots/`, `results/` and `videos/`.
Check = Callable[[Path], Finding]


def examine(checks: Mapping[str, Check], home: Path) -> Iterator[tuple[str, Finding]]:
    """Carry out the checks one after the other, and yield the name and the finding of each."""
    for name, check in checks.items():
        with _silence():
            finding = _carry_out(check, home)
        yield name, finding


def _carry_out(check: Check, home: Path) -> Finding:
    try:
        return check(home)
    except UserError as error:
        return Finding(Level.ERROR, str(error))
    except Exception as error:  # Whatever is broken here, the other checks are to be made.
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return Finding(Level.ERROR, reason, "remove .venv and start again, which installs everything anew")


@contextmanager
def _silence() -> Iterator[None]:
    """Keep the log still: what it would say is found here."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
