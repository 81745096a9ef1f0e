"""`--emulator warp` plays as `--emulator ale` does, to the last bit, and says what it cannot play."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simple_dqn
from simple_dqn import main
from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import Environment, device, make
from simple_dqn.errors import UserError
from simple_dqn.random_streams import stream
from simple_dqn.snapshot import Snapshot
from simple_dqn.types import Step

pytest.importorskip("warp", reason="NVIDIA Warp is not installed")

PROJECT = Path(__file__).parents[2]
TIMES = {"total_time", "epoch_time", "steps_per_second"}


def games(emulator: str, count: int = 2, *, seed: int = 0, **settings: Any) -> Environment:
    config = EnvironmentConfig(
        **{"game": "breakout", "random_starts": 5, "color_averaging": False, "emulator": emulator, **settings}
    )
    return make(config, [stream(seed, "environment", i) for i in range(count)], training=True)


def assert_equal(one: Step, other: Step) -> None:
    for field in Step.__slots__:
        assert np.array_equal(getattr(one, field), getattr(other, field)), field


@pytest.mark.parametrize(
    "settings",
    [
        {"game": "breakout", "repeat_action_probability": 0.25},
        {"game": "qbert", "frame_maximum": False},
        {"game": "seaquest", "max_game_frames": 300},
        {"game": "pong", "random_starts": 0, "random_start_frames": 30, "frame_skip": 3},
        {"game": "asterix", "minimal_action_set": False},
    ],
)
def test_steps_are_those_of_ale(settings: dict[str, Any]) -> None:
    ours, theirs = games("warp", **settings), games("ale", **settings)
    assert ours.action_names == theirs.action_names
    assert ours.rom_md5 == theirs.rom_md5
    random = np.random.default_rng(0)
    assert_equal(ours.reset(), theirs.reset())
    for _ in range(400):
        actions = random.integers(ours.actions, size=2)
        assert_equal(ours.step(actions), theirs.step(actions))


def test_a_game_that_ends_within_a_step_gives_the_screen_of_that_frame() -> None:
    settings: dict[str, Any] = {
        "game": "breakout",
        "random_starts": 0,
        "frame_skip": 9,
        "repeat_action_probability": 0.25,
    }
    ours, theirs = games("warp", 4, **settings), games("ale", 4, **settings)
    assert_equal(ours.reset(), theirs.reset())
    ends = 0
    for number in range(600):
        step, other = ours.step(np.full(4, number % 2)), theirs.step(np.full(4, number % 2))
        assert_equal(step, other)
        ends += int(step.resets.sum())
    assert ends > 3


def test_a_saved_game_goes_on_as_if_it_had_not_been() -> None:
    environment, resumed = games("warp"), games("warp", seed=9)
    actions = np.random.default_rng(0).integers(environment.actions, size=(200, 2))
    environment.reset()
    resumed.reset()
    for row in actions[:150]:
        environment.step(row)
    resumed.set_state(environment.get_state())
    for row in actions[150:]:
        assert_equal(resumed.step(row), environment.step(row))


def test_a_state_of_ales_is_refused() -> None:
    ale = games("ale")
    ale.reset()
    with pytest.raises(UserError, match="--emulator ale"):
        games("warp").set_state(ale.get_state())


def test_ale_refuses_a_state_of_its() -> None:
    warp = games("warp")
    warp.reset()
    with pytest.raises(UserError, match="games of --emulator warp: continue with it"):
        games("ale").set_state(warp.get_state())


def test_an_agent_trained_with_it_plays_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights do not depend on the emulator, so that a snapshot does not record it."""
    monkeypatch.setattr(device, "INSTALLED", False)
    with pytest.raises(UserError, match="warp-lang==1"):
        games("warp")
    for path in sorted((PROJECT / "snapshots" / "trained").glob("*.pkl")):
        agent = simple_dqn.load(path)
        assert agent.settings["emulator"] == "ale"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"game": "alien"}, r"does not play alien \(cartridge: 4K\): use --emulator ale"),
        ({"game": "space_war"}, r"space_war \(cartridge: 2K\)"),
        ({"color_averaging": True}, "add --color_averaging false"),
        ({"screen_width": 80, "screen_height": 105}, "105 x 80 pixels: give --emulator ale"),
        ({"record_sound_filename": "sound.wav"}, "--record_sound_filename needs --emulator ale"),
    ],
)
def test_what_it_cannot_do_is_refused_in_a_line(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words) as failure:
        games("warp", **settings)
    assert "\n" not in str(failure.value)


def test_a_training_gives_the_same_csv_and_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags = (
        "--color_averaging false --repeat_action_probability 0.1 --workers 2 --epochs 1 --network small "
        "--screen_width 42 --screen_height 42 --random_steps 100 --train_steps 120 --test_steps 60 "
        "--replay_size 500 --random_seed 3 --backend cpu --threads 1 --checkpoint_minutes 0"
    )
    tables, weights = [], []
    for emulator in ("ale", "warp"):
        assert main.run(["train", "pong", emulator, "--emulator", emulator, *flags.split()]) == 0
        with Path(f"results/pong_{emulator}.csv").open() as file:
            rows = list(csv.DictReader(file))
        tables.append([{name: row[name] for name in row if name not in TIMES} for row in rows])
        weights.append(Snapshot.load(Path(f"snapshots/pong_{emulator}_1.pkl")).weights)
    assert tables[0] == tables[1]
    monkeypatch.setattr(device, "INSTALLED", False)
    agent = simple_dqn.load(Path("snapshots/pong_warp_1.pkl"))
    assert agent.settings["emulator"] == "ale"
    for name, values in weights[0].items():
        assert np.array_equal(values, weights[1][name]), name
