"""Runs checks and returns their findings."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

from simple_dqn.errors import UserError


class Level(Enum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"  # something is slower, or missing; the rest works
    ERROR = "error"  # training does not work


@dataclass(frozen=True)
class Finding:
    """The result of a check, in one line."""

    level: Level
    text: str
    advice: str = ""  # what to do

    def line(self, name: str) -> str:
        """Return the line to print about the check called `name`."""
        return f"{self.level.value:<8} {name:<9} {self.text}" + (f": {self.advice}" if self.advice else "")


ok, warning, error = (partial(Finding, level) for level in Level)

# Checks one thing; is given the folder that holds `snapshots/`, `results/` and `videos/`.
Check = Callable[[Path], Finding]


def examine(checks: Mapping[str, Check], home: Path) -> Iterator[tuple[str, Finding]]:
    """Run the checks in order, and yield the name and the finding of each."""
    for name, check in checks.items():
        with _no_log():
            finding = _carry_out(check, home)
        yield name, finding


def _carry_out(check: Check, home: Path) -> Finding:
    try:
        return check(home)
    except UserError as problem:
        return error(str(problem))
    except Exception as problem:  # Whatever is broken here, the other checks still run.
        reason = " ".join(f"{type(problem).__name__}: {problem}".split())
        return error(reason, "remove .venv and start again to reinstall everything")


@contextmanager
def _no_log() -> Iterator[None]:
    """Suppress the log: the findings repeat it."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
