from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simple_dqn.environment import Frame
from simple_dqn.watch.controls import Controls, Keys
from simple_dqn.watch.viewer import FrameClock, Viewer


class Clock:
    """A clock that moves when somebody sleeps or works."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += max(0.0, seconds)


def play(frames: int, speed: float | None, work: float) -> tuple[float, int]:
    """Return the seconds that `frames` take, and how many are drawn, at `work` seconds each."""
    clock = Clock()
    frame_clock = FrameClock(clock, clock.pass_)
    drawn = 0
    for _ in range(frames):
        frame_clock.wait(speed)
        drawn += frame_clock.picture_due()
        clock.pass_(work)
    return clock.now - 100, drawn


@pytest.mark.parametrize(
    ("speed", "seconds", "drawn"), [(1.0, 10, 600), (0.25, 40, 600), (2.0, 5, 300), (8.0, 1.25, 75)]
)
def test_frames_come_at_their_time_and_about_60_pictures_a_second_at_most(
    speed: float, seconds: float, drawn: int
) -> None:
    took, pictures = play(600, speed, work=0.001)
    assert took == pytest.approx(seconds, rel=0.01)
    assert pictures == pytest.approx(drawn, rel=0.2)


def test_without_a_speed_nothing_waits() -> None:
    took, pictures = play(600, None, work=0.001)
    assert took == pytest.approx(0.6)
    assert pictures <= 60


def test_what_is_late_leaves_pictures_out_but_not_for_long() -> None:
    took, pictures = play(600, 1.0, work=0.02)
    assert took == pytest.approx(12)
    assert 12 / 0.15 < pictures < 600


def test_lost_time_is_not_made_up_for() -> None:
    clock = Clock()
    frame_clock = FrameClock(clock, clock.pass_)
    frame_clock.wait(1.0)
    clock.pass_(5.0)
    start = clock.now
    for _ in range(61):
        frame_clock.wait(1.0)
    assert clock.now - start == pytest.approx(1.0)


@pytest.mark.parametrize("rate", [4.0, 50.0, 60.0])
@pytest.mark.parametrize("speed", [1, -1])
def test_frames_come_at_the_rate_of_the_game(
    rate: float, speed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, controls = Clock(), Controls()
    controls.apply("s" if speed > 0 else "a", set())
    silent: Any = SimpleNamespace(play=lambda *_: None)
    display: Any = SimpleNamespace(keys=lambda: Keys([], set()), show=lambda *_: None)
    viewer = Viewer(controls, display, silent, 0.0, Path(), FrameClock(clock, clock.pass_))
    viewed: Any = SimpleNamespace(
        environment=SimpleNamespace(frames_per_second=rate), view=lambda *_, **__: None
    )
    viewer._player = viewed
    monkeypatch.setattr(viewer, "_view", lambda *_: viewed)
    for _ in range(102):  # the last is held back
        viewer.watch(Frame.silent(np.zeros((2, 2), np.uint8)))
    assert clock.now - 100 == pytest.approx(100 / rate / 2**speed)
