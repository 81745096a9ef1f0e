"""How long the replay memory takes to keep a step and to draw a minibatch, and what it weighs.

    python benchmarks/replay.py [--largest 1000000]

Beside it, as a yardstick, the sampler that one writes first: a Python loop over the batch.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import psutil
from numpy.typing import NDArray
from table import print_table

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.replay_memory import ReplayMemory, StateBuffer
from simple_dqn.types import Flags, Step

SCREEN_SHAPE = (84, 84)
HISTORY = 4
SIZES = (10_000, 100_000)
BATCHES = (32, 128)
GAME_LENGTH = 500  # steps; a life is lost half-way


def new_memory(replay_size: int, games: int) -> ReplayMemory:
    config = MemoryConfig(replay_size=replay_size, history_length=HISTORY)
    return ReplayMemory(config, games, SCREEN_SHAPE, 0.99, np.random.default_rng(0))


def random_steps(games: int) -> list[Step]:
    """Return the steps of a game each of `games`, with screens that nothing compresses or predicts."""
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


class LoopSampler:
    """Draws minibatches of one game from a full memory's screens in a plain Python loop."""

    def __init__(self, memory: ReplayMemory) -> None:
        state = memory.get_state()
        self.screens: NDArray[np.uint8] = state["screens"][:, 0]
        self.starts: Flags = state["ring"]["starts"][:, 0]
        self.terminals: Flags = state["ring"]["terminals"][:, 0]
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


def print_adds() -> None:
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


def sample_row(replay_size: int) -> tuple[str, ...]:
    """Return a row of figures for a memory of `replay_size`, which is really filled."""
    resident = psutil.Process().memory_info().rss
    memory = new_memory(replay_size, games=1)
    fill(memory, random_steps(1), replay_size)
    resident = psutil.Process().memory_info().rss - resident
    loop = LoopSampler(memory)
    times = [microseconds(partial(memory.sample, batch), 2000) for batch in BATCHES]
    slow = [microseconds(partial(loop.sample, batch), 500) for batch in BATCHES]
    figures = [f"{value:.0f}" for pair in zip(times, slow, strict=True) for value in pair]
    return f"{replay_size:,}", *figures, f"{memory.nbytes / replay_size:.0f}", f"{resident / 1e9:.2f}"


def print_samples(largest: int) -> None:
    rows = []
    for replay_size in sorted({*(size for size in SIZES if size < largest), largest}):
        try:
            rows.append(sample_row(replay_size))
        except UserError as error:
            print(f"left out: {error}")
    timed = [name for batch in BATCHES for name in (f"sample {batch} µs", f"loop {batch} µs")]
    header = ("experiences", *timed, "bytes each", "resident GB")
    print_table("Drawing a minibatch (median)", header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--largest", type=int, default=1_000_000, help="experiences in the largest memory")
    largest = parser.parse_args().largest
    print_adds()
    print_samples(largest)


if __name__ == "__main__":
    main()
