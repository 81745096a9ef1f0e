"""Makes screens from pictures: the maximum of the last two frames, scaled by the mean over each pixel's area.

Screens are bit for bit those of OpenCV's `INTER_AREA`: the sums have the same order, in float32 without fused
operations. A row equal to the one above it, as most are, is not summed again.
"""

import math

import numpy as np
import warp as wp

from atari2600.console import Console
from atari2600.machine import MOST_ROWS, TIA

wp.set_module_options({"fuse_fp": False})
WIDTH = 160
TAPS = 16  # pixels of a row that one pixel of a screen covers, at most
BANDS = 28  # of a screen, which threads of a GPU make side by side
NEARLY = 1e-3  # of a pixel: a smaller overlap counts as none


@wp.struct
class Scale:
    """The tables and arrays of the scaling.

    Attributes:
        height, width: The size of a screen in pixels.
        first: For each column of a screen, the first column of the picture that it covers.
        taps: The number of pixels in a row that one pixel of a screen covers, at most.
        across: float32 [taps, width], the weights of the first column covered and of the next ones.
        steps: int32 [S, 2], pairs of a row of the screen and a row of the picture that it covers, in order.
        down: float32 [S], the weight of each pair.
        buffers: uint8 [E * 2 * MOST_ROWS * 160], the pictures.
        tia: int32 [E, TIA.COUNT].
        single: int32 [E], 1: use the last frame alone.
        bands: Threads that make a screen, some rows each.
        work: float32 [E * bands, 2 * width], working memory.
        screens: uint8 [E * height * width].
    """

    height: wp.int32
    width: wp.int32
    taps: wp.int32
    first: wp.array(dtype=wp.int32)
    across: wp.array(dtype=wp.float32)
    steps: wp.array(dtype=wp.int32)
    down: wp.array(dtype=wp.float32)
    buffers: wp.array(dtype=wp.uint8)
    tia: wp.array2d(dtype=wp.int32)
    single: wp.array(dtype=wp.int32)
    bands: wp.int32
    work: wp.array2d(dtype=wp.float32)
    screens: wp.array(dtype=wp.uint8)


@wp.func_native(
    f"""
const int width = s.width, steps = s.down.shape[0], buffer = s.tia.data[g * {TIA.COUNT} + {TIA.BUFFER}];
const unsigned char* newer = s.buffers.data + (g * 2 + buffer) * {MOST_ROWS * WIDTH};
const unsigned char* older = s.buffers.data + (g * 2 + 1 - buffer) * {MOST_ROWS * WIDTH};
if (s.single.data[g]) older = newer;
unsigned char* screen = s.screens.data + g * s.height * width;
const int top = band * s.height / s.bands, bottom = (band + 1) * s.height / s.bands;
float *row = s.work.data + (g * s.bands + band) * 2 * width, *sum = row + width;
unsigned char line[{WIDTH + TAPS}];
float pixels[{WIDTH + TAPS}];
for (int x = 0; x < {WIDTH + TAPS}; ++x) line[x] = 0;
int last = -1, drawn = -1;
for (int i = 0; i < steps; ++i) {{
    const int to = s.steps.data[i * 2], from = s.steps.data[i * 2 + 1];
    const float down = s.down.data[i];
    if (to < top || to >= bottom) continue;
    if (from != last) {{
        const unsigned char *a = newer + from * {WIDTH}, *b = older + from * {WIDTH};
        int differs = last < 0;
        for (int x = 0; x < {WIDTH}; ++x) {{
            const unsigned char most = a[x] > b[x] ? a[x] : b[x];
            differs |= most ^ line[x];
            line[x] = most;
        }}
        if (differs) {{
            for (int x = 0; x < {WIDTH + TAPS}; ++x) pixels[x] = line[x];
            for (int x = 0; x < width; ++x) row[x] = pixels[s.first.data[x]] * s.across.data[x];
            for (int tap = 1; tap < s.taps; ++tap) {{
                const float* weight = s.across.data + tap * width;
                for (int x = 0; x < width; ++x) row[x] += pixels[s.first.data[x] + tap] * weight[x];
            }}
        }}
        last = from;
    }}
    const bool begins = to != drawn;
    drawn = to;
    for (int x = 0; x < width; ++x) sum[x] = begins ? down * row[x] : sum[x] + down * row[x];
    // Round to the nearest whole number, ties to even: floats from 2**23 on have no fractional part.
    if (i + 1 == steps || s.steps.data[i * 2 + 2] != to)
        for (int x = 0; x < width; ++x)
            screen[to * width + x] = (unsigned char)(int)(sum[x] + 8388608.0f - 8388608.0f);
}}
"""
)
def shrink(s: Scale, g: int, band: int) -> None:
    """Make the rows of one band of the screen of game `g`."""
    ...


@wp.kernel(enable_backward=False)
def make_screens(s: Scale) -> None:
    """Make a band of the screen of each game."""
    g, band = wp.tid()  # type: ignore[misc]
    shrink(s, g, band)


def weights(size: int, smaller: int) -> list[tuple[int, int, np.float32]]:
    """Return (pixel of a screen, pixel of a picture that it covers, weight) along one side, as in OpenCV."""
    scale, found = size / smaller, []
    for to in range(smaller):
        begin, end = to * scale, to * scale + scale
        cell = min(scale, size - begin)
        last = min(math.floor(end), size - 1)
        first = min(math.ceil(begin), last)
        if first - begin > NEARLY:
            found.append((to, first - 1, np.float32((first - begin) / cell)))
        found += [(to, pixel, np.float32(1 / cell)) for pixel in range(first, last)]
        if end - last > NEARLY:
            found.append((to, last, np.float32(min(end - last, 1.0, cell) / cell)))
    return found


def columns(rows: int, height: int, width: int) -> tuple[list[tuple[int, int, np.float32]], list[int], int]:
    """Return the `weights` along a row, the first pixel of each column, and the most pixels of one.

    Raises:
        ValueError: OpenCV scales pictures of `rows` rows to `height` × `width` in another way.
    """
    across = weights(WIDTH, width)
    whole = WIDTH % width == 0 and rows % height == 0  # OpenCV sums these in another order
    first = [min(pixel for to, pixel, _ in across if to == column) for column in range(width)]
    taps = 1 + max(pixel - first[to] for to, pixel, _ in across)
    if whole or height >= rows or width >= WIDTH or taps > TAPS:
        raise ValueError(f"screens of {height} x {width} pixels")
    return across, first, taps


class Screens:
    """Makes the screens of a console's games; must live as long as its `command`, which uses its arrays.

    Attributes:
        screens: uint8 [E, H, W], on the console's device. command: The launch that makes them from `scale`.
    """

    def __init__(
        self, console: Console, rows: int, height: int, width: int, single: wp.array, bands: int = 0
    ) -> None:
        """Set up for pictures of `rows` rows and screens of `height` × `width` pixels.

        Of games that are 1 in `single`, int32 [E] on the console's device, the last frame alone is shown.
        `bands` threads make a screen; 0: one on a CPU, `BANDS` on a GPU.

        Raises:
            ValueError: See `columns`.
        """
        across, first, taps = columns(rows, height, width)
        down = weights(rows, height)
        table = np.zeros((taps, width), np.float32)
        for to, pixel, weight in across:
            table[pixel - first[to], to] = weight
        games, device, machine = console.games, console.device, console.machine
        scale = self.scale = Scale()
        scale.height, scale.width, scale.taps = height, width, taps
        scale.first = wp.array(np.array(first, np.int32), device=device)
        scale.across = wp.array(table.reshape(-1), device=device)
        scale.steps = wp.array(np.array([row[:2] for row in down], np.int32).reshape(-1), device=device)
        scale.down = wp.array(np.array([row[2] for row in down], np.float32), device=device)
        pixels = games * 2 * MOST_ROWS * WIDTH
        scale.buffers = wp.array(ptr=machine.screen.ptr, dtype=wp.uint8, shape=(pixels,), device=device)
        scale.tia = machine.tia
        scale.single = single
        bands = scale.bands = bands or (1 if device == "cpu" else BANDS)
        scale.work = wp.zeros((games * bands, 2 * width), dtype=wp.float32, device=device)
        scale.screens = wp.zeros(games * height * width, dtype=wp.uint8, device=device)
        self.screens = scale.screens.reshape((games, height, width))
        self.command = wp.launch(make_screens, (games, bands), [scale], device=device, record_cmd=True)
