"""`--emulator warp` plays as `--emulator ale` does, to the last bit, and says what it cannot play."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import simple_dqn
from simple_dqn import main
from simple_dqn.config import Config, EnvironmentConfig
from simple_dqn.device import Device
from simple_dqn.environment import Environment, device, make
from simple_dqn.errors import UserError
from simple_dqn.random_streams import stream
from simple_dqn.replay import on_host
from simple_dqn.run import device_of_games
from simple_dqn.snapshot import Snapshot
from simple_dqn.types import Step
from tests.command_line import rows

pytest.importorskip("warp", reason="NVIDIA Warp is not installed")

import warp
from ale_py.roms import get_rom_path

from atari2600 import starts
from atari2600.games import Games, Settings, bytes_of_game
from atari2600.rules import RULES

PROJECT = Path(__file__).parents[2]
# The CPU stands in for a GPU: by this name everything that a GPU does with tensors is done.
STAND_IN, GPU = torch.device("cpu", 0), torch.device("cuda", 0)
both = pytest.mark.parametrize("where", [
    STAND_IN,
    pytest.param(GPU, marks=pytest.mark.skipif(not warp.is_cuda_available(), reason="there is no GPU")),
], ids=str)  # fmt: skip


def games(
    emulator: str, count: int = 2, *, seed: int = 0, where: torch.device | None = None, **settings: Any
) -> Environment:
    config = EnvironmentConfig(
        **{"game": "breakout", "random_starts": 5, "color_averaging": False, "emulator": emulator, **settings}
    )
    streams = [stream(seed, "environment", i) for i in range(count)]
    return make(config, streams, training=True, device=where)


def assert_equal(one: Step, other: Step) -> None:
    for field in Step.__slots__:
        ours, theirs = getattr(one, field), getattr(other, field)
        if field == "screens":
            ours, theirs = on_host(ours), on_host(theirs)
        assert np.array_equal(ours, theirs), field


def use(where: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the network be on `where`, and few games, too."""
    monkeypatch.setattr("simple_dqn.run.GPU_GAMES", 1)
    if where == STAND_IN:
        for module in ("device", "dqn"):
            found = Device(where, "float32")
            monkeypatch.setattr(f"simple_dqn.{module}.choose_device", lambda _, found=found: found)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (10**11, 10**11))


def outcome(name: str) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """Return the CSV of a run without times, and the weights of its last snapshot."""
    last = max(Path("snapshots").glob(f"{name}_[0-9].pkl"))
    return rows(Path(f"results/{name}.csv")), Snapshot.load(last).weights


def assert_same_outcome(name: str, other: str) -> None:
    (table, weights), (their_table, theirs) = outcome(name), outcome(other)
    assert table == their_table
    assert weights.keys() == theirs.keys()
    for layer, values in weights.items():
        assert np.array_equal(values, theirs[layer]), layer


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
    for emulator in ("ale", "warp"):
        assert main.run(["train", "pong", emulator, "--emulator", emulator, *flags.split()]) == 0
    assert_same_outcome("pong_ale", "pong_warp")
    monkeypatch.setattr(device, "INSTALLED", False)
    agent = simple_dqn.load(Path("snapshots/pong_warp_1.pkl"))
    assert agent.settings["emulator"] == "ale"


@both
def test_screens_on_the_networks_device_are_those_of_the_cpu(where: torch.device) -> None:
    settings: dict[str, Any] = {"game": "seaquest", "max_game_frames": 200, "repeat_action_probability": 0.1}
    there, here = games("warp", 3, where=where, **settings), games("warp", 3, **settings)
    steps, random = [(there.reset(), here.reset())], np.random.default_rng(0)
    for _ in range(150):
        actions = random.integers(here.actions, size=3)
        steps.append((there.step(actions), here.step(actions)))
        if len(steps) == 100:
            there.set_state(here.get_state())
    for step, other in steps:  # each is the receiver's to keep
        assert isinstance(step.screens, torch.Tensor)
        assert step.screens.device.type == where.type
        assert_equal(step, other)


@pytest.mark.parametrize(("flags", "there"), [
    ({}, True), ({"workers": 255}, False), ({"processes": 1}, False), ({"emulator": "ale"}, False),
], ids=str)  # fmt: skip
def test_a_gpu_plays_many_games_of_this_process(
    flags: dict[str, Any], there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_a_training_on_the_device_is_repeated_and_resumed_exactly(
    where: torch.device, flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the stand-in also what NumPy's arrays give, with which a GPU's sums do not agree."""
    monkeypatch.chdir(tmp_path)
    if where == STAND_IN:
        assert main.run(["train", "pong", "host", *flags.split(), "--epochs", "2", "--backend", "cpu"]) == 0
    use(where, monkeypatch)
    assert main.run(["train", "pong", "whole", *flags.split(), "--epochs", "2"]) == 0
    assert main.run(["train", "pong", "halves", *flags.split(), "--epochs", "1"]) == 0
    assert main.run(["resume", "snapshots/pong_halves_checkpoint", "--epochs", "2"]) == 0
    assert_same_outcome("pong_whole", "pong_halves")
    if where == STAND_IN:
        assert_same_outcome("pong_whole", "pong_host")


def bytes_in(struct: Any) -> dict[int, int]:
    """Return the bytes of each array of a Warp struct, by its address."""
    found: dict[int, int] = {}
    for name in struct._cls.vars:
        value = getattr(struct, name)
        found |= bytes_in(value) if hasattr(value, "_cls") else {getattr(value, "ptr", 0): 0}
        found |= {value.ptr: value.capacity} if isinstance(value, warp.array) and value.ptr else {}
    return found


@pytest.mark.parametrize("game", ["pong", "ice_hockey"])
def test_the_memory_that_a_game_takes_is_known(game: str) -> None:
    start, rom = starts.find(game), Path(str(get_rom_path(game))).read_bytes()
    settings, taken = Settings((0,), most_no_ops=0), []
    for count in (1, 201):
        made = Games(rom, start, RULES[game], np.zeros(count, np.uint32), settings)
        arrays = bytes_in(made._machine) | bytes_in(made._play) | {made.screens.ptr: made.screens.capacity}
        taken.append(sum(arrays.values()))
    each = (taken[1] - taken[0]) / 200
    assert 0.95 * bytes_of_game(start, settings) < each <= bytes_of_game(start, settings)


class SmallGpu:
    """Stands in for a GPU of Warp's without room."""

    is_cuda, free_memory = True, 10**6

    def __str__(self) -> str:
        return "cuda:0"


@pytest.mark.parametrize(("flags", "patched", "words"), [
    ("pong --color_averaging true", {}, "add --color_averaging false"),
    ("alien", {}, "does not play alien"),
    ("pong", {"environment.device.available_memory": lambda: 10**6}, "cpu can spare 0.0009 GB, for 9 games"),
    ("pong", {"environment.device.warp_device": lambda _: SmallGpu()}, "cuda:0 can spare 0.0009 GB, for 9"),
    ("pong", {"device.choose_device": lambda _: Device(torch.device("cuda", 99), "float32")},
     "cannot use cuda:99"),
], ids=["color", "game", "memory", "memory of a GPU", "CUDA"])  # fmt: skip
def test_bad_input_is_one_line(
    flags: str, patched: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for name, value in patched.items():
        monkeypatch.setattr(f"simple_dqn.{name}", value)
    words_given = [*flags.split(), "--emulator", "warp", "--workers", "256", "--processes", "0"]
    assert main.run(["train", *words_given, "--log_level", "ERROR"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
