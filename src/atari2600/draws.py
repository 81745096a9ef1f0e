"""Random numbers that are the same on every device; needs no Warp."""

WORD = 0xFFFFFFFF  # numbers here have 32 bits


def mix(x: int) -> int:
    """Return a hash of 32 bits in which every bit of `x` counts."""
    x = (x ^ (x >> 16)) * 0x21F0AAAD & WORD
    x = (x ^ (x >> 15)) * 0x735A2D97 & WORD
    return x ^ (x >> 15)


class Draws:
    """Random numbers that are functions of a key and of how many were drawn: equal on every device.

    `games.draw` draws the same ones. Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".

    Attributes:
        key: A number of 32 bits. drawn: How many numbers were drawn.
    """

    def __init__(self, key: int) -> None:
        self.key, self.drawn = key, 0

    def _draw(self) -> int:
        self.drawn += 1
        return mix(mix(self.drawn - 1) ^ self.key)

    def integers(self, high: int) -> int:
        """Return a whole number from 0 to `high` - 1, at most 2³²."""
        return self._draw() * high >> 32

    def random(self) -> float:
        """Return a number from 0 to 1, without 1."""
        return self._draw() * 2.0**-32

    def get_state(self) -> dict[str, int]:
        """Return the state for a checkpoint."""
        return {"key": self.key, "drawn": self.drawn}

    def set_state(self, state: dict[str, int]) -> None:
        """Restore what `get_state` returned."""
        self.key, self.drawn = int(state["key"]), int(state["drawn"])
