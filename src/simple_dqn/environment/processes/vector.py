"""E games in a few processes, behind the interface of games in this one."""

import os
import weakref
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.interface import Environment, check_games
from simple_dqn.environment.processes.process import GameProcess, SharedSteps, Task
from simple_dqn.environment.vector import OpenGame
from simple_dqn.own_code import OwnCode
from simple_dqn.types import Actions, CheckpointState, Step


class ProcessVector(Environment):
    """An environment of E games that are played at the same time, each always in the same process.

    Processes and not threads, because ALE holds Python's lock while it emulates. Each plays a
    block of neighbouring games. Actions and steps pass through shared memory; a connection to each
    process says when to read it. After an error all processes are gone.
    """

    def __init__(
        self,
        open_game: OpenGame,
        config: EnvironmentConfig,
        streams: Sequence[np.random.Generator],
        training: bool,
        code: OwnCode | None = None,
    ) -> None:
        """Start `config.processes` processes, which make a game for each of `streams` with `open_game`.

        They run the `code` of the user's first.

        Raises:
            UserError: The games cannot be made, or no further process can be started.
            RuntimeError: A process failed.
        """
        self.games = len(streams)
        self.screen_shape = (config.screen_height, config.screen_width)
        bounds = [i * self.games // config.processes for i in range(config.processes + 1)]
        self._blocks = [slice(start, stop) for start, stop in pairwise(bounds)]
        self._processes: list[GameProcess] = []
        memory = os.memfd_create("simple_dqn games")
        self._shared = SharedSteps(memory, self.games, self.screen_shape)
        # Also called at the end of the program, if `close` was not.
        self._end = weakref.finalize(self, end, self._processes, self._shared)
        try:
            for block in self._blocks:
                of_block = config.unseen() if block.start else config
                task = Task(open_game, of_block, streams[block], training, block, self.games, memory, code)
                self._processes.append(GameProcess(task))
            about = self._answers()[0]
        except BaseException:
            self.close()
            raise
        finally:
            os.close(memory)
        self.action_names, self.name, self.rom_md5, self.can_save = about
        self.actions = len(self.action_names)

    def reset(self) -> Step:
        """Start every game anew; return the step with their first screens."""
        self._ask("reset")
        self._answers()
        return self._shared.read()

    def step(self, actions: Actions) -> Step:
        """Take `actions` int64 [E] in all processes at the same time; see `Environment.step`.

        Raises:
            LostError: A process has ended.
            UserError: A process raised it.
            RuntimeError: A process raised another error.
        """
        self._shared.arrays["actions"][:] = actions
        self._ask("step")
        self._answers()
        return self._shared.read()

    def get_state(self) -> CheckpointState:
        """Return the state of all games, the same as that of a `GameVector`."""
        self._ask("get_state")
        states: list[CheckpointState] = self._answers()
        games = [game for state in states for game in state["games"].values()]
        return {
            "name": self.name,
            "games": {str(i): game for i, game in enumerate(games)},
            "ended": np.concatenate([state["ended"] for state in states]),
        }

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned, with any number of processes.

        Raises:
            UserError: The state is of another game, or of another number of games.
            RuntimeError: A process failed.
        """
        check_games(state, self)
        for process, block in zip(self._processes, self._blocks, strict=True):
            games = {str(i - block.start): state["games"][str(i)] for i in range(block.start, block.stop)}
            process.ask("set_state", {**state, "games": games, "ended": state["ended"][block]})
        self._answers()

    def close(self) -> None:
        """End all processes, once they have finished recordings, and give the shared memory back."""
        self._end()

    def _ask(self, command: str) -> None:
        for process in self._processes:
            process.ask(command)

    def _answers(self) -> list[Any]:
        try:
            return [process.answer() for process in self._processes]
        except Exception:
            self.close()
            raise


def end(processes: Sequence[GameProcess], shared: SharedSteps) -> None:
    """End `processes`, all at once, and give the shared memory back."""
    for process in processes:
        process.disconnect()
    for process in processes:
        process.wait()
    shared.arrays.clear()
