"""Randomness: one seed gives named, independent streams."""

import secrets
import zlib

import numpy as np


def draw_seed() -> int:
    """Return a fresh seed of 31 bits, for a run that was given none."""
    return secrets.randbits(31)


def stream(seed: int, name: str, index: int = 0) -> np.random.Generator:
    """Return the random stream called `name` (and `index`, for one of several alike) of `seed`.

    Streams of different names or indices are independent, so that one more draw in one room
    changes nothing in another. Every seed >= 0 is a seed, 0 too.
    """
    key = zlib.crc32(name.encode())
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(key, index))))
