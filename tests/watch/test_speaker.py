from collections.abc import Iterator

import numpy as np
import pygame
import pytest
from numpy.typing import NDArray

from simple_dqn.watch.viewer import PIECE, SAMPLES, Speaker

Heard = list[NDArray[np.uint8]]  # pieces, in their order


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Heard]:
    """Return the pieces that the mixer will have been handed, by a channel that always has room."""
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")
    pieces: Heard = []

    class Channel:
        def __init__(self, number: int) -> None:
            pass

        def get_busy(self) -> bool:
            return False

        def play(self, piece: pygame.mixer.Sound) -> None:
            pieces.append(np.frombuffer(piece.get_raw(), np.uint8))
            assert piece.get_volume() == pytest.approx(0.5, abs=0.01)

    monkeypatch.setattr(pygame.mixer, "Channel", Channel)
    yield pieces
    pygame.mixer.quit()


@pytest.mark.parametrize(("speed", "each"), [(1.0, 1), (2.0, 2), (8.0, 8)])
def test_every_sample_is_played_or_every_so_manieth_when_it_goes_faster(
    heard: Heard, speed: float, each: int
) -> None:
    rng = np.random.default_rng(0)
    sound = rng.integers(0, 256, (48, SAMPLES), dtype=np.uint8)
    speaker = Speaker()
    for frame in sound:
        speaker.play(frame, speed, volume=0.5)
    speaker.close()
    assert np.array_equal(np.concatenate(heard), sound.reshape(-1)[::each])
    assert len(heard[0]) >= PIECE


def test_slow_sound_is_low(heard: Heard) -> None:
    speaker = Speaker()
    sound = np.arange(SAMPLES).astype(np.uint8)
    speaker.play(sound, 0.25, volume=0.5)
    assert np.array_equal(np.concatenate(heard), sound.repeat(4))


def test_nothing_is_heard_at_full_speed_nor_of_games_without_sound(heard: Heard) -> None:
    speaker = Speaker()
    for _ in range(10):
        speaker.play(np.full(SAMPLES, 128, np.uint8), None, volume=0.5)
        speaker.play(np.zeros(0, np.uint8), 1.0, volume=0.5)
    assert not heard


def test_without_a_device_the_game_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SDL_AUDIODRIVER", "nonsense")
    speaker = Speaker()
    speaker.play(np.full(SAMPLES, 128, np.uint8), 1.0, volume=0.5)
    speaker.close()
    assert len(caplog.records) == 1
    assert "There is no sound device" in caplog.text
