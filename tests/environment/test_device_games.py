"""`--emulator warp` plays exactly as `--emulator ale` does; the choice of `auto`; refused settings."""

import errno
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import simple_dqn
from simple_dqn.config import Config, EnvironmentConfig
from simple_dqn.config import words as as_flags
from simple_dqn.device import Device
from simple_dqn.environment import as_played, warp_games
from simple_dqn.environment.interface import Environment
from simple_dqn.errors import UserError
from simple_dqn.machine import SHARE
from simple_dqn.run import device_of_games
from tests.command_line import CATCH, PROJECT, Logs, Patch, Start, Told
from tests.environment.test_ale import assert_same as assert_same_steps
from tests.environment.test_ale import games as make_games
from tests.test_resume import assert_same

pytest.importorskip("warp", reason="NVIDIA Warp is not installed")

import warp
from ale_py.roms import get_rom_path

from atari2600 import screens, starts
from atari2600.games import STAND, Games, Settings, bytes_of_game, bytes_of_pool
from atari2600.machine import CPU, RIOT, TIA
from atari2600.rules import RULES

# The CPU stands in for a GPU: by this name everything that a GPU does with tensors is done.
STAND_IN, GPU = torch.device("cpu", 0), torch.device("cuda", 0)
both = pytest.mark.parametrize("where", [
    STAND_IN,
    pytest.param(GPU, marks=pytest.mark.skipif(not warp.is_cuda_available(), reason="there is no GPU")),
], ids=str)  # fmt: skip


def games(emulator: str, count: int = 2, **settings: Any) -> Environment:
    return make_games(count, **{"game": "breakout", "random_starts": 5, "emulator": emulator, **settings})


def let_the_device_play(where: torch.device, monkeypatch: Patch) -> None:
    monkeypatch.setattr("simple_dqn.run.GPU_GAMES", 1)
    if where == STAND_IN:
        for module in ("device", "dqn"):
            found = Device(where, "float32")
            monkeypatch.setattr(f"simple_dqn.{module}.choose_device", lambda _, found=found: found)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (10**11, 10**11))


@pytest.mark.parametrize(("settings", "ends"), [
    ({"repeat_action_probability": 0.25}, 0),
    ({"game": "qbert", "frame_maximum": False}, 0), ({"game": "name_this_game", "max_game_frames": 150}, 20),
    ({"game": "seaquest", "max_game_frames": 300}, 1), ({"training": False}, 0),
    ({"frame_skip": 9, "terminal_on_life_loss": False}, 2),
    ({"game": "pong", "random_starts": 0, "random_start_frames": 30, "frame_skip": 3}, 0),
    ({"game": "asterix", "minimal_action_set": False}, 0),
    ({"game": "skiing", "minimal_action_set": False}, 0),  # which has 9 actions
    ({"game": "pong", "max_game_frames": 21}, 2),  # its games may have 20 frames of no-ops
    # Games that end within a step show their last frame alone.
    ({"count": 4, "random_starts": 0, "frame_skip": 9, "repeat_action_probability": 0.25}, 4),
], ids=str)  # fmt: skip
def test_steps_are_those_of_ale(settings: dict[str, Any], ends: int) -> None:
    ours, theirs = games("warp", **settings), games("ale", **settings)
    assert ours.action_names == theirs.action_names
    assert ours.rom_md5 == theirs.rom_md5
    random, ended = np.random.default_rng(0), 0
    assert_same_steps([ours.reset()], [theirs.reset()])
    for _ in range(400):
        actions = random.integers(ours.actions, size=ours.games)
        step = ours.step(actions)
        assert_same_steps([step], [theirs.step(actions)])
        ended += int(step.resets.sum())
    assert ended >= ends


def test_a_saved_game_goes_on_exactly_and_only_on_the_same_emulator() -> None:
    environment, resumed, ale = games("warp"), games("warp", seed=9), games("ale")
    actions = np.random.default_rng(0).integers(environment.actions, size=(200, 2))
    for one in (environment, resumed, ale):
        one.reset()
    for row in actions[:150]:
        environment.step(row)
    resumed.set_state(environment.get_state())
    for row in actions[150:]:
        assert_same_steps([resumed.step(row)], [environment.step(row)])
    for name, one, other in (("ale", ale, environment), ("warp", environment, ale)):
        with pytest.raises(UserError, match=f"--emulator {name}"):
            other.set_state(one.get_state())


@pytest.mark.parametrize(("array", "column", "value", "line"), [
    ("cpu", CPU.BANK, 4096, "another cartridge"),
    ("cpu", CPU.BANK, 1, "another cartridge"),
    ("cpu", CPU.BANK, -4096, "outside 0 to"),
    ("cpu", CPU.CARTRIDGE, 4, "another cartridge"),
    ("cpu", CPU.X, 1 << 30, "outside 0 to 255"),
    ("tia", TIA.ROWS, 2**31 - 1, "outside 0 to 256"),
    ("tia", TIA.BUFFER, 1 << 20, "outside 0 to 1"),
    ("riot", RIOT.SHIFT, -1, "outside 0 to 10"),
    ("stand", STAND.HELD, 18, "outside 0 to 17"),
    ("stand", STAND.BEGUN, -1, "outside 0 to"),
])  # fmt: skip
def test_an_edited_state_changes_nothing(array: str, column: int, value: int, line: str) -> None:
    """Each of these values would let the kernel read or write beyond its arrays, or never end."""
    environment, other = games("warp"), games("warp")
    for one in (environment, other):
        one.reset()
    state = environment.get_state()
    state["games"]["1"][array][column] = value
    with pytest.raises(ValueError, match=line):
        environment.set_state(state)
    actions = np.zeros(2, np.int64)
    assert_same_steps([environment.step(actions)], [other.step(actions)])


@pytest.mark.parametrize("edit", [
    lambda game: game.pop("riot"), lambda game: game.update(cpu=game["cpu"][:-1]),
    lambda game: game.update(tia=game["tia"].astype(np.int64)),
    lambda game: game.update(screen=game["screen"].reshape(2, -1)),
], ids=["missing", "short", "int64", "other axes"])  # fmt: skip
def test_a_state_of_other_arrays_is_refused(edit: Callable[[dict[str, Any]], Any]) -> None:
    environment = games("warp", 1)
    state = environment.get_state()
    edit(state["games"]["0"])
    with pytest.raises(ValueError, match="a state of 1 games has"):
        environment.set_state(state)


@pytest.mark.parametrize("frames", [2**31 - 1, 2**31, 2**63])
def test_a_limit_beyond_int32_never_ends_a_game(frames: int) -> None:
    environment = games("warp", max_game_frames=frames)
    environment.reset()
    assert not any(environment.step(np.zeros(2, np.int64)).resets.any() for _ in range(3))


# What it cannot play, with a part of the line that says so; `auto` plays it by ALE.
NOT_PLAYED: list[tuple[dict[str, Any], str]] = [
    ({"game": "carnival"}, r"does not play carnival \(cartridge: 4K\): use --emulator ale"),
    ({"game": "space_war"}, r"space_war \(cartridge: 2K\)"),
    ({"color_averaging": True}, "add --color_averaging false"),
    ({"screen_width": 80, "screen_height": 105}, "105 x 80 pixels: give --emulator ale"),
    ({"screen_width": 160, "screen_height": 210}, "210 x 160 pixels"),
    ({"screen_width": 200, "screen_height": 300}, "300 x 200 pixels"),
    ({"random_starts": 151}, "in its no-ops, of up to 604 frames here: give at most 600"),
    ({"max_game_frames": 20}, "in its no-ops, of up to 20 frames here: give .* a larger --max_game_frames"),
    ({"record_sound_filename": "sound.wav"}, "--record_sound_filename needs --emulator ale"),
]  # fmt: skip
AUTO: list[tuple[dict[str, Any], str]] = [
    ({}, "warp"), *((settings, "ale") for settings, _ in NOT_PLAYED), ({"emulator": "ale"}, "ale"),
    ({"display_screen": True}, "ale"), ({"record_screen_path": "frames"}, "ale"),
    ({"environment": "catch", "game": "catch"}, "ale"),
    ({"environment": "gym", "game": "ALE/Pong-v5"}, "ale"),
]  # fmt: skip


def test_auto_chooses_ale_for_what_warp_refuses() -> None:
    for settings, words in NOT_PLAYED:
        with pytest.raises(UserError, match=words) as failure:
            games("warp", **settings)
        assert "\n" not in str(failure.value)
    for settings, emulator in AUTO:
        config = EnvironmentConfig(**{"game": "pong", "color_averaging": False, **settings})
        assert as_played(config).emulator == emulator


def test_a_training_gives_the_same(tmp_path: Path, start: Start, monkeypatch: Patch) -> None:
    sizes: dict[str, Any] = {"test_steps": 60, "random_steps": 100, "replay_size": 500, "workers": 2}
    rules: dict[str, Any] = {"color_averaging": False, "repeat_action_probability": 0.1}
    for emulator in ("ale", "warp"):
        flags = as_flags({**CATCH, **sizes, **rules, "emulator": emulator, "screen_width": 42})
        assert start(emulator, "train", "pong", *flags) == 0
    assert_same(tmp_path / "ale", tmp_path / "warp")
    # Weights do not depend on the emulator, so that a snapshot plays where it is not installed.
    monkeypatch.setattr(warp_games, "INSTALLED", False)
    for path in (Path("snapshots/pong_1.pkl"), *(PROJECT / "snapshots" / "trained").glob("*.pkl")):
        assert simple_dqn.load(path).settings["emulator"] == "ale"


@both
def test_screens_on_the_networks_device_are_those_of_the_cpu(where: torch.device) -> None:
    settings: dict[str, Any] = {"game": "seaquest", "max_game_frames": 200, "repeat_action_probability": 0.1}
    there, here = games("warp", 3, device=where, **settings), games("warp", 3, **settings)
    steps, random = [(there.reset(), here.reset())], np.random.default_rng(0)
    for _ in range(150):
        actions = random.integers(here.actions, size=3)
        steps.append((there.step(actions), here.step(actions)))
        if len(steps) == 100:
            there.set_state(here.get_state())
    for step, other in steps:  # each is the receiver's to keep
        assert isinstance(step.screens, torch.Tensor)
        assert step.screens.device.type == where.type
        assert_same_steps([step], [other])


@pytest.mark.parametrize(("flags", "there"), [
    ({}, True), ({"workers": 255}, False), ({"processes": 1}, False), ({"emulator": "ale"}, False),
], ids=str)  # fmt: skip
def test_a_gpu_plays_many_games(flags: dict[str, Any], there: bool, monkeypatch: Patch) -> None:
    monkeypatch.setattr("simple_dqn.device.choose_device", lambda _: Device(GPU, "float32"))
    config = Config.from_flags({"game": "pong", "emulator": "warp", "workers": 256, **flags})
    assert device_of_games(config) == (GPU if there else None)


ROLLOUTS = (
    "--preset strong --emulator warp --workers 3 --rollout_steps 8 --train_frequency 12 --batch_size 12 "
    "--network small --screen_width 42 --screen_height 42 --train_steps 48 --test_steps 30 --random_seed 3 "
    "--learning_rate_decay_updates 0 --average_updates 16 --exploration_decay_steps 50 --max_game_frames 200 "
    "--threads 1 --datatype float32 --checkpoint_minutes 0"
)
REPLAY = (
    "--preset quick --processes 0 --emulator warp --random_steps 200 --train_steps 64 --test_steps 0 "
    "--replay_size 1000 --max_game_frames 200 --random_seed 3 --threads 1 --datatype float32 "
    "--checkpoint_minutes 0"
)


@pytest.mark.parametrize("flags", [ROLLOUTS, REPLAY], ids=["rollouts", "replay"])
@both
def test_a_training_on_the_device(
    where: torch.device, flags: str, tmp_path: Path, start: Start, monkeypatch: Patch
) -> None:
    """On the stand-in also what NumPy's arrays give, with which a GPU's sums do not agree."""
    train = ["train", "pong", *flags.split(), "--epochs"]
    if where == STAND_IN:
        assert start("host", *train, "2", "--backend", "cpu") == 0
    let_the_device_play(where, monkeypatch)
    assert start("whole", *train, "2") == start("halves", *train, "1") == 0
    assert start("halves", "resume", "snapshots/pong_checkpoint", "--epochs", "2") == 0
    for other in ("halves", "host") if where == STAND_IN else ("halves",):
        assert_same(tmp_path / other, tmp_path / "whole")


def bytes_in(struct: Any) -> dict[int, int]:
    found: dict[int, int] = {}
    for name in struct._cls.vars:
        value = getattr(struct, name)
        found |= bytes_in(value) if hasattr(value, "_cls") else {getattr(value, "ptr", 0): 0}
        found |= {value.ptr: value.capacity} if isinstance(value, warp.array) and value.ptr else {}
    return found


@pytest.mark.parametrize("bands", [1, screens.BANDS])  # of a CPU and of a GPU
@pytest.mark.parametrize("game", ["pong", "ice_hockey"])
def test_the_memory_that_a_game_takes_is_known(game: str, bands: int, monkeypatch: Patch) -> None:
    monkeypatch.setattr("atari2600.games.Screens", partial(screens.Screens, bands=bands))
    start, rom = starts.find(game), Path(str(get_rom_path(game))).read_bytes()
    settings, taken = Settings((0,), most_no_ops=0), []
    for count in (1, 201):
        made = Games(rom, start, RULES[game], np.zeros(count, np.uint32), settings)
        arrays = bytes_in(made._machine) | bytes_in(made._play) | bytes_in(made._scaler.scale)
        taken.append(sum(arrays.values()))
    each = (taken[1] - taken[0]) / 200
    assert 0.95 * bytes_of_game(start, settings, bands) < each <= bytes_of_game(start, settings, bands)


# The pool of starts, and a megabyte beside it.
FREE = 10**6 + bytes_of_pool(starts.find("pong"), Settings((0,))) / SHARE


class SmallGpu:
    is_cuda, free_memory = True, FREE

    def __str__(self) -> str:
        return "cuda:0"


def no_folder(*_: Any) -> None:
    raise OSError(errno.EEXIST, "File exists", "/a/b")


@pytest.mark.parametrize(("patched", "words"), [
    ({"environment.warp_games.available_memory": lambda: FREE}, "cpu can spare 0.0009 GB, for 9 games"),
    ({"environment.warp_games.warp_device": lambda _: SmallGpu()}, "cuda:0 can spare 0.0009 GB, for 8"),
    ({"device.choose_device": lambda _: Device(torch.device("cuda", 99), "float32")},
     "cannot use cuda:99"),
    *(({f"environment.warp_games.{part}": no_folder}, "its kernels to /a/b: File exists: set WARP")
      for part in ("warp.init", "Games")),
], ids=["memory", "memory of a GPU", "CUDA", "no folder", "no kernels"])  # fmt: skip
def test_bad_input_is_one_line(
    patched: dict[str, Any], words: str, monkeypatch: Patch, tmp_path: Path, told: Told
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in patched.items():
        monkeypatch.setattr(f"simple_dqn.{name}", value)
    command = "train pong --emulator warp --workers 256 --processes 0 --log_level ERROR"
    (line,) = told(*command.split(), code=2).splitlines()
    assert words in line
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_native_messages_of_warps_start_are_discarded(
    monkeypatch: Patch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warp, "init", lambda: os.write(2, b"no driver of a GPU"))
    warp_games.warp_device(None)
    os.write(2, b"later")
    assert capfd.readouterr().err == "later"


def test_auto_plays_by_ale_if_warp_has_no_folder_and_says_so(monkeypatch: Patch, caplog: Logs) -> None:
    monkeypatch.setattr("simple_dqn.environment.warp_games.warp.init", no_folder)
    caplog.set_level(logging.INFO)
    assert as_played(EnvironmentConfig("pong", color_averaging=False)).emulator == "ale"
    assert "ALE plays the games" in caplog.text
    assert "set WARP_CACHE_PATH" in caplog.text


def test_without_warp_auto_plays_by_ale_and_says_how_to_install_it(monkeypatch: Patch, caplog: Logs) -> None:
    monkeypatch.setattr(warp_games, "INSTALLED", False)
    caplog.set_level(logging.INFO)
    assert as_played(EnvironmentConfig("pong", color_averaging=False)).emulator == "ale"
    assert as_played(EnvironmentConfig("carnival", color_averaging=False)).emulator == "ale"  # no gain
    (line,) = [message for message in caplog.messages if "pip install" in message]
    assert "warp-lang==" in line
    with pytest.raises(UserError, match="warp-lang==1"):
        games("warp")


@pytest.mark.usefixtures("home")
def test_a_resumed_run_keeps_its_emulator(monkeypatch: Patch, told: Told) -> None:
    told("train", "pong", *as_flags({**CATCH, "color_averaging": False, "workers": 2}))
    assert "  emulator: warp" in Path("results/pong.yaml").read_text()
    more = ["resume", "snapshots/pong_checkpoint", "--epochs", "2", "--emulator"]
    assert "--emulator warp and cannot continue with ale" in told(*more, "ale", code=2)
    told(*more, "auto")
    monkeypatch.setattr(warp_games, "INSTALLED", False)
    assert "pip install" in told(*more[:2], "--epochs", "3", code=2).splitlines()[-1]
