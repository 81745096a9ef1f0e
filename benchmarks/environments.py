"""Steps/s of the environments, compared with Gymnasium's preprocessing and EnvPool.

All environments return states of four screens of 84 x 84 for each step of four frames. They are measured
alternately in several rounds, so that other work on the machine affects all of them equally. Gymnasium's
vector environment, and this project without --processes, step the games one after the other.
"""

import importlib.util
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import ale_py
import common
import gymnasium
import numpy as np
from common import machine, positive, print_table
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

from simple_dqn.agent import Player
from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import make
from simple_dqn.random_streams import stream

ROUNDS = 5
GAMES = (1, 8, 16)
HISTORY = 4
MANY = 16  # games that are also measured in several processes
PROCESSES = (1, 2, 3)
THREADS = 2  # of EnvPool
NO_ENVPOOL = "EnvPool is not installed: .venv/bin/python -m pip install envpool==1.2.5"
RANDOM_STARTS = 7  # steps of four frames; the other projects start a game with up to 30 no-op frames


def this_project(
    game: str, games: int, color_averaging: bool = False, processes: int = 0
) -> Callable[[], object]:
    """Return a function that takes one step in each of `games` games."""
    config = EnvironmentConfig(
        game=game, color_averaging=color_averaging, processes=processes, random_starts=RANDOM_STARTS
    )
    environment = make(config, [stream(0, "environment", i) for i in range(games)], training=True)
    player = Player(environment, np.asarray, HISTORY, stream(0, "exploration"))  # which predicts nothing
    player.start()
    actions = random_actions(environment.actions, games)
    return lambda: player.execute(next(actions))


def by_gymnasium(game: str, games: int) -> Callable[[], object]:
    """Return such a function for Gymnasium, which takes the maximum of the last two frames."""
    name = "ALE/" + "".join(word.title() for word in game.split("_")) + "-v5"
    gymnasium.register_envs(ale_py)

    def one_game() -> gymnasium.Env[np.ndarray, int]:
        env = gymnasium.make(name, frameskip=1, repeat_action_probability=0.0)
        return FrameStackObservation(AtariPreprocessing(env, terminal_on_life_loss=False), HISTORY)

    return stepping(SyncVectorEnv([one_game] * games))


def stepping(environment: gymnasium.vector.VectorEnv[Any, Any, Any]) -> Callable[[], object]:
    """Return such a function for `environment`."""
    environment.reset(seed=0)
    space = environment.single_action_space
    assert isinstance(space, gymnasium.spaces.Discrete)
    actions = random_actions(int(space.n), environment.num_envs)
    return lambda: environment.step(next(actions))


def by_envpool(game: str, games: int, threads: int = THREADS, stack: int = HISTORY) -> Callable[[], object]:
    """Return such a function for EnvPool, written in C++, which takes the maximum of the last two frames."""
    import envpool

    name = "".join(word.title() for word in game.split("_")) + "-v5"
    environment = envpool.make_gymnasium(
        name, num_envs=games, num_threads=threads, stack_num=stack, use_fire_reset=False, seed=0
    )
    environment.reset()
    actions = random_actions(int(environment.action_space.n), games)
    return lambda: environment.step(next(actions))


def random_actions(actions: int, games: int) -> Iterator[np.ndarray]:
    """Yield random actions int64 [games] endlessly, sampled in advance."""
    drawn = np.random.default_rng(0).integers(actions, size=(1000, games))
    while True:
        yield from drawn


def rate(step: Callable[[], object], seconds: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the calls of `step` per second of `clock`, measured over `seconds`."""
    calls, start = 0, clock()
    while (elapsed := clock() - start) < seconds:
        step()
        calls += 1
    return calls / elapsed


def alternate(
    steps: Mapping[str, Callable[[], object]], rounds: int, measure: Callable[[Callable[[], object]], float]
) -> dict[str, list[float]]:
    """Return what `measure` finds of each of the `steps`, by name, in `rounds` in which they alternate."""
    rates: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            rates[name].append(measure(step))
    return rates


def contenders(game: str, games: int) -> dict[str, Callable[[], object]]:
    """Return a function for each environment, by name, that takes one step in each of `games` games."""
    steps = {
        "this project, maximum of two frames": this_project(game, games),
        "this project, ALE's color averaging": this_project(game, games, color_averaging=True),
        "Gymnasium, AtariPreprocessing + FrameStack": by_gymnasium(game, games),
    }
    if games == MANY:
        for processes in PROCESSES:
            name = f"this project, maximum of two, --processes {processes}"
            steps[name] = this_project(game, games, processes=processes)
        if importlib.util.find_spec("envpool"):
            steps[f"EnvPool, {THREADS} threads"] = by_envpool(game, games)
    return steps


def main(words: Sequence[str]) -> None:
    """Print the table."""
    parser = common.parser("environments", __doc__)
    add = parser.add_argument
    add("--game", type=common.game, default="pong", help="one of ale-py's games (default: %(default)s)")
    add("--seconds", type=positive(float), default=5, help="per figure, all rounds together (default: 5)")
    add("--games", type=positive(int), nargs="+", default=GAMES, help="numbers of parallel games")
    flags = Namespace(**parser.parse(words))
    print(machine())
    rows = []
    for games in flags.games:
        steps = contenders(flags.game, games)
        rates = alternate(steps, ROUNDS, partial(rate, seconds=flags.seconds / ROUNDS))
        for name, measured in rates.items():
            figures = (statistics.median(measured), min(measured), max(measured))
            rows.append((name, games, *(f"{games * figure:,.0f}" for figure in figures)))
    print_table(
        f"{flags.game}: steps/s of the agent, sum over the games ({ROUNDS} rounds)",
        ("environment", "games", "median", "minimum", "maximum"),
        rows,
    )
    if not importlib.util.find_spec("envpool"):
        print(NO_ENVPOOL)


if __name__ == "__main__":
    sys.exit(common.console("environments", main))
