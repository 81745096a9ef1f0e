"""Sound, pictures and windows of Atari games."""

import wave
from pathlib import Path
from typing import Any

import ale_py.roms
import cv2
import numpy as np
import pytest
from ale_py import ALEInterface

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import Environment, make
from simple_dqn.errors import UserError
from simple_dqn.random_streams import stream

STEPS = 30


def games(count: int = 1, **settings: Any) -> Environment:
    config = EnvironmentConfig(**{"game": "pong", "random_starts": 0, "color_averaging": False, **settings})
    return make(config, [stream(0, "environment", i) for i in range(count)], training=False)


def play(environment: Environment) -> None:
    environment.reset()
    for t in range(STEPS):
        environment.step(np.full(environment.games, t % environment.actions))
    environment.close()


def plain_emulator(sound: bool) -> ALEInterface:
    ale = ALEInterface()
    ale.setInt("random_seed", 0)
    ale.setInt("frame_skip", 1)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setBool("sound_obs", sound)
    ale.loadROM(str(ale_py.roms.get_rom_path("pong")))
    ale.reset_game()
    return ale


def test_sound_of_every_frame_of_the_first_game(tmp_path: Path) -> None:
    path = tmp_path / "pong.wav"
    play(games(2, record_sound_filename=str(path)))
    ale = plain_emulator(sound=True)
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
    ale = plain_emulator(sound=False)
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
    plain = games()
    assert np.array_equal(recorded.reset().screens, plain.reset().screens)
    for t in range(STEPS):
        action = np.full(1, t % plain.actions)
        assert np.array_equal(recorded.step(action).screens, plain.step(action).screens)
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
