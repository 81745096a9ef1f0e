"""The bars that a person sees while a game is played and looked at."""

from collections.abc import Iterator
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

BATCH = 32  # states looked at together: their units' answers take some MB


def bar(description: str, total: int | None = None) -> "tqdm[NoReturn]":
    """Return a bar that counts steps up to `total`, where standard error is a terminal."""
    return tqdm(desc=description, total=total, unit=" steps", leave=False, dynamic_ncols=True, disable=None)


def batches(times: NDArray[np.int64], description: str) -> Iterator[NDArray[np.int64]]:
    """Yield `times`, int64 [B], at most `BATCH` at once, and draw how many are done."""
    with bar(description, len(times)) as progress:
        for first in range(0, len(times), BATCH):
            batch = times[first : first + BATCH]
            yield batch
            progress.update(len(batch))
