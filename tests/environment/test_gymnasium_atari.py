"""Gymnasium's Atari ids: the same game as `--environment ale`, by Gymnasium's own steps and by ours."""

from pathlib import Path
from typing import Any

import ale_py
import gymnasium
import numpy as np
import pytest
from ale_py import Action

from simple_dqn import main
from simple_dqn.environment.interface import NO_ACTION, SEEDS, draws_of
from simple_dqn.random_streams import stream
from tests.command_line import Capsys
from tests.environment.test_ale import assert_same, games, plain_emulator, play
from tests.watch.test_record import save

gymnasium.register_envs(ale_py)

IDS = {
    "ms_pacman": "ALE/MsPacman-v5", "pong": "PongNoFrameskip-v4", "space_invaders": "ALE/SpaceInvaders-v5",
    "backgammon": "ALE/Backgammon-v5",
}  # fmt: skip
NATIVE: dict[str, Any] = {"screen_width": 160, "screen_height": 210}


@pytest.mark.parametrize(("game", "settings"), [
    ("ms_pacman", {"random_starts": 5, "max_game_frames": 440}), ("pong", {"max_game_frames": 440}),
    ("backgammon", {"random_starts": 30, "frame_skip": 3}),  # no action of it is a no-op
    ("space_invaders", {"color_averaging": True, "minimal_action_set": False, "training": False}),
    ("space_invaders",
     {"frame_maximum": False, "frame_skip": 3, "random_starts": 0, "random_start_frames": 30}),
    ("space_invaders", {"repeat_action_probability": 0.5, "count": 3, "processes": 1}),
], ids=str)  # fmt: skip
def test_games_are_those_of_ale(game: str, settings: dict[str, Any]) -> None:
    settings = {**NATIVE, "max_game_frames": 900, **settings}
    played = play(games(environment="gym", game=IDS[game], **settings), 130)
    assert_same(played, play(games(game=game, **settings), 130))
    assert game == "backgammon" or any(step.rewards.any() or step.starts.any() for step in played[1:])


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


def test_no_action_presses_no_button() -> None:
    environment = games(game="backgammon", **NATIVE, random_starts=0, frame_maximum=False)
    ale = plain_emulator("backgammon")
    environment.reset()
    for _ in range(60):
        for _ in range(4):
            ale.act(Action.NOOP)
        step = environment.step(np.array([NO_ACTION]))
        assert np.array_equal(step.screens[0], ale.getScreenGrayscale())


def test_snapshots_of_before_are_tested_with_what_is_played_now(home: Path, capsys: Capsys) -> None:
    """They had the no-ops of Atari and averaged colors, for every game."""
    for game, said in (("CartPole-v1", "ε 0.05, 2 actions"), ("ALE/Pong-v5", "--random_starts 30")):
        path = save(
            home / f"{game.replace('/', '_')}_3.pkl", environment="gym", game=game,
            random_starts=30, color_averaging=True,
        )  # fmt: skip
        assert main.run(["test", str(path), "--test_steps", "40"]) == 0
        report = capsys.readouterr().out
        assert said in report
        assert ("--random_starts 30" in report) == ("Pong" in game)
