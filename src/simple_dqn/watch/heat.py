"""A heat map as a picture that can be laid over a game."""

from functools import cache

import numpy as np
import pygame
from numpy.typing import NDArray

from simple_dqn.watch.mind import HeatMap

OPACITY = 235  # of 255, how much the hottest spot covers the game


@cache
def _heat_colours() -> NDArray[np.uint8]:
    """Return a colour for each of 256 strengths, from red to yellow and opaque; uint8 [256, 4].

    Blue comes first: pygame lays that order over a picture a hundred times as fast as red first.
    """
    strength = np.linspace(0, 1, 256)
    red = np.full(256, 255.0)
    green = 255 * np.clip(1.5 * strength - 0.35, 0, 1)
    blue = 255 * np.clip(3 * strength - 2.2, 0, 1)
    return np.stack([blue, green, red, OPACITY * strength], axis=1).astype(np.uint8)


def heat_surface(heat_map: HeatMap, size: tuple[int, int]) -> pygame.Surface:
    """Return `heat_map` as a surface of `size` that lets the game through where it is cold."""
    strengths = (255 * np.clip(heat_map, 0, 1)).astype(np.uint8)
    pixels = _heat_colours()[strengths]
    small = pygame.image.frombuffer(pixels.tobytes(), heat_map.shape[::-1], "BGRA")
    return pygame.transform.smoothscale(small, size)
