"""Named, independent random streams from one seed."""

import secrets
import zlib

import numpy as np


def draw_seed() -> int:
    """Return a new seed of 31 bits, for a run without `--random_seed`."""
    return secrets.randbits(31)


def stream(seed: int, name: str, index: int = 0) -> np.random.Generator:
    """Return the random stream of `seed` called `name`; `index` distinguishes streams of one name.

    Streams with different names or indices are independent: an additional draw from one changes no other.
    Every seed >= 0 is valid, including 0.
    """
    key = zlib.crc32(name.encode())
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(key, index))))
