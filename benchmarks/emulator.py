"""Steps/s of `--emulator warp`, compared with ALE's loop, ale-py's AtariVectorEnv and EnvPool, in one thread.

All return a screen of 84 x 84, the maximum of two frames, for each step of four frames. They are
measured alternately in several rounds, by processor time, so that other work affects all of them equally.

With --device, the emulator alone on one device, by wall time: for each number of games and, on a GPU, each
number of games in a block of threads.
"""

import importlib.util
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import common
import numpy as np
from ale_py.roms import get_rom_path
from ale_py.vector_env import AtariVectorEnv
from common import machine, positive, print_table
from environments import NO_ENVPOOL, RANDOM_STARTS, alternate, by_envpool, random_actions, rate, stepping

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import make
from simple_dqn.random_streams import stream

GAMES = ("pong", "breakout", "seaquest", "ms_pacman", "space_invaders", "beam_rider")
EACH = 64  # games of a kind, side by side
ROUNDS = 7
HEADER = ("warp", "ale", "AtariVectorEnv", "EnvPool")
WARM_UP = 20  # steps that are not counted


def this_project(game: str, emulator: str) -> Callable[[], object]:
    """Return a function that takes one step in each of `EACH` games."""
    config = EnvironmentConfig(
        game=game, emulator=emulator, color_averaging=False, random_starts=RANDOM_STARTS
    )
    environment = make(config, [stream(0, "environment", i) for i in range(EACH)], training=True)
    environment.reset()
    actions = random_actions(environment.actions, EACH)
    return lambda: environment.step(next(actions))


def on_device(game: str, device: str, count: int, block: int) -> Callable[[], None]:
    """Return a function that takes one step in each of `count` games on `device`, as Warp calls it."""
    from atari2600 import starts
    from atari2600.games import Games, Settings
    from atari2600.rules import RULES

    rom, start = Path(str(get_rom_path(game))).read_bytes(), starts.find(game)
    keys, settings = np.arange(count, dtype=np.uint32), Settings(tuple(start.actions))
    games = Games(rom, start, RULES[game], keys, settings, device, block)
    actions = random_actions(len(start.actions), count)

    def step() -> None:
        games.actions.assign(next(actions))
        games.step()
        games.results.numpy()  # waits for the device

    return step


def sweep(flags: Namespace) -> None:
    """Print the steps/s of the emulator on `flags.device`."""
    for game in flags.game:
        print(f"{game} on {flags.device}: games, games of a block, agent steps per second with screens")
        for count in flags.counts:
            for block in flags.blocks:
                step = on_device(game, flags.device, count, block)
                for _ in range(WARM_UP):
                    step()
                figure = count * rate(step, flags.seconds, time.perf_counter)
                print(f"{count:6}  {block:5}  {figure:,.0f}", flush=True)


def contenders(game: str) -> dict[str, Callable[[], object]]:
    """Return a function for each emulator, by name, that takes one step in each of `EACH` games."""
    by_ale = AtariVectorEnv(
        game, EACH, num_threads=1, stack_num=1, use_fire_reset=False, reward_clipping=False
    )
    steps = {
        "warp": this_project(game, "warp"),
        "ale": this_project(game, "ale"),
        "AtariVectorEnv": stepping(by_ale),
    }
    if importlib.util.find_spec("envpool"):
        steps["EnvPool"] = by_envpool(game, EACH, threads=1, stack=1)
    return steps


def main(words: Sequence[str]) -> None:
    """Print the table."""
    parser = common.parser("emulator", __doc__)
    add = parser.add_argument
    add("--game", nargs="+", type=common.game, default=GAMES, help="games of docs/emulator.md")
    add("--seconds", type=positive(float), default=7, help="per figure, all rounds together (default: 7)")
    add("--device", help="Warp's name of a device, such as cuda or cpu: measure the emulator alone, there")
    add("--counts", nargs="+", type=positive(int), default=[1024], help="with --device: numbers of games")
    add("--blocks", nargs="+", type=positive(int), default=[8], help="with --device: games of a block")
    flags = Namespace(**parser.parse(words))
    print(machine())
    if flags.device:
        sweep(flags)
        return
    rows = []
    for game in flags.game:
        steps = contenders(game)
        for step in steps.values():
            for _ in range(WARM_UP):
                step()
        measure = partial(rate, seconds=flags.seconds / ROUNDS, clock=time.process_time)
        rates = alternate(steps, ROUNDS, measure)
        medians = {name: EACH * statistics.median(measured) for name, measured in rates.items()}
        best = max(figure for name, figure in medians.items() if name != "warp")
        figures = (f"{medians[name]:,.0f}" if name in medians else "" for name in HEADER)
        rows.append((game, *figures, f"{medians['warp'] / best:.2f}"))
    print_table(
        f"agent steps per second of processor time, {EACH} games, median of {ROUNDS} rounds",
        ("game", *HEADER, "warp / best"),
        rows,
    )
    if not importlib.util.find_spec("envpool"):
        print(NO_ENVPOOL)


if __name__ == "__main__":
    sys.exit(common.console("emulator", main))
