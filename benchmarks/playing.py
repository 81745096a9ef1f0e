"""Time per frame while a person watches: play.sh must keep 60 frames per second.

    ./bench.sh playing [--seconds 20]

An agent with Nature's network plays Pong in real time, in a window that SDL draws in memory. The work of a
frame is its time without waiting: emulation, the agent's step every 4 frames, its heat map, drawing and
sound. Run it under Xvfb with SDL_VIDEODRIVER=x11 to include sending the pictures to an X server.
"""

import os
import sys
import time
from collections.abc import Sequence
from functools import partial

import common
import numpy as np
from common import machine, positive, print_table

from simple_dqn import random_streams
from simple_dqn.config import Config
from simple_dqn.environment import make
from simple_dqn.environment.interface import FRAMES_PER_SECOND, Frame
from simple_dqn.run import make_network
from simple_dqn.watch.player import Controls, WatchedPlayer
from simple_dqn.watch.viewer import FrameClock, Speaker, Viewer, open_display

# Picture -> the keys that switch it on.
SHOWN = {"the game alone": ["o"], "with the overlay": [], "with overlay and heat map": ["v"]}
WARM_UP = 60  # frames that are left out of the figures


class Stopwatch:
    """Measures the time of each frame, with and without waiting."""

    def __init__(self) -> None:
        self.frames: list[float] = []  # seconds from frame to frame
        self.work: list[float] = []  # seconds of each frame without waiting
        self._slept = 0.0
        self._last = time.perf_counter()

    def sleep(self, seconds: float) -> None:
        start = time.perf_counter()
        time.sleep(seconds)
        self._slept += time.perf_counter() - start

    def lap(self) -> None:
        now = time.perf_counter()
        self.frames.append(now - self._last)
        self.work.append(now - self._last - self._slept)
        self._last, self._slept = now, 0.0


def measure(commands: list[str], seconds: float) -> Stopwatch:
    config = Config.from_flags({"game": "pong", "random_seed": 0, "backend": "cpu", "threads": 1})
    stopwatch, controls = Stopwatch(), Controls()
    controls.apply(commands, set())
    display, speaker = open_display("window", "benchmark"), Speaker()
    viewer = Viewer(controls, display, speaker, FrameClock(sleep=stopwatch.sleep), 0.05)

    def watch(frame: Frame) -> None:
        viewer.watch(frame)
        stopwatch.lap()

    stream = random_streams.stream(0, "environment")
    environment = make(config.environment, [stream], training=False, watcher=watch)
    network = make_network(config, environment)
    saliency = network.guided_backpropagation().saliency
    person = partial(controls.action, environment.action_names)
    player = WatchedPlayer(environment, network.predict, 4, stream, saliency, person)
    frames = WARM_UP + round(seconds * FRAMES_PER_SECOND)
    for _ in viewer.follow(player):
        if len(stopwatch.frames) >= frames:
            break
    display.close()
    speaker.close()
    return stopwatch


def row(shown: str, stopwatch: Stopwatch) -> list[str]:
    frames, work = (1e3 * np.array(times[WARM_UP:]) for times in (stopwatch.frames, stopwatch.work))
    figures = [np.median(frames), np.percentile(frames, 99), np.median(work), np.percentile(work, 99)]
    return [shown, *(f"{figure:.1f}" for figure in figures), f"{1e3 / frames.mean():.1f}"]


def main(words: Sequence[str]) -> None:
    """Print the table."""
    parser = common.parser("playing", __doc__)
    parser.add_argument("--seconds", type=positive(float), default=20, help="of play per row (default: 20)")
    seconds: float = parser.parse(words)["seconds"]
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    print(machine())
    print_table(
        "Playing in real time, milliseconds per frame (16.7 at 60 frames per second)",
        ["picture", "median", "99 %", "median work", "99 % work", "frames/s"],
        [row(shown, measure(commands, seconds)) for shown, commands in SHOWN.items()],
    )


if __name__ == "__main__":
    sys.exit(common.console("playing", main))
