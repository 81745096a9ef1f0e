"""Sound, pictures and windows of Atari games; whoever watches sees and hears every frame."""

import wave
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from simple_dqn.environment import Environment, Frame
from simple_dqn.errors import UserError
from tests.environment import playing
from tests.environment.playing import assert_same, plain_emulator

STEPS = 30


games = partial(playing.games, game="pong", random_starts=0, training=False)


def play(environment: Environment) -> None:
    environment.reset()
    for t in range(STEPS):
        environment.step(np.full(environment.games, t % environment.actions))
    environment.close()


def test_sound_of_every_frame_of_the_first_game(tmp_path: Path) -> None:
    path = tmp_path / "pong.wav"
    play(games(2, record_sound_filename=str(path)))
    ale = plain_emulator("pong", sound=True)
    actions, expected = ale.getMinimalActionSet(), b""
    for t in range(STEPS):
        for _ in range(4):
            ale.act(actions[t % len(actions)])
            expected += ale.getAudio().tobytes()
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 1, 512 * 60)
        assert file.readframes(10**9) == expected
    assert len(set(expected)) > 1, "all is silent"


def test_a_png_of_every_frame_of_the_first_game(tmp_path: Path) -> None:
    folder = tmp_path / "videos" / "pong"
    play(games(2, record_screen_path=str(folder)))
    assert sorted(path.name for path in folder.iterdir()) == [f"{i:06}.png" for i in range(STEPS * 4)]
    ale = plain_emulator("pong")
    actions = ale.getMinimalActionSet()
    for frame in range(STEPS * 4):
        picture = cv2.imread(str(folder / f"{frame:06}.png"))
        assert picture is not None
        # ALE's pictures are of the moment before the frame's action, and of the screen's true width.
        assert np.array_equal(picture[:, ::2, ::-1], ale.getScreenRGB())
        ale.act(actions[frame // 4 % len(actions)])


def test_recording_changes_nothing_and_says_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recorded = games(record_screen_path=str(tmp_path), record_sound_filename=str(tmp_path / "pong.wav"))
    assert_same(playing.play(recorded, STEPS), playing.play(games(), STEPS))
    recorded.close()
    assert capfd.readouterr() == ("", "")


def test_no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(UserError, match=r"no display.*--display_screen"):
        games(display_screen=True)


def test_no_window_from_an_emulator_without_sdl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ale_py.SDL_SUPPORT", False)
    with pytest.raises(UserError, match="without SDL"):
        games(display_screen=True)


def test_display_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    play(games(2, display_screen=True))


def test_recordings_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file/screens cannot be used"):
        games(record_screen_path=str(tmp_path / "file" / "screens"))
    with pytest.raises(UserError, match=r"cannot write the sound to .*absent"):
        games(record_sound_filename=str(tmp_path / "absent" / "pong.wav"))
    with pytest.raises(UserError, match="cannot write the sound"):
        games(record_sound_filename=str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_watcher_sees_and_hears_the_frames_that_ale_plays_in_the_first_game() -> None:
    frames: list[Frame] = []
    watched = playing.games(3, game="breakout", random_starts=0, color_averaging=True, watcher=frames.append)
    ale = plain_emulator("breakout", averaging=True, sound=True)
    codes, expected = ale.getMinimalActionSet(), []
    for step in playing.play(watched, STEPS)[1:]:
        for _ in range(4):
            ale.act(codes[step.actions[0]])
            expected.append((ale.getScreenRGB(), ale.getAudio(), ale.lives()))
    for frame, (picture, sound, lives) in zip(frames, expected, strict=True):
        np.testing.assert_array_equal(frame.picture, picture)
        np.testing.assert_array_equal(frame.sound, sound)
        assert frame.lives == lives
    assert frames[0].picture is not frames[1].picture


@pytest.mark.parametrize(
    "settings",
    [{"game": "pong", "processes": 1}, {"environment": "catch"},
     {"environment": "gym", "game": "ALE/Pong-v5"}],
)  # fmt: skip
def test_watching_changes_nothing(settings: dict[str, Any]) -> None:
    frames: list[Frame] = []
    watched = playing.games(watcher=frames.append, **settings)
    assert_same(playing.play(watched, 9), playing.play(playing.games(**settings), 9))
    assert frames
    assert all(frame.picture.shape[2] == 3 and frame.picture.dtype == np.uint8 for frame in frames)
