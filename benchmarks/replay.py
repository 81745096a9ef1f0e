"""Speed and memory use of the replay memory.

    ./bench.sh replay             all tables
    ./bench.sh replay add         time to add a step, with 1 game and with 16
    ./bench.sh replay sample      time to sample a minibatch, compared with a plain Python loop
    ./bench.sh replay compressed  time and memory for real screens, with and without LZ4 compression
    ./bench.sh replay training    steps/s of training, with and without compression, alternating

Screens are random noise except in the last two tables. Real screens come from a random player: --played
consecutive ones, repeated in order until the memory is full.
"""

import ctypes
import itertools
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import common
import numpy as np
import psutil
from common import machine, positive, print_table
from measurement import train
from numpy.typing import NDArray

from simple_dqn.command_line import Parser
from simple_dqn.config import EnvironmentConfig, MemoryConfig
from simple_dqn.environment import make
from simple_dqn.errors import UserError
from simple_dqn.random_streams import stream
from simple_dqn.replay import OTHER_BYTES, HostScreens, ReplayMemory
from simple_dqn.types import Mask, Step

SIZES = (10_000, 100_000)
BATCHES = (32, 128)
COMPRESSIONS = ("none", "lz4")
SCREEN_SHAPE = (84, 84)
HISTORY = 4
GAME_LENGTH = 500  # steps of noise; a life is lost half-way


def random_steps(games: int) -> list[Step]:
    """Return the steps of one episode of `games` parallel games whose screens are incompressible noise."""
    rng = np.random.default_rng(1)
    steps = []
    for t in range(GAME_LENGTH):
        start, over = np.full(games, t == 0), np.full(games, t == GAME_LENGTH - 1)
        steps.append(
            Step(
                screens=rng.integers(0, 256, (games, *SCREEN_SHAPE), np.uint8),
                actions=rng.integers(0, 6, games),
                rewards=rng.random(games, np.float32),
                terminals=over | (t == GAME_LENGTH // 2),
                truncations=np.zeros(games, np.bool_),
                resets=over,
                starts=start,
            )
        )
    return steps


def played_steps(game: str, count: int) -> list[Step]:
    """Return the first `count` steps of a random player of `game`."""
    rng = np.random.default_rng(1)
    with closing(
        make(EnvironmentConfig(game=game), [stream(0, "environment")], training=True)
    ) as environment:
        steps = [environment.reset()]
        while len(steps) < count:
            steps.append(environment.step(rng.integers(0, environment.actions, 1)))
    return steps


class LoopSampler:
    """Samples minibatches from a full memory of one game in a plain Python loop, for comparison."""

    def __init__(self, memory: ReplayMemory) -> None:
        assert isinstance(memory._screens, HostScreens)
        self.screens: NDArray[np.uint8] = memory._screens._screens[:, 0]  # a view: a copy may not fit
        self.starts: Mask = memory._ring.starts[:, 0]
        self.terminals: Mask = memory._ring.terminals[:, 0]
        self.rng = np.random.default_rng(2)

    def sample(self, batch_size: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        prestates = np.empty((batch_size, HISTORY, *SCREEN_SHAPE), np.uint8)
        poststates = np.empty_like(prestates)
        drawn = 0
        while drawn < batch_size:
            t = int(self.rng.integers(HISTORY, len(self.screens)))
            if self.starts[t - HISTORY + 1 : t + 1].any() or self.terminals[t - HISTORY : t].any():
                continue
            prestates[drawn] = self.screens[t - HISTORY : t]
            poststates[drawn] = self.screens[t - HISTORY + 1 : t + 1]
            drawn += 1
        return prestates, poststates


def full_memory(replay_size: int, steps: list[Step], **settings: Any) -> ReplayMemory:
    """Return a memory of `replay_size` transitions, filled with repetitions of `steps`."""
    config = MemoryConfig(replay_size=replay_size, history_length=HISTORY, **settings)
    games = len(steps[0].screens)
    memory = ReplayMemory(config, games, SCREEN_SHAPE, 0.99, np.random.default_rng(0))
    for step in itertools.islice(itertools.cycle(steps), replay_size // games):
        memory.add(step)
    return memory


def microseconds(action: Callable[[], object], times: int) -> float:
    """Return the median time in µs of `times` calls of `action`."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        action()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken) * 1e6


def each(steps: list[Step], action: Callable[[Step], None]) -> Callable[[], None]:
    """Return a function that calls `action` with the next of `steps`, in an endless cycle."""
    endless = itertools.cycle(steps)
    return lambda: action(next(endless))


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes."""
    return int(psutil.Process().memory_info().rss)


def add(_: Namespace) -> None:
    """Print the time to add a step."""
    rows = []
    for games in (1, 16):
        steps = random_steps(games)
        memory = full_memory(SIZES[0], steps)
        rows.append((games, f"{microseconds(each(steps, memory.add), 5000):.1f}"))
    print_table("Time to add a step (median)", ("games", "replay memory µs"), rows)


def sample_row(replay_size: int) -> tuple[str, ...]:
    """Return a row of figures for a full memory of `replay_size`."""
    resident = resident_bytes()
    memory = full_memory(replay_size, random_steps(1))
    resident = resident_bytes() - resident
    loop = LoopSampler(memory)
    times = [microseconds(partial(memory.sample, batch), 2000) for batch in BATCHES]
    slow = [microseconds(partial(loop.sample, batch), 500) for batch in BATCHES]
    figures = [f"{value:.0f}" for pair in zip(times, slow, strict=True) for value in pair]
    size = loop.screens.nbytes / replay_size + OTHER_BYTES
    return f"{replay_size:,}", *figures, f"{size:.0f}", f"{resident / 1e9:.2f}"


def sample(arguments: Namespace) -> None:
    """Print the time to sample a minibatch from memories of several sizes."""
    rows = []
    for replay_size in sorted({*(size for size in SIZES if size < arguments.largest), arguments.largest}):
        try:
            rows.append(sample_row(replay_size))
        except UserError as error:
            print(f"left out: {error}")
    timed = [name for batch in BATCHES for name in (f"sample {batch} µs", f"loop {batch} µs")]
    header = ("transitions", *timed, "bytes each", "resident GB")
    print_table("Time to sample a minibatch (median)", header, rows)


def compressed_row(steps: list[Step], compression: str, replay_size: int) -> tuple[str, ...]:
    """Return figures for a memory of `replay_size` that is filled with repetitions of `steps`."""
    ctypes.CDLL(None).malloc_trim(0)  # what an earlier memory freed would be reused, and not be counted
    resident = resident_bytes()
    memory = full_memory(replay_size, steps, replay_compression=compression)
    resident = resident_bytes() - resident
    stored = microseconds(each(steps, memory.add), 5000)
    samples = [f"{microseconds(partial(memory.sample, batch), 2000):.0f}" for batch in BATCHES]
    size = memory._screens.nbytes / replay_size + OTHER_BYTES
    return f"{stored:.1f}", *samples, f"{size:.0f}", f"{resident / 1e9:.2f}"


def compressed(arguments: Namespace) -> None:
    """Print the time and the memory that screens of real games take, with and without compression."""
    rows = []
    for game in arguments.games:
        steps = played_steps(game, arguments.played)
        for compression in COMPRESSIONS:
            try:
                rows.append((game, compression, *compressed_row(steps, compression, arguments.largest)))
            except UserError as error:
                print(f"left out: {error}")
    samples = [f"sample {batch} µs" for batch in BATCHES]
    header = ("game", "compression", "add µs", *samples, "bytes each", "resident GB")
    title = f"{arguments.largest:,} transitions from {arguments.played:,} real screens (median times)"
    print_table(title, header, rows)


def training(arguments: Namespace) -> None:
    """Print the steps/s of training at the default schedule, with and without compression."""
    rows = []
    for game in arguments.games:
        work = Namespace(game=game, seconds=arguments.seconds, flags={"datatype": arguments.datatype})
        rates = [
            [train(work, {"replay_compression": compression})["rate"] for compression in COMPRESSIONS]
            for _ in range(arguments.rounds)
        ]
        plain, lz4 = (statistics.median(column) for column in zip(*rates, strict=True))
        ratio = statistics.median(after / before for before, after in rates)
        rows.append((game, f"{plain:.0f}", f"{lz4:.0f}", f"{ratio:.3f}"))
    title = f"steps/s, {arguments.datatype}, medians of {arguments.rounds} rounds of {arguments.seconds:g} s"
    print_table(title, ("game", *COMPRESSIONS, "ratio"), rows)


TABLES: dict[str, Callable[[Namespace], None]] = {
    one.__name__: one for one in (add, sample, compressed, training)
}


def parser() -> Parser:
    """Return the parser of the command line."""
    result = common.parser("replay", __doc__)
    result.add_argument("table", nargs="?", choices=("all", *TABLES), default="all")
    flag, text = result.add_argument, "transitions in the largest memory (default: %(default)s)"
    flag("--largest", type=positive(int), default=1_000_000, help=text)
    flag, games = result.add_argument_group("compressed, training").add_argument, ["pong", "space_invaders"]
    flag("--games", type=common.game, nargs="+", default=games, help=f"(default: {' '.join(games)})")
    flag = result.add_argument_group("compressed").add_argument
    flag("--played", type=positive(int), default=50_000, help="screens of a game (default: %(default)s)")
    flag = result.add_argument_group("training").add_argument
    flag("--rounds", type=positive(int), default=3, help="measurements of each row (default: %(default)s)")
    flag("--seconds", type=positive(float), default=10.0, help="per measurement (default: %(default)g)")
    flag("--datatype", default="float32", help="of the network (default: %(default)s)")
    return result


def main(words: Sequence[str]) -> None:
    """Print the tables for the given command line.

    Raises:
        UserError: A flag is not valid.
        FailedError: A training failed.
    """
    arguments = Namespace(**parser().parse(words))
    print(machine(), flush=True)
    for name in TABLES if arguments.table == "all" else (arguments.table,):
        TABLES[name](arguments)


if __name__ == "__main__":
    sys.exit(common.console("replay", main))
