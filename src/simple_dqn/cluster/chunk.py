"""What passes between the learner and an actor: data alone, and small."""

import hashlib
import os
import platform
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simple_dqn.config import Config


@dataclass(frozen=True, slots=True)
class Task:
    """What an actor is to be."""

    config: Config
    number: int  # which of the actors, from 0
    life: int  # how many actors had this number before
    sitting: int = 0  # how often the run was resumed before

    @property
    def index(self) -> int:
        """The index of its random streams, which no other actor of the run has."""
        return (self.sitting << 40) + (self.life << 20) + self.number


@dataclass(frozen=True, slots=True)
class Chunk:
    """What an actor played in T steps of its W games, by one version of the weights.

    Its rows are those T, and before them, in an actor's first chunk, the one that starts the games.
    """

    number: int  # how many chunks the actor sent before
    packed: bytes  # the rows, by `experience_log.pack`: each screen once, compressed together
    steps: int  # T · W
    scores: list[float]  # of the games that ended, in raw game points, wherever they began
    version: int  # of the weights: the updates that had made them
    # float32 [rows, W], how wrong the predictions were, row by row where `Lane` lets transitions begin;
    # None: unknown.
    errors: NDArray[np.float32] | None


@cache
def about_this_machine() -> dict[str, str]:
    """Return the machine, this process's number on it, and what must be the same on all machines."""
    about = {"host": socket.gethostname(), "process": str(os.getpid())}
    return about | {"Python": python_version(), "project": project_sum()}


def python_version() -> str:
    """Return Python's version, without what only mends it."""
    return ".".join(platform.python_version_tuple()[:2])


def project_sum() -> str:
    """Return a sum over the sources of this project: a version's name says too little of a working copy."""
    digest, folder = hashlib.sha256(), Path(__file__).parents[1]
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return digest.hexdigest()[:12]
