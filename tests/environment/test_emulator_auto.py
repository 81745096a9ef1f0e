"""`--emulator auto`: our own emulator where it plays the game, or ALE."""

import logging
from pathlib import Path
from typing import Any

import pytest

from simple_dqn import main
from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import as_played, device

TINY = """--color_averaging false --workers 2 --network small --screen_width 42 --screen_height 42 --threads 1
    --random_steps 60 --train_steps 80 --test_steps 0 --replay_size 500 --random_seed 3 --backend cpu
    --checkpoint_minutes 0"""


@pytest.mark.parametrize(
    ("settings", "emulator"),
    [
        ({}, "warp"),
        ({"emulator": "ale"}, "ale"),
        ({"game": "alien"}, "ale"),  # not exact
        ({"color_averaging": True}, "ale"),
        ({"display_screen": True}, "ale"),
        ({"record_screen_path": "frames"}, "ale"),
        ({"screen_width": 80, "screen_height": 105}, "ale"),
        ({"environment": "catch", "game": "catch"}, "ale"),
        ({"environment": "gym", "game": "ALE/Pong-v5"}, "ale"),
    ],
)
def test_auto_is_our_own_emulator_where_it_plays_the_game(settings: dict[str, Any], emulator: str) -> None:
    config = EnvironmentConfig(**{"game": "pong", "color_averaging": False, **settings})
    assert as_played(config).emulator == emulator


def test_one_line_names_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(device, "INSTALLED", False)
    caplog.set_level(logging.INFO)
    assert as_played(EnvironmentConfig("pong", color_averaging=False)).emulator == "ale"
    assert as_played(EnvironmentConfig("alien", color_averaging=False)).emulator == "ale"  # it gains nothing
    (line,) = [record.getMessage() for record in caplog.records if "pip install" in record.getMessage()]
    assert "warp-lang==" in line


def test_a_resumed_run_keeps_its_emulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    assert main.run(["train", "pong", *TINY.split(), "--epochs", "1"]) == 0
    assert "  emulator: warp" in Path("results/pong.yaml").read_text()
    more = ["resume", "snapshots/pong_checkpoint", "--epochs", "2", "--emulator"]
    assert main.run([*more, "ale"]) == 2
    assert "--emulator warp and cannot continue with ale" in capsys.readouterr().err
    assert main.run([*more, "auto"]) == 0
    monkeypatch.setattr(device, "INSTALLED", False)
    assert main.run([*more[:2], "--epochs", "3"]) == 2
    assert "pip install" in capsys.readouterr().err.splitlines()[-1]
