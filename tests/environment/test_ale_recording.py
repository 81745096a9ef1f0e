"""Sound, pictures and windows of Atari games; whoever watches sees and hears every frame."""

import wave
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from simple_dqn.environment import Frame
from simple_dqn.errors import UserError
from tests.environment import playing
from tests.environment.playing import assert_same, plain_emulator

STEPS = 30

games: Any = partial(playing.games, game="demon_attack", random_starts=0, training=False)


def test_every_frame_of_the_first_game_is_heard_and_seen_and_nothing_else_changes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, folder, frames = tmp_path / "game.wav", tmp_path / "videos" / "game", list[Frame]()
    settings = {"record_sound_filename": str(path), "record_screen_path": str(folder)}
    recorded = games(2, watcher=frames.append, **settings)
    steps = playing.play(recorded, STEPS)
    recorded.close()
    assert_same(steps, playing.play(games(2), STEPS))
    assert capfd.readouterr() == ("", "")
    assert sorted(path.name for path in folder.iterdir()) == [f"{i:06}.png" for i in range(STEPS * 4)]
    ale = plain_emulator("demon_attack", sound=True)
    actions, expected = ale.getMinimalActionSet(), b""
    assert len(frames) == STEPS * 4
    for number, frame in enumerate(frames):
        picture = cv2.imread(str(folder / f"{number:06}.png"))
        assert picture is not None
        # ALE's own pictures are of the moment before the frame's action, and of the screen's true width.
        assert np.array_equal(picture[:, ::2, ::-1], ale.getScreenRGB())
        ale.act(actions[steps[1 + number // 4].actions[0]])
        expected += ale.getAudio().tobytes()
        assert np.array_equal(frame.picture, ale.getScreenRGB())
        assert (frame.sound.tobytes(), frame.lives) == (ale.getAudio().tobytes(), ale.lives())
    assert frames[0].picture is not frames[1].picture
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 1, 512 * 60)
        assert file.readframes(10**9) == expected
    assert len(set(expected)) > 1, "all is silent"


def test_a_window_needs_a_display_and_sdl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    playing.play(games(2, display_screen=True), STEPS)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(UserError, match=r"no display.*--display_screen"):
        games(display_screen=True)
    monkeypatch.setattr("ale_py.SDL_SUPPORT", False)
    with pytest.raises(UserError, match="without SDL"):
        games(display_screen=True)


def test_recordings_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for setting, place, words in (
        ("record_screen_path", "file/screens", "file/screens cannot be used"),
        ("record_sound_filename", "absent/pong.wav", "cannot write the sound to .*absent"),
        ("record_sound_filename", "", "cannot write the sound"),
    ):
        with pytest.raises(UserError, match=words):
            games(**{setting: str(tmp_path / place)})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("settings", [
    {"game": "pong", "processes": 1}, {"environment": "catch"}, {"environment": "gym", "game": "ALE/Pong-v5"},
], ids=str)  # fmt: skip
def test_watching_changes_nothing(settings: dict[str, Any]) -> None:
    frames: list[Frame] = []
    watched = playing.games(watcher=frames.append, **settings)
    assert_same(playing.play(watched, 9), playing.play(playing.games(**settings), 9))
    assert frames
    assert all(frame.picture.shape[2] == 3 and frame.picture.dtype == np.uint8 for frame in frames)
