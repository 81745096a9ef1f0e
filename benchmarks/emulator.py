"""Steps/s of `--emulator warp`, compared with ALE's loop, ale-py's AtariVectorEnv and EnvPool, in one thread.

All return a screen of 84 x 84, the maximum of two frames, for each step of four frames. They are
measured alternately in several rounds, by processor time, so that other work affects all of them equally.
"""

import importlib
import importlib.util
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence

import common
import gymnasium
from ale_py.vector_env import AtariVectorEnv
from common import machine, positive, print_table
from environments import RANDOM_STARTS, random_actions, rate

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import make
from simple_dqn.random_streams import stream

GAMES = ("pong", "breakout", "seaquest", "ms_pacman", "space_invaders", "beam_rider")
EACH = 64  # games of a kind, side by side
ROUNDS = 7
HEADER = ("warp", "ale", "AtariVectorEnv", "EnvPool")
WARM_UP = 20  # steps that are not counted


def this_project(game: str, emulator: str) -> Callable[[], None]:
    """Return a function that takes one step in each of `EACH` games."""
    config = EnvironmentConfig(
        game=game, emulator=emulator, color_averaging=False, random_starts=RANDOM_STARTS
    )
    environment = make(config, [stream(0, "environment", i) for i in range(EACH)], training=True)
    environment.reset()
    actions = random_actions(environment.actions, EACH)
    return lambda: (environment.step(next(actions)), None)[1]


def by_ale(game: str) -> Callable[[], None]:
    """Return such a function for ale-py's vector of games, written in C++."""
    environment = AtariVectorEnv(
        game, EACH, num_threads=1, stack_num=1, use_fire_reset=False, reward_clipping=False
    )
    environment.reset(seed=0)
    space = environment.single_action_space
    assert isinstance(space, gymnasium.spaces.Discrete)
    actions = random_actions(int(space.n), EACH)
    return lambda: (environment.step(next(actions)), None)[1]


def by_envpool(game: str) -> Callable[[], None]:
    """Return such a function for EnvPool, written in C++."""
    name = "".join(word.title() for word in game.split("_")) + "-v5"
    environment = importlib.import_module("envpool").make_gymnasium(
        name, num_envs=EACH, num_threads=1, stack_num=1, use_fire_reset=False, seed=0
    )
    environment.reset()
    actions = random_actions(int(environment.action_space.n), EACH)
    return lambda: (environment.step(next(actions)), None)[1]


def contenders(game: str) -> dict[str, Callable[[], None]]:
    """Return a function for each emulator, by name, that takes one step in each of `EACH` games."""
    steps = {
        "warp": this_project(game, "warp"),
        "ale": this_project(game, "ale"),
        "AtariVectorEnv": by_ale(game),
    }
    if importlib.util.find_spec("envpool"):
        steps["EnvPool"] = by_envpool(game)
    return steps


def main(words: Sequence[str]) -> None:
    """Print the table."""
    parser = common.parser("emulator", __doc__)
    add = parser.add_argument
    add("--game", nargs="+", type=common.game, default=GAMES, help="games of docs/emulator.md")
    add("--seconds", type=positive(float), default=7, help="per figure, all rounds together (default: 7)")
    flags = Namespace(**parser.parse(words))
    print(machine())
    rows = []
    for game in flags.game:
        steps = contenders(game)
        for step in steps.values():
            for _ in range(WARM_UP):
                step()
        rates: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(ROUNDS):
            for name, step in steps.items():
                rates[name].append(EACH * rate(step, flags.seconds / ROUNDS, time.process_time))
        medians = {name: statistics.median(measured) for name, measured in rates.items()}
        best = max(figure for name, figure in medians.items() if name != "warp")
        figures = (f"{medians[name]:,.0f}" if name in medians else "" for name in HEADER)
        rows.append((game, *figures, f"{medians['warp'] / best:.2f}"))
    print_table(
        f"agent steps per second of processor time, {EACH} games, median of {ROUNDS} rounds",
        ("game", *HEADER, "warp / best"),
        rows,
    )
    if not importlib.util.find_spec("envpool"):
        print("EnvPool: not installed")


if __name__ == "__main__":
    sys.exit(common.console("emulator", main))
