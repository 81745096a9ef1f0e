"""Masses that places are drawn in proportion to: a tree of their sums."""

import numpy as np
from numpy.typing import NDArray

from simple_dqn.types import Indices

Masses = NDArray[np.float64]  # [B], ≥ 0

# Masses under one sum. The wider the tree, the lower: each level costs a few calls of numpy, and a row hardly
# anything.
WIDTH = 32


class SumTree:
    """A mass ≥ 0 for each of N places, and the sums by which a place is found (Schaul et al. 2016, B.2.1).

    The lowest level holds the masses, in rows of WIDTH; the one above holds the sums of these rows, again
    in rows of WIDTH; and so on up to a level of one row. A million masses make four levels. A sum is that
    of its row as it is now, added up from the left: so it depends on the masses alone, and not on how they
    came about.
    """

    def __init__(self, places: int) -> None:
        """Give each of N `places` the mass 0; memory is taken as others are set."""
        self._levels: list[NDArray[np.float64]] = []  # [rows, WIDTH] each, the lowest first
        rows = places
        while rows > 1 or not self._levels:
            rows = -(-rows // WIDTH)
            self._levels.append(np.zeros((rows, WIDTH)))
        self.total = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of all levels."""
        return sum(level.nbytes for level in self._levels)

    @property
    def masses(self) -> Masses:
        """The masses by place, with zeros after the last: a view to read."""
        return self._levels[0].reshape(-1)

    def set(self, places: Indices, masses: Masses) -> None:
        """Let the masses at `places` int64 [B], all of them different, be `masses` float64 [B]."""
        if not len(places):
            return
        for level in self._levels:
            level.reshape(-1)[places] = masses
            rows = places // WIDTH
            places = rows[np.concatenate(([True], rows[1:] != rows[:-1]))]  # most that are the same, once
            masses = level[places].cumsum(axis=1)[:, -1]
        self.total = float(masses[-1])

    def find(self, points: NDArray[np.float64]) -> tuple[Indices, Masses]:
        """Return for each point the first place up to which the masses add up to more than it.

        A place without mass is never found.

        Args:
            points: float64 [B], from 0 up to `total`, which is above 0.

        Returns:
            The places int64 [B], and their masses float64 [B].
        """
        each, places = np.arange(len(points)), np.zeros(len(points), np.int64)
        masses = np.full(len(points), self.total)
        for level in reversed(self._levels):
            points = np.minimum(points, np.nextafter(masses, 0))  # what rounding has moved out of the row
            sums = level[places].cumsum(axis=1)
            columns = (sums > points[:, np.newaxis]).argmax(axis=1)
            masses = level[places, columns]
            points = np.maximum(points - (sums[each, columns] - masses), 0)
            places = places * WIDTH + columns
        return places, masses
