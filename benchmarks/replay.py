"""How long the replay memory takes to keep a step and to draw a minibatch, and what it weighs.

    ./bench.sh replay             all of these
    ./bench.sh replay keeping     a step of noise, of one game and of 16
    ./bench.sh replay drawing     a minibatch, beside the sampler that one writes first: a loop over it
    ./bench.sh replay choosing    who is drawn, and how much of it: by priority, and of several steps
    ./bench.sh replay compressed  real screens, plain and by --replay_compression lz4
    ./bench.sh replay training    steps/s of whole trainings, plain and compressed in turns

Real screens are those of a random player, --played of them in a row; a larger memory is filled with
them over and over, in their order.
"""

import itertools
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import command
import numpy as np
import psutil
from command import positive
from experience import HISTORY, SCREEN_SHAPE, LoopSampler, played_steps, random_steps
from fresh import train
from table import machine, print_table

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.flags import Parser
from simple_dqn.player import StateBuffer
from simple_dqn.replay_memory import ReplayMemory
from simple_dqn.types import Step

SIZES = (10_000, 100_000)
BATCHES = (32, 128)
COMPRESSIONS = ("none", "lz4")


WAYS: list[dict[str, Any]] = [{}, {"n_step": 3}, {"prioritized": True}, {"prioritized": True, "n_step": 3}]


def new_memory(replay_size: int, games: int, **settings: Any) -> ReplayMemory:
    config = MemoryConfig(replay_size=replay_size, history_length=HISTORY, **settings)
    return ReplayMemory(config, games, SCREEN_SHAPE, 0.99, np.random.default_rng(0))


def fill(memory: ReplayMemory, steps: list[Step], replay_size: int) -> None:
    rows = replay_size // len(steps[0].screens)
    for t in range(rows):
        memory.add(steps[t % len(steps)])


def microseconds(action: Callable[[], object], times: int) -> float:
    """Return the median time of one `action` in µs, over `times`."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        action()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken) * 1e6


def each(steps: list[Step], action: Callable[[Step], None]) -> Callable[[], None]:
    """Return a function that does `action` to the next of `steps`, round and round."""
    endless = itertools.cycle(steps)
    return lambda: action(next(endless))


def resident_bytes() -> int:
    """Return the bytes of memory that this process really has."""
    return int(psutil.Process().memory_info().rss)


def keeping(_: Namespace) -> None:
    """Print how long a step of noise takes to be kept."""
    rows = []
    for games in (1, 16):
        steps = random_steps(games)
        memory = new_memory(SIZES[0], games)
        fill(memory, steps, SIZES[0])
        states = StateBuffer(games, HISTORY, SCREEN_SHAPE)
        add = microseconds(each(steps, memory.add), 5000)
        update = microseconds(each(steps, states.update), 5000)
        rows.append((games, f"{add:.1f}", f"{update:.1f}"))
    print_table("Keeping a step (median)", ("games", "memory add µs", "state update µs"), rows)


def drawing_row(replay_size: int) -> tuple[str, ...]:
    """Return a row of figures for a memory of `replay_size`, which is really filled."""
    resident = resident_bytes()
    memory = new_memory(replay_size, games=1)
    fill(memory, random_steps(1), replay_size)
    resident = resident_bytes() - resident
    loop = LoopSampler(memory)
    times = [microseconds(partial(memory.sample, batch), 2000) for batch in BATCHES]
    slow = [microseconds(partial(loop.sample, batch), 500) for batch in BATCHES]
    figures = [f"{value:.0f}" for pair in zip(times, slow, strict=True) for value in pair]
    return f"{replay_size:,}", *figures, f"{memory.nbytes / replay_size:.0f}", f"{resident / 1e9:.2f}"


def drawing(arguments: Namespace) -> None:
    """Print how long a minibatch takes to be drawn, as the memory grows."""
    rows = []
    for replay_size in sorted({*(size for size in SIZES if size < arguments.largest), arguments.largest}):
        try:
            rows.append(drawing_row(replay_size))
        except UserError as error:
            print(f"left out: {error}")
    timed = [name for batch in BATCHES for name in (f"sample {batch} µs", f"loop {batch} µs")]
    header = ("experiences", *timed, "bytes each", "resident GB")
    print_table("Drawing a minibatch (median)", header, rows)


def choosing(_: Namespace) -> None:
    """Print what priorities and several steps cost."""
    rows = []
    for settings in WAYS:
        steps, memory = random_steps(1), new_memory(SIZES[-1], 1, **settings)
        fill(memory, steps, SIZES[-1])
        add = microseconds(each(steps, memory.add), 5000)
        samples = [f"{microseconds(partial(memory.sample, batch), 2000):.0f}" for batch in BATCHES]
        batch = memory.sample(BATCHES[0])
        errors = np.random.default_rng(3).random(BATCHES[0], np.float32)
        update = microseconds(partial(memory.update_priorities, batch.numbers, errors), 2000)
        words = " ".join(f"--{name} {str(value).lower()}" for name, value in settings.items())
        rows.append((words or "neither", f"{add:.1f}", *samples, f"{update:.1f}"))
    samples = [f"sample {batch} µs" for batch in BATCHES]
    header = ("flags", "add µs", *samples, f"update {BATCHES[0]} µs")
    print_table(f"Of {SIZES[-1]:,} experiences (median)", header, rows)


def compressed_row(steps: list[Step], compression: str, replay_size: int) -> tuple[str, ...]:
    """Return figures of a memory of `replay_size` that `steps` fill, again and again."""
    resident = resident_bytes()
    memory = new_memory(replay_size, 1, replay_compression=compression)
    fill(memory, steps, replay_size)
    resident = resident_bytes() - resident
    add = microseconds(each(steps, memory.add), 5000)
    samples = [f"{microseconds(partial(memory.sample, batch), 2000):.0f}" for batch in BATCHES]
    return f"{add:.1f}", *samples, f"{memory.nbytes / replay_size:.0f}", f"{resident / 1e9:.2f}"


def compressed(arguments: Namespace) -> None:
    """Print what the screens of real games weigh and cost, plain and compressed."""
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
    title = f"{arguments.largest:,} experiences of {arguments.played:,} real screens (median times)"
    print_table(title, header, rows)


def training(arguments: Namespace) -> None:
    """Print steps/s of trainings at the default schedule, plain and compressed in turns."""
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
    title = (
        f"steps/s, {arguments.datatype}, {arguments.rounds} rounds of {arguments.seconds:g} s each (medians)"
    )
    print_table(title, ("game", *COMPRESSIONS, "ratio"), rows)


TABLES: dict[str, Callable[[Namespace], None]] = {
    "keeping": keeping,
    "drawing": drawing,
    "choosing": choosing,
    "compressed": compressed,
    "training": training,
}


def parser() -> Parser:
    """Return the parser of the command line."""
    result = command.parser("replay", __doc__)
    add = result.add_argument
    add("table", nargs="?", choices=("all", *TABLES), default="all")
    add(
        "--largest",
        type=positive(int),
        default=1_000_000,
        help="experiences in the largest memory (default: %(default)s)",
    )
    group = result.add_argument_group("compressed, training")
    group.add_argument(
        "--games",
        type=command.game,
        nargs="+",
        default=["pong", "space_invaders"],
        help="(default: these two)",
    )
    add = result.add_argument_group("compressed").add_argument
    add(
        "--played",
        type=positive(int),
        default=50_000,
        help="real screens of each game (default: %(default)s)",
    )
    add = result.add_argument_group("training").add_argument
    add("--rounds", type=positive(int), default=3, help="how often each is measured (default: %(default)s)")
    add("--seconds", type=positive(float), default=10.0, help="of each measurement (default: %(default)g)")
    add("--datatype", default="float32", help="of the network (default: %(default)s)")
    return result


def main(words: Sequence[str]) -> None:
    """Print the tables that the command line asks for.

    Raises:
        UserError: Something in it cannot be done.
        FailedError: A training failed.
    """
    arguments = Namespace(**parser().parse(words))
    print(machine(), flush=True)
    for name in TABLES if arguments.table == "all" else (arguments.table,):
        TABLES[name](arguments)


if __name__ == "__main__":
    sys.exit(command.console("replay", main))
