"""States and gradients as colours."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from simple_dqn.types import States

Number = TypeVar("Number", np.uint8, np.float32)
Picture = NDArray[np.uint32]  # [H, W]: red, green, blue and opacity in the four bytes of a pixel


def colour_channels(values: NDArray[Number]) -> NDArray[Number]:
    """Return the last three of `values` [S, H, W] as channels [H, W, 3]: red the oldest, blue the newest.

    Where a state has fewer than three screens, its oldest fills the channels that are left.
    """
    screens = len(values)
    return np.stack([values[max(screens - age, 0)] for age in (3, 2, 1)], axis=-1)


def state_picture(state: States) -> Picture:
    """Return a state, uint8 [S, H, W], as a picture: what stands still is grey, what moves is coloured."""
    return _picture(colour_channels(state))


def gradient_picture(gradient: NDArray[np.float32]) -> Picture:
    """Return a gradient, float32 [S, H, W], as a picture: grey for 0, brighter above, darker below."""
    channels = colour_channels(gradient)
    strongest = float(np.abs(channels).max()) or 1.0
    return _picture(np.round(127.5 + 127.5 * channels / strongest).astype(np.uint8))


def percent_of_strongest(gradients: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return how strong each pixel's gradient is: uint8 [B, H, W], 100 for the strongest of a state.

    Args:
        gradients: float32 [B, S, H, W]; of a pixel, the screen with the strongest counts.
    """
    strengths: NDArray[np.float32] = np.abs(gradients).max(axis=1)
    strongest = strengths.max(axis=(1, 2), keepdims=True)
    percent = np.round(100 * strengths / np.where(strongest > 0, strongest, 1))
    return percent.astype(np.uint8)


def _picture(channels: NDArray[np.uint8]) -> Picture:
    """Return the picture whose red, green and blue are `channels`, uint8 [H, W, 3]."""
    height, width, _ = channels.shape
    picture = np.full((height, width, 4), 255, np.uint8)
    picture[..., :3] = channels
    return picture.view(np.uint32).reshape(height, width)
