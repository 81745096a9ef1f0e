"""ROM files, names of games and names of snapshots."""

import hashlib
import logging
import shutil
from pathlib import Path

import ale_py.roms
import pytest
from ale_py import ALEInterface

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import make
from simple_dqn.environment.atari import find_rom, game_name, game_of, known_games, md5
from simple_dqn.errors import UserError
from simple_dqn.random_streams import stream


@pytest.fixture(autouse=True)
def _forget_roms_found_before() -> None:
    find_rom.cache_clear()


def shipped(name: str) -> Path:
    path = ale_py.roms.get_rom_path(name)
    assert path
    return Path(path)


def test_known_games_are_those_that_ale_plays() -> None:
    playable = [n for n in ale_py.roms.get_all_rom_ids() if ALEInterface.isSupportedROM(str(shipped(n)))]
    assert known_games() == sorted(playable)
    assert len(known_games()) == 104


@pytest.mark.parametrize("name", ["pong", "roms/pong.rom", "/nowhere/Pong.bin"])
def test_a_name_or_the_stem_of_an_absent_path_is_a_shipped_rom(
    name: str, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pong").mkdir()  # a folder is no ROM file
    with caplog.at_level(logging.INFO):
        assert find_rom(name) == shipped("pong")
    assert str(shipped("pong")) in caplog.text
    assert game_name(name) == "pong"


def test_a_file_that_exists_is_used_and_known_by_its_content(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "My favourite.rom"
    shutil.copy(shipped("space_invaders"), path)
    with caplog.at_level(logging.INFO):
        assert find_rom(str(path)) == path
    assert str(path) in caplog.text
    assert game_name(str(path)) == "space_invaders"
    environment = make(EnvironmentConfig(game=str(path)), [stream(0, "environment")], training=False)
    assert environment.name == "space_invaders"
    assert environment.reset().screens.any()


def test_an_unknown_game_names_the_nearest() -> None:
    for name, words in (
        ("roms/brekout.rom", r"no file roms/brekout.rom and no game called 'brekout'.*breakout"),
        ("0123456789", "such as pong"), ("", "no game was named"),
        ("ALE/MsPacman-v9", "did you mean ms_pacman"),
        ("combat", "no game called 'combat'"),  # for several players: loading it would end the process
    ):  # fmt: skip
        with pytest.raises(UserError, match=words):
            find_rom(name)


@pytest.mark.parametrize("content", [b"", bytes(4096), shipped("space_invaders").read_bytes()])
def test_a_file_that_is_no_rom_is_named_with_its_md5(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pong.bin"
    path.write_bytes(content)
    with pytest.raises(UserError, match=hashlib.md5(content).hexdigest()) as raised:
        find_rom(str(path))
    assert "\n" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_a_line() -> None:
    with pytest.raises(UserError, match="cannot read"):
        md5(Path("/nowhere/pong.bin"))


@pytest.mark.parametrize(("run", "game"), [
    ("pong", "pong"), ("space_invaders", "space_invaders"), ("space_invaders_mylabel", "space_invaders"),
    ("space_invaders_my_label_2", "space_invaders"), ("pong_pong", "pong"), ("pongo", None),
    ("catch_small", "catch"), ("CartPole-v1_some_thing", None), ("mario_bros_x", "mario_bros"),
])  # fmt: skip
def test_the_game_of_a_run_is_the_longest_that_is_known(
    run: str, game: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["mario", "mario_bros", "mario_b", *known_games()]
    monkeypatch.setattr("simple_dqn.environment.atari.known_games", lambda: names)
    assert game_of(run) == game
