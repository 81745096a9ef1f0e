"""A process that plays some of the games: `GameProcess` sends it commands, and `main` answers there.

Actions and steps pass through `SharedSteps`, memory that all processes see.

The system closes both ends of a connection when their process ends, however it ends. So a process
that waits notices at once that the other has ended, and no game process outlives its parent.
"""

import mmap
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.interface import Environment
from simple_dqn.environment.vector import OpenGame, open_games
from simple_dqn.errors import LostError, UserError
from simple_dqn.interrupt import SIGNALS
from simple_dqn.own_code import OwnCode
from simple_dqn.types import CheckpointState, Step

# Not multiprocessing's own way to start a process, which would import the program's main module there,
# and PyTorch with it.
PROGRAM = """
import sys
sys.path[:] = sys.argv[2:]
from simple_dqn.environment.processes.process import main
main(int(sys.argv[1]))
"""
# The processes use all cores together, so a library needs one thread in each.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
SPIN_SECONDS = 300e-6  # seconds that a process waits for the next command before it sleeps
EXIT_TIMEOUT = 5.0  # seconds for a process to finish its recordings; more than enough
# The arrays of a `Step` in the order in which they lie in memory, the widest type first.
TYPES: dict[str, type[np.generic]] = {
    "actions": np.int64,
    "rewards": np.float32,
    "terminals": np.bool_,
    "truncations": np.bool_,
    "resets": np.bool_,
    "starts": np.bool_,
    "screens": np.uint8,
}


class Task(NamedTuple):
    """The games that a process plays."""

    open_game: OpenGame
    config: EnvironmentConfig
    streams: Sequence[np.random.Generator]  # of this process' games
    training: bool
    games: slice  # where this process' games stand among all
    all_games: int
    memory: int  # descriptor of the memory that is shared
    code: OwnCode | None  # of the user's, to run first

    def open(self) -> Environment:
        """Open the games."""
        if self.code:
            self.code.install()
        return open_games(self.open_game, self.config, self.streams, self.training)


def title(task: Task) -> str:
    """Return the name of the process in messages; games are counted from 0."""
    return f"the process that plays games {task.games.start} to {task.games.stop - 1}"


class SharedSteps:
    """Memory for a step, which several processes share; the connections say when to read it.

    The memory has no name, so nothing is left behind however its processes end.
    """

    def __init__(self, descriptor: int, games: int, screen_shape: tuple[int, int]) -> None:
        """Map the memory of the open file `descriptor`, which may be closed then, as a step of E `games`."""
        shapes = {name: (games, *screen_shape) if name == "screens" else (games,) for name in TYPES}
        sizes = {name: int(np.prod(shapes[name])) * np.dtype(kind).itemsize for name, kind in TYPES.items()}
        os.ftruncate(descriptor, sum(sizes.values()))
        memory = mmap.mmap(descriptor, sum(sizes.values()))
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        offset = 0
        for name, kind in TYPES.items():
            self.arrays[name] = np.ndarray(shapes[name], kind, memory, offset)
            offset += sizes[name]

    def write(self, games: slice, step: Step) -> None:
        """Write the step of some of the games."""
        for name, array in self.arrays.items():
            array[games] = getattr(step, name)

    def read(self) -> Step:
        """Return a copy of the step of all games."""
        return Step(**{name: array.copy() for name, array in self.arrays.items()})


class GameProcess:
    """A process that plays games, seen from the process that started it."""

    def __init__(self, task: Task) -> None:
        """Start a process; its first answer is the action names, name, ROM's MD5 and `can_save` of its games.

        Raises:
            UserError: The system allows no further process.
        """
        self._title = title(task)
        self._connection, theirs = Pipe()
        with theirs:
            # Blocked until `main` handles them: signals to all processes of a run are for the first alone.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", PROGRAM, str(theirs.fileno()), *sys.path],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), task.memory),
                    env={**os.environ, **ONE_THREAD},
                    process_group=0,  # Ctrl-C in the terminal is not for this process
                )
            except OSError as error:
                raise UserError(
                    f"{self._title} cannot be started: {error.strerror}; lower --processes"
                ) from None
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._send(task)

    def ask(self, command: str, *arguments: CheckpointState) -> None:
        """Send the process a command of `main`; `answer` must be called before the next."""
        self._send((command, arguments))

    def _send(self, message: object) -> None:
        with suppress(ConnectionError):  # if the process is gone, `answer` will say so
            self._connection.send(message)

    def answer(self) -> Any:
        """Wait until the process has carried out the command, and return its answer.

        Raises:
            LostError: The process has ended.
            UserError: The process raised it.
            RuntimeError: The process raised another error.
        """
        try:
            answer = self._connection.recv()
        except (EOFError, ConnectionError):
            self.wait()
            code = self._process.returncode
            end = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise LostError(f"{self._title} {end}: start again; ./resume.sh continues a training") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def disconnect(self) -> None:
        """Tell the process to close its games and to end."""
        self._connection.close()

    def wait(self) -> None:
        """Wait for the end of a process that was disconnected."""
        try:
            self._process.wait(EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main(descriptor: int) -> None:
    """Carry out the commands that arrive on the connection `descriptor`, until it is closed."""
    for number in SIGNALS:  # not SIG_IGN, which processes that a game starts would inherit
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    with suppress(EOFError, ConnectionError), Connection(descriptor) as connection:
        task: Task = connection.recv()
        games = _attempt(task, task.open)
        if isinstance(games, Exception):
            connection.send(games)
            return
        with closing(games):
            shared = SharedSteps(task.memory, task.all_games, games.screen_shape)
            os.close(task.memory)
            commands: dict[str, Callable[..., Any]] = {
                "reset": lambda: shared.write(task.games, games.reset()),
                "step": lambda: shared.write(task.games, games.step(shared.arrays["actions"][task.games])),
                "get_state": games.get_state,
                "set_state": games.set_state,
            }
            connection.send((games.action_names, games.name, games.rom_md5, games.can_save))
            poll = select.poll()
            poll.register(connection, select.POLLIN)
            while True:
                _spin(poll)
                command, arguments = connection.recv()
                connection.send(_attempt(task, commands[command], *arguments))


def _spin(poll: select.poll) -> None:
    """Wait a moment for a command without sleeping, since waking up takes long.

    The core is offered to other threads meanwhile.
    """
    end = time.perf_counter() + SPIN_SECONDS
    while not poll.poll(0) and time.perf_counter() < end:
        os.sched_yield()


def _attempt(task: Task, work: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of `work`, or the error that the other process is to raise."""
    try:
        return work(*arguments)
    except UserError as error:
        return error
    except Exception:
        return RuntimeError(f"{title(task)} failed:\n{traceback.format_exc()}")
