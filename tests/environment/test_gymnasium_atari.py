"""Gymnasium's Atari ids: the same game as `--environment ale`, by Gymnasium's own steps and by ours."""

import csv
from pathlib import Path
from typing import Any

import ale_py
import gymnasium
import numpy as np
import pytest
from ale_py import Action

from simple_dqn import main
from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import as_played
from simple_dqn.environment.interface import NO_ACTION, SEEDS, draws_of
from simple_dqn.random_streams import stream
from simple_dqn.snapshot import Snapshot
from tests.environment.playing import assert_same, games, plain_emulator, play

gymnasium.register_envs(ale_py)

IDS = {"ms_pacman": "ALE/MsPacman-v5", "pong": "PongNoFrameskip-v4", "space_invaders": "ALE/SpaceInvaders-v5"}
NATIVE: dict[str, Any] = {"screen_width": 160, "screen_height": 210}
TIMES = ("total_time", "epoch_time", "steps_per_second")


@pytest.mark.parametrize("game", IDS)
def test_games_are_those_of_ale(game: str) -> None:
    settings: dict[str, Any] = {**NATIVE, "max_game_frames": 440, "random_starts": 5}
    played = play(games(environment="gym", game=IDS[game], **settings), 150)
    assert_same(played, play(games(game=game, **settings), 150))
    assert sum(step.starts[0] for step in played) > 1


@pytest.mark.parametrize("game", IDS)
def test_games_are_those_of_gymnasiums_own_steps_of_one_frame(game: str) -> None:
    settings: dict[str, Any] = {**NATIVE, "max_game_frames": 0, "random_starts": 0}
    played = play(games(environment="gym", game=IDS[game], **settings), 150)
    env = gymnasium.make(
        IDS[game], frameskip=1, repeat_action_probability=0.0, obs_type="grayscale",
        max_num_frames_per_episode=0,
    )  # fmt: skip
    lives = 0
    for step in played:
        if step.starts[0]:
            observation, info = env.reset()
            frames, reward, over = [observation], 0.0, False
            lives = info["lives"]
        else:
            frames, reward, over = [], 0.0, False
            for _ in range(4):
                observation, points, over, cut_off, info = env.step(int(step.actions[0]))
                assert not cut_off
                frames.append(observation)
                reward += float(points)
                if over:
                    frames = [observation]
                    break
        assert np.array_equal(step.screens[0], np.max(frames[-2:], axis=0))
        assert (step.rewards[0], step.resets[0]) == (reward, over)
        assert step.terminals[0] == (over or info["lives"] < lives)
        lives = info["lives"]


@pytest.mark.parametrize("settings", [
    {"color_averaging": True, "minimal_action_set": False, "training": False},
    {"frame_maximum": False, "frame_skip": 3, "random_starts": 0, "random_start_frames": 30},
    {"repeat_action_probability": 0.5, "count": 3, "processes": 2},
])  # fmt: skip
def test_settings_do_what_they_do_with_ale(settings: dict[str, Any]) -> None:
    settings = {**NATIVE, "max_game_frames": 900, **settings}
    played = play(games(environment="gym", game="ALE/SpaceInvaders-v5", **settings), 250)
    assert_same(played, play(games(game="space_invaders", **settings), 250))
    assert any(step.rewards.any() for step in played)


def test_names_are_those_of_gymnasium() -> None:
    for minimal in (True, False):
        environment = games(environment="gym", game="ALE/Breakout-v5", minimal_action_set=minimal)
        env: Any = gymnasium.make("ALE/Breakout-v5", full_action_space=not minimal)
        assert environment.action_names == tuple(env.unwrapped.get_action_meanings())
        assert environment.name == "ALE_Breakout-v5"
        assert environment.rom_md5 == games(game="breakout").rom_md5
        assert environment.can_save


def test_an_id_with_settings_of_its_own_is_gymnasiums_game() -> None:
    entry: Any = gymnasium.registry["ALE/Breakout-v5"].entry_point
    gymnasium.register("test/Mode-v0", entry, kwargs={"game": "breakout", "mode": 4, "frameskip": 4})
    try:
        played = play(games(game="test/Mode-v0", environment="gym", frame_skip=1, **NATIVE), 20)
        env: Any = gymnasium.make("test/Mode-v0", obs_type="grayscale")
    finally:
        del gymnasium.registry["test/Mode-v0"]
    seed = draws_of(stream(0, "environment")).integers(SEEDS)
    observation, _ = env.reset(seed=seed)
    for step in played:
        if not step.starts[0]:
            observation = env.step(int(step.actions[0]))[0]
        assert np.abs(step.screens[0].astype(int) - observation).max() <= 1


def test_no_ops_are_ales_even_where_no_action_is_one() -> None:
    """The minimal action set of Backgammon begins with FIRE."""
    game, rom = "ALE/Backgammon-v5", "backgammon"
    settings: dict[str, Any] = {**NATIVE, "random_starts": 30, "random_start_frames": 0, "frame_skip": 3}
    config = EnvironmentConfig(game=game, environment="gym", **settings)
    assert as_played(config) == config
    played = play(games(environment="gym", game=game, **settings), 40)
    assert_same(played, play(games(game=rom, **settings), 40))
    random = draws_of(stream(0, "environment"))
    ale = plain_emulator(rom)
    screens = [ale.getScreenGrayscale()]
    for _ in range(3 * random.integers(31)):
        ale.act(Action.NOOP)
        screens.append(ale.getScreenGrayscale())
    assert len(screens) > 1
    assert np.array_equal(played[0].screens[0], np.max(screens[-2:], axis=0))


def test_no_action_presses_no_button() -> None:
    environment = games(game="backgammon", **NATIVE, random_starts=0, frame_maximum=False)
    ale = plain_emulator("backgammon")
    environment.reset()
    for _ in range(60):
        for _ in range(4):
            ale.act(Action.NOOP)
        step = environment.step(np.array([NO_ACTION]))
        assert np.array_equal(step.screens[0], ale.getScreenGrayscale())


SHORT = [
    "--preset", "simple_dqn", "--random_steps", "300", "--train_steps", "160", "--test_steps", "80",
    "--epochs", "2", "--batch_size", "8", "--max_game_frames", "100", "--random_seed", "4", "--network",
    "small", "--screen_width", "40", "--screen_height", "40", "--workers", "2", "--replay_size", "1000",
    "--backend", "cpu", "--threads", "1",
]  # fmt: skip


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return [{k: v for k, v in row.items() if k not in TIMES} for row in csv.DictReader(file)]


@pytest.mark.nightly
def test_the_same_seed_gives_the_same_csv_and_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    assert main.run(["train", "ALE/Breakout-v5", "--environment", "gym", *SHORT]) == 0
    assert main.run(["train", "breakout", *SHORT]) == 0
    names = ("ALE_Breakout-v5", "breakout")
    by_gymnasium, by_ale = (rows(tmp_path / "results" / f"{name}.csv") for name in names)
    assert by_gymnasium == by_ale
    assert len(by_ale) == 5
    assert any(int(row["nr_games"]) > 0 for row in by_ale)
    one, other = (Snapshot.load(tmp_path / "snapshots" / f"{name}_2.pkl").weights for name in names)
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_snapshots_of_before_are_tested_with_what_is_played_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    for game, starts, said in (
        ("CartPole-v1", 0, "ε 0.05, 2 actions"),
        ("ALE/Pong-v5", 30, "--random_starts 30"),
    ):
        command = ["train", game, "--environment", "gym", *SHORT, "--epochs", "1", "--test_steps", "0"]
        assert main.run(command) == 0
        path = tmp_path / "snapshots" / f"{game.replace('/', '_')}_1.pkl"
        snapshot = Snapshot.load(path)
        assert snapshot.flags["random_starts"] == starts
        old = {name: value for name, value in snapshot.flags.items() if name != "random_start_frames"}
        old |= {"random_starts": 30, "color_averaging": True}
        Snapshot(snapshot.game, 1, snapshot.actions, 160, old, snapshot.weights).save(path)
        capsys.readouterr()
        assert main.run(["test", str(path), "--test_steps", "40"]) == 0
        report = capsys.readouterr().out
        assert said in report
        assert ("--random_starts 30" in report) == bool(starts)
