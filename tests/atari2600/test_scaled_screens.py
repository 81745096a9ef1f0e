"""Screens are those of OpenCV, bit for bit."""

import cv2
import numpy as np
import pytest

pytest.importorskip("warp", reason="NVIDIA Warp is not installed")

import warp

from atari2600.console import Console
from atari2600.machine import TIA
from atari2600.screens import Screens


@pytest.mark.parametrize(("height", "width"), [(84, 84), (64, 64), (42, 42), (100, 90)])
@pytest.mark.parametrize("rows", [210, 230])
@pytest.mark.parametrize("bands", [1, 28])  # on a CPU and on a GPU
def test_screens_are_equal_to_opencvs(height: int, width: int, rows: int, bands: int) -> None:
    console = Console(bytes(4096), games=3)
    random = np.random.default_rng(0)
    console.pictures[...] = random.integers(256, size=console.pictures.shape)
    console.pictures[:, :, 50:150] = console.pictures[:, :, 50:51]  # rows that are alike
    console.tia[:, TIA.BUFFER] = [0, 1, 1]
    single = warp.array([1, 1, 0], dtype=warp.int32, device="cpu")
    scaled = Screens(console, rows, height, width, single, bands)
    scaled.command.launch()
    pictures = [console.pictures[0, 0], console.pictures[1, 1], console.pictures[2].max(axis=0)]
    for picture, screen in zip(pictures, scaled.screens.numpy(), strict=True):
        wanted = cv2.resize(picture[:rows], (width, height), interpolation=cv2.INTER_AREA)
        assert np.array_equal(screen, wanted)


@pytest.mark.parametrize(("height", "width"), [(210, 160), (105, 80), (300, 200)])
def test_screens_that_are_scaled_otherwise_are_refused(height: int, width: int) -> None:
    with pytest.raises(ValueError, match=f"{height} x {width}"):
        Screens(
            Console(bytes(4096), games=1), 210, height, width, warp.zeros(1, dtype=warp.int32, device="cpu")
        )
