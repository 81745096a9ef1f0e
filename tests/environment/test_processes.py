"""Games in other processes: the same as in this one, bit for bit."""

import wave
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from simple_dqn.environment import Environment
from simple_dqn.errors import UserError
from simple_dqn.types import Step
from tests.environment import playing
from tests.environment.playing import assert_same

GAMES = 5
CATCH: dict[str, Any] = {"environment": "catch"}
ATARI: dict[str, Any] = {
    "game": "breakout", "max_game_frames": 120, "random_starts": 5, "screen_width": 32, "screen_height": 32,
}  # fmt: skip


def games(processes: int, *, count: int = GAMES, **settings: Any) -> Environment:
    return playing.games(count, processes=processes, **{**ATARI, **settings})


def play(environment: Environment, steps: int) -> Iterator[Step]:
    actions = np.random.default_rng(3).integers(environment.actions, size=(steps, environment.games))
    return (environment.step(row) for row in actions)


@pytest.mark.parametrize(("processes", "training", "settings"), [
    (3, True, CATCH), (2, True, {"repeat_action_probability": 0.25, "max_game_frames": 240}), (1, False, {}),
])  # fmt: skip
def test_equal_to_games_in_this_process(processes: int, training: bool, settings: dict[str, Any]) -> None:
    alone = games(0, training=training, **settings)
    with closing(games(processes, training=training, **settings)) as shared:
        for attribute in ("games", "actions", "screen_shape", "name", "rom_md5", "can_save"):
            assert getattr(shared, attribute) == getattr(alone, attribute)
        assert_same([shared.reset()], [alone.reset()])
        steps = list(play(alone, 150))
        assert_same(list(play(shared, 150)), steps)  # The arrays of a step are the caller's.
        assert sum(step.starts.any() for step in steps) > 1
        ends, terminals = (
            sum(getattr(step, name).sum() for step in steps) for name in ("resets", "terminals")
        )
        assert terminals > ends or not training or settings == CATCH  # a lost life
        # A new start in the middle: the random streams stand at the same place.
        assert_same([shared.reset()], [alone.reset()])
    alone.close()


def test_a_state_of_another_game_or_number_of_games_is_refused() -> None:
    with closing(games(2, **CATCH)) as environment:
        environment.reset()
        state = environment.get_state()
        with pytest.raises(UserError, match="of pong, not of catch"):
            environment.set_state({**state, "name": "pong"})
        with pytest.raises(UserError, match=r"holds 1 game\(s\).*--workers 1"):
            environment.set_state({**state, "games": {"0": state["games"]["0"]}})
        next(play(environment, 1))  # nothing was harmed


def test_one_game_alone_is_recorded(tmp_path: Path) -> None:
    sounds = []
    for processes in (0, 2):
        file, folder = tmp_path / f"{processes}.wav", tmp_path / str(processes)
        environment = games(
            processes, count=3, record_sound_filename=str(file), record_screen_path=str(folder)
        )
        environment.reset()
        list(play(environment, 5))
        environment.close()
        with wave.open(str(file)) as sound:
            sounds.append(sound.readframes(sound.getnframes()))
        assert any(folder.iterdir())
    assert sounds[0] == sounds[1] != b""


def test_more_processes_than_games_are_refused() -> None:
    with pytest.raises(UserError, match=r"--processes 6 is more than the 5 game\(s\)"):
        games(6, **CATCH)


@pytest.mark.parametrize("settings", [{"game": "pongg"}, {"environment": "gym", "game": "NoSuchGame-v1"}])
def test_a_game_that_cannot_be_made_says_so_as_in_one_process(settings: dict[str, Any]) -> None:
    with pytest.raises(UserError) as alone:
        games(0, **settings)
    with pytest.raises(UserError) as shared:
        games(2, **settings)
    assert str(shared.value) == str(alone.value)
    assert psutil.Process().children() == []
