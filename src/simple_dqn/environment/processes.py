"""E games in a few processes, behind the interface of games in this one.

Processes and not threads, because ALE holds Python's lock while it emulates. Actions and steps pass through
memory that all processes see (`shared_steps`); a connection to each process says when to read it.

The system closes both ends of a connection when their process ends, however it ends. So a process
that waits notices at once that the other has ended, and no game process outlives its parent.
"""

import mmap
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.interface import FACTS, Environment
from simple_dqn.errors import SIGNALS, LostError, UserError
from simple_dqn.types import Actions, CheckpointState, Step, observation_dtype

# Opens the games of one process, at the top of a module: settings, a stream for each game, and `training`.
OpenGames: TypeAlias = Callable[[EnvironmentConfig, Sequence[np.random.Generator], bool], Environment]

# Not multiprocessing's own way to start a process, which would import the program's main module there,
# and PyTorch with it.
PROGRAM = """
import sys
sys.path[:] = sys.argv[2:]
from simple_dqn.environment.processes import UserError, main
try:
    main(int(sys.argv[1]))
except UserError as error:  # a game's `close` failed
    sys.stderr.write(f"{error}\\n")  # at once, as other processes write, too
    sys.exit(1)
"""
# The processes use all cores together, so a library needs one thread in each.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
SPIN_SECONDS = 300e-6  # seconds that a process waits for the next command before it sleeps
EXIT_TIMEOUT = 5.0  # seconds for a process to finish its recordings; more than enough
# The arrays of a `Step` in shared memory, beside the screens.
FIELDS: dict[str, type[np.generic]] = {
    "actions": np.int64, "rewards": np.float32, "terminals": np.bool_,
    "truncations": np.bool_, "resets": np.bool_, "starts": np.bool_,
}  # fmt: skip


class ProcessVector(Environment):
    """An environment of E games that are played at the same time, each always in the same process.

    Each process plays a block of neighboring games. After an error all processes are gone.
    """

    def __init__(
        self, open_games: OpenGames, config: EnvironmentConfig, streams: Sequence[np.random.Generator],
        training: bool,
    ) -> None:  # fmt: skip
        """Start `config.processes` processes, which call `open_games` with their `streams`.

        Raises:
            UserError: The games cannot be made, or no further process can be started.
            RuntimeError: A process failed.
        """
        self.games = len(streams)
        bounds = [i * self.games // config.processes for i in range(config.processes + 1)]
        self._processes: list[GameProcess] = []
        # Also called at the end of the program, if `close` was not.
        self._end = weakref.finalize(self, end, self._processes)
        memory = unnamed_file()
        try:
            for block in map(slice, bounds, bounds[1:]):
                process = GameProcess(block, memory)
                self._processes.append(process)
                settings = config.unseen() if block.start else config
                process.send((open_games, (settings, streams[block], training), block, self.games, memory))
            for name, fact in zip(FACTS, self._answers()[0], strict=True):
                setattr(self, name, fact)
            self._shared: Any = shared_steps(memory, self.games, self.screen_shape)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(memory)
        self.actions = len(self.action_names)

    def reset(self) -> Step:
        """Start every game anew; return the step with their first screens."""
        return self._play("reset")

    def step(self, actions: Actions) -> Step:
        """Take `actions` int64 [E] in all processes at the same time; see `Environment.step`.

        Raises:
            LostError: A process has ended.
            UserError: A process raised it.
            RuntimeError: A process raised another error.
        """
        self._shared["actions"] = actions
        return self._play("step")

    def _play(self, command: str) -> Step:
        self._ask(command)
        return Step(**{name: self._shared[name].copy() for name in ("screens", *FIELDS)})

    def get_state(self) -> CheckpointState:
        """Return the state of all games, the same as that of a `GameVector`."""
        states: list[CheckpointState] = self._ask("get_state")
        games = [game for state in states for game in state["games"].values()]
        ended = np.concatenate([state["ended"] for state in states])
        return {"name": self.name, "games": {str(i): game for i, game in enumerate(games)}, "ended": ended}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned, with any number of processes; see `Environment.set_state`."""
        self.check_state(state)
        for process in self._processes:
            block = process.block
            games = {str(i - block.start): state["games"][str(i)] for i in range(block.start, block.stop)}
            process.send(("set_state", {**state, "games": games, "ended": state["ended"][block]}))
        self._answers()

    def close(self) -> None:
        """End all processes, once they have finished recordings, and give the shared memory back."""
        self._end()
        self._shared = {}

    def __getstate__(self) -> None:  # of a copy, whose end would close the connections of this one
        raise UserError("games in other processes cannot be copied: make others, or give --processes 0")

    def _ask(self, command: str) -> list[Any]:
        """Let all processes carry out a command of `main`; return their answers."""
        for process in self._processes:
            process.send((command,))
        return self._answers()

    def _answers(self) -> list[Any]:
        """Wait for all processes, and return their answers; after an error end them all."""
        try:
            return [process.answer() for process in self._processes]
        except Exception:
            self.close()
            raise


def unnamed_file() -> int:
    """Return the descriptor of an empty file without a name, in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        return int(os.memfd_create("simple_dqn games"))
    with tempfile.TemporaryFile() as file:  # macOS
        return os.dup(file.fileno())


def shared_steps(descriptor: int, games: int, screen_shape: tuple[int, ...]) -> NDArray[Any]:
    """Map the memory of the open file `descriptor`, which may be closed then, as a `Step` of E `games`.

    The connections say when to read it. It has no name, so nothing is left behind however processes end.
    """
    kinds = np.dtype([("screens", observation_dtype(screen_shape), screen_shape), *FIELDS.items()])
    os.ftruncate(descriptor, games * kinds.itemsize)
    return np.ndarray(games, kinds, mmap.mmap(descriptor, games * kinds.itemsize))


class GameProcess:
    """A process that plays a block of neighboring games."""

    def __init__(self, block: slice, memory: int) -> None:
        """Start the process, which waits for its task, or raise UserError if the system allows no more."""
        self.block = block
        self.name = f"the process that plays games {block.start} to {block.stop - 1}"
        self.connection, theirs = Pipe()
        with theirs:
            # Blocked until `main` handles them: signals to all processes of a run are for the first alone.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", PROGRAM, str(theirs.fileno()), *sys.path],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), memory),
                    env={**os.environ, **ONE_THREAD},
                    process_group=0,  # Ctrl-C in the terminal is not for this process
                )
            except OSError as error:
                self.connection.close()
                raise UserError(f"{self.name} cannot start: {error.strerror}: lower --processes") from None
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def send(self, message: object) -> None:
        """Send the process its task or a command; `answer` must be called before the next."""
        with suppress(OSError):  # if the process is gone, `answer` will say so
            self.connection.send(message)

    def answer(self) -> Any:
        """Wait until the process has carried out its command; return the answer, see `ProcessVector.step`."""
        try:
            result = self.connection.recv()
        except (EOFError, OSError):  # the latter also of a connection that `close` has closed
            code = self.wait()
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise LostError(f"{self.name} {how}: start again") from None
        if isinstance(result, UserError):
            raise result
        if isinstance(result, RuntimeError):
            raise RuntimeError(f"{self.name} failed:\n{result}")
        return result

    def wait(self) -> int:
        """Wait for the end of the process, which was disconnected, and return its exit code."""
        try:
            return self._process.wait(EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def end(processes: Sequence[GameProcess]) -> None:
    """End processes, all at once."""
    for process in processes:
        process.connection.close()
    for process in processes:
        process.wait()


def main(descriptor: int) -> None:
    """Carry out the commands that arrive on the connection `descriptor`, until it is closed."""
    for number in SIGNALS:  # not SIG_IGN, which processes that a game starts would inherit
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    with suppress(EOFError, ConnectionError), Connection(descriptor) as connection:
        open_games, arguments, block, all_games, memory = connection.recv()
        games = _attempt(open_games, *arguments)
        if isinstance(games, Exception):
            connection.send(games)
            return
        shared = shared_steps(memory, all_games, games.screen_shape)[block]
        os.close(memory)

        def write(step: Step) -> None:
            for name in ("screens", *FIELDS):
                shared[name] = getattr(step, name)

        commands: dict[str, Callable[..., Any]] = {
            "reset": lambda: write(games.reset()), "step": lambda: write(games.step(shared["actions"])),
            "get_state": games.get_state, "set_state": games.set_state,
        }  # fmt: skip
        with games:
            connection.send([getattr(games, name) for name in FACTS])
            poll = select.poll()
            poll.register(connection, select.POLLIN)
            while True:
                # Wait a moment without sleeping, since waking up takes long; the core is offered to others.
                until = time.perf_counter() + SPIN_SECONDS
                while not poll.poll(0) and time.perf_counter() < until:
                    os.sched_yield()
                command, *values = connection.recv()
                connection.send(_attempt(commands[command], *values))


def _attempt(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of `work`, or the error that the other process is to raise."""
    try:
        return work(*arguments)
    except UserError as error:
        return error
    except Exception:
        return RuntimeError(traceback.format_exc())
