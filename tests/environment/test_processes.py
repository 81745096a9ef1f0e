"""Games in other processes: the same as in this one, bit for bit; and nothing is left however they end."""

import gc
import os
import signal
import sys
import time
import wave
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import psutil
import pytest

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.interface import FACTS, Environment, Game, GameVector, Screen
from simple_dqn.environment.processes import ProcessVector
from simple_dqn.errors import LostError, UserError
from simple_dqn.types import Actions, CheckpointState
from tests.command_line import Patch, python, start_python
from tests.environment import test_ale
from tests.environment.test_ale import assert_same, play

CATCH: dict[str, Any] = {"environment": "catch"}
ATARI: dict[str, Any] = {
    "game": "breakout", "max_game_frames": 120, "random_starts": 5, "screen_width": 32, "screen_height": 32,
}  # fmt: skip


def games(processes: int, *, count: int = 5, **settings: Any) -> Environment:
    return test_ale.games(count, processes=processes, **{**ATARI, **settings})


@pytest.mark.parametrize(("processes", "training", "settings"), [
    (2, True, CATCH), (3, True, {"repeat_action_probability": 0.25, "max_game_frames": 240}), (1, False, {}),
])  # fmt: skip
def test_equal_to_games_in_this_process(processes: int, training: bool, settings: dict[str, Any]) -> None:
    alone = games(0, training=training, **settings)
    with games(processes, training=training, **settings) as shared:
        for attribute in ("games", "actions", *FACTS):
            assert getattr(shared, attribute) == getattr(alone, attribute)
        steps = play(alone, 150)
        assert_same(play(shared, 150), steps)  # The arrays of a step are the caller's.
        assert sum(step.starts.any() for step in steps) > 2
        ends, terminals = (
            sum(getattr(step, name).sum() for step in steps) for name in ("resets", "terminals")
        )
        assert terminals > ends or not training or settings == CATCH  # a lost life
        # A new start in the middle: the random streams stand at the same place.
        assert_same([shared.reset()], [alone.reset()])
    alone.close()


def test_a_system_without_files_in_memory_plays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    test_equal_to_games_in_this_process(2, True, CATCH)


def test_a_state_of_another_game_or_number_of_games_is_refused() -> None:
    with games(2, **CATCH) as environment:
        environment.reset()
        state = environment.get_state()
        with pytest.raises(UserError, match="of pong, not of catch"):
            environment.set_state({**state, "name": "pong"})
        with pytest.raises(UserError, match=r"holds 1 game\(s\).*--workers 1"):
            environment.set_state({**state, "games": {"0": state["games"]["0"]}})
        environment.step(np.zeros(5, np.int64))  # nothing was harmed


def test_one_game_alone_is_recorded(tmp_path: Path) -> None:
    sounds = []
    for processes in (0, 2):
        file, folder = tmp_path / f"{processes}.wav", tmp_path / str(processes)
        environment = games(
            processes, count=3, record_sound_filename=str(file), record_screen_path=str(folder)
        )
        play(environment, 40)
        environment.close()
        with wave.open(str(file)) as sound:
            sounds.append(sound.readframes(sound.getnframes()))
        assert any(folder.iterdir())
    assert sounds[0] == sounds[1]
    assert len(set(sounds[0])) > 1, "all is silent"


FAULTY = 4
PROGRAM = "from tests.environment.test_processes import opened\nenvironment = opened()\nenvironment.reset()\n"
WELL, RAISE, REFUSE, EXIT, DAWDLE = range(5)  # actions


class FaultyGame(Game):
    name = "faulty"
    action_names = ("NOOP", "UP", "DOWN", "LEFT", "RIGHT")

    def act(self, action: int, screen: Screen) -> tuple[float, bool, bool]:
        if action == RAISE:
            raise ZeroDivisionError("the game divided by zero")
        if action == REFUSE:
            raise UserError("the disk is full: free some space")
        if action == EXIT:
            os._exit(7)
        if action == DAWDLE:
            time.sleep(60)
        screen[:] = 1
        return 0.0, False, False

    def start(self, screen: Screen) -> None:
        screen[:] = 1

    def get_state(self) -> CheckpointState:
        return {}


def open_games(config: EnvironmentConfig, streams: Sequence[np.random.Generator], training: bool) -> Any:
    return GameVector(lambda config, stream, *_: FaultyGame(config, stream), config, streams, training)


def open_none(*_: object) -> Any:
    raise ZeroDivisionError("no game was made")


def opened(open_them: Any = open_games) -> ProcessVector:
    streams = [np.random.default_rng(i) for i in range(FAULTY)]
    return ProcessVector(open_them, EnvironmentConfig(processes=2), streams, True)


@contextmanager
def faulty_games() -> Iterator[ProcessVector]:
    before = open_files()
    environment = opened()
    with environment:
        environment.reset()
        yield environment
    assert_nothing_left(before)
    environment.close()  # once more is no harm


def open_files() -> set[str]:
    return {f"{entry}: {entry.readlink()}" for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()}


def assert_nothing_left(before: set[str]) -> None:
    gc.collect()
    assert psutil.Process().children() == []
    assert len(open_files()) == len(before)
    assert "simple_dqn games" not in Path("/proc/self/maps").read_text()


def actions(action: int, *, of: int) -> Actions:
    chosen = np.full(FAULTY, WELL)
    chosen[of] = action
    return chosen


@pytest.mark.parametrize(("fault", "game", "error", "message"), [
    (RAISE, 0, RuntimeError, "(?s)games 0 to 1 failed.*line.*ZeroDivisionError: the game divided by zero"),
    (REFUSE, 3, UserError, "^the disk is full: free some space$"),
    (EXIT, 3, LostError, "games 2 to 3 ended with exit code 7"),
    (DAWDLE, 3, LostError, "games 2 to 3 was ended by signal 9"),
])  # fmt: skip
def test_a_fault_in_a_step(fault: int, game: int, error: type[Exception], message: str) -> None:
    with faulty_games() as environment:
        assert "simple_dqn games" in Path("/proc/self/maps").read_text()
        environment.step(actions(WELL, of=0))
        if fault == DAWDLE:
            Timer(0.2, psutil.Process().children()[1].kill).start()
        with pytest.raises(error, match=message):
            environment.step(actions(fault, of=game))
        assert psutil.Process().children() == []  # the others have ended, too
        for call in (environment.reset, lambda: environment.step(actions(WELL, of=0))):
            with pytest.raises(LostError, match=r"games 0 to 1 (ended with|was ended by) .*: start again"):
                call()


def test_a_fault_while_games_are_made(monkeypatch: Patch) -> None:
    before = open_files()
    with pytest.raises(RuntimeError, match=r"(?s)games 0 to 1 failed.*open_none.*no game was made"):
        opened(open_none)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(UserError, match=r"games 0 to 1 cannot start: No such file.*--processes"):
        opened()
    assert_nothing_left(before)


def test_a_signal_to_the_group_is_ignored_and_a_killed_process_is_noticed() -> None:
    """It may arrive at any moment, also before the process has started Python."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with faulty_games() as environment:
        children = psutil.Process().children()
        assert all(os.getpgid(child.pid) != os.getpgid(0) for child in children)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            for child in children:
                child.send_signal(number)
            environment.step(actions(WELL, of=0))
        assert psutil.Process().children() == children
        children[0].kill()
        os.waitid(os.P_PID, children[0].pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(LostError, match="games 0 to 1 was ended by signal 9"):
            environment.get_state()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_they_end_with_the_one_that_started_them_without_a_word() -> None:
    wait = "print('ready', flush=True)\nimport time; time.sleep(600)"
    with start_python("-c", PROGRAM + wait) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "ready\n"
        children = psutil.Process(parent.pid).children()
        assert len(children) == 2
        parent.kill()
    assert not psutil.wait_procs(children, timeout=20)[1]
    ended = python("-W", "error", "-c", PROGRAM)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
