"""Steps per second of the whole loop, and where they go; beside Stable-Baselines3 where it is installed.

    python benchmarks/training.py loop  --seconds 20
    python benchmarks/training.py peers --seconds 20 --rounds 3

Both train on one game at simple_dqn's defaults: Nature's network, one update of 32 every 4 steps.
"""

import argparse
import importlib.util
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from table import print_table

from simple_dqn.config import Config
from simple_dqn.interrupt import Interrupt
from simple_dqn.training import Epochs, serial
from simple_dqn.wiring import make_run

FILL_STEPS = 2_000  # random steps before the clock starts
WARM_UP_STEPS = 200
PEER = "Stable-Baselines3"


class Stopwatch:
    """Wall seconds spent in methods of live objects, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def watch(self, owner: Any, method: str, name: str) -> None:
        """Time every later call of `owner.method` under `name`."""
        call = getattr(owner, method)
        self.seconds.setdefault(name, 0.0)

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds[name] += time.perf_counter() - start

        setattr(owner, method, timed)


def make_filled_run(game: str, flags: dict[str, Any]) -> Epochs:
    """Return a run whose memory holds enough to learn from."""
    config = Config.from_flags({"game": game, "replay_size": 20_000, "random_seed": 1, **flags})
    run = make_run(config, Interrupt())
    run.agent.start()
    serial.fill(run.agent, FILL_STEPS, 1.0, stopped=lambda: False)
    run.agent.total_train_steps = config.agent.exploration_decay_steps  # the ε of most of a training
    serial.train(run.agent, WARM_UP_STEPS, stopped=lambda: False)
    return run


def steps_per_second(run: Epochs, seconds: float) -> float:
    """Train for about `seconds` and return the rate."""
    start = time.perf_counter()
    before = run.agent.total_train_steps
    serial.train(run.agent, 10**9, stopped=lambda: time.perf_counter() - start > seconds)
    return (run.agent.total_train_steps - before) / (time.perf_counter() - start)


def loop(arguments: argparse.Namespace) -> None:
    """Print the rate of the serial loop and the share of its parts."""
    rows = []
    for datatype in arguments.datatypes:
        run = make_filled_run(arguments.game, {"datatype": datatype, "workers": arguments.workers})
        stopwatch, agent = Stopwatch(), run.agent
        stopwatch.watch(agent.network, "predict", "act")
        stopwatch.watch(agent.player.environment, "step", "emulate")
        stopwatch.watch(agent.memory, "add", "store")
        stopwatch.watch(agent.memory, "sample", "sample")
        stopwatch.watch(agent.network, "train", "update")
        rate = steps_per_second(run, arguments.seconds)
        shares = {name: spent / arguments.seconds for name, spent in stopwatch.seconds.items()}
        shares["other"] = 1 - sum(shares.values())
        rows.append([datatype, f"{rate:.0f}", *(f"{share:.1%}" for share in shares.values())])
    print_table(
        f"The serial loop on {arguments.game}, {arguments.workers} game(s), {arguments.seconds:g} s each",
        ["datatype", "steps/s", "act", "emulate", "store", "sample", "update", "other"],
        rows,
    )


def stable_baselines3(game: str) -> Callable[[float], float]:
    """Return a function that trains Stable-Baselines3's DQN for some seconds, and gives its rate."""
    import ale_py
    import gymnasium
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    gymnasium.register_envs(ale_py)
    name = "".join(part.capitalize() for part in game.split("_"))
    environment = VecFrameStack(make_atari_env(f"{name}NoFrameskip-v4", n_envs=1, seed=1), 4)
    model = DQN(
        "CnnPolicy",
        environment,
        buffer_size=20_000,
        learning_starts=FILL_STEPS,
        batch_size=32,
        train_freq=4,
        target_update_interval=10_000,
        exploration_initial_eps=0.1,
        exploration_final_eps=0.1,
        optimize_memory_usage=False,
    )
    model.learn(FILL_STEPS + WARM_UP_STEPS)

    def train(seconds: float) -> float:
        start, before = time.perf_counter(), model.num_timesteps

        def go_on(_locals: dict[str, Any], _globals: dict[str, Any]) -> bool:
            return time.perf_counter() - start < seconds

        model.learn(10**9, callback=go_on, reset_num_timesteps=False)
        return float((model.num_timesteps - before) / (time.perf_counter() - start))

    return train


def measure(arguments: argparse.Namespace) -> None:
    """Print the rate of one of those that `peers` compares, alone in this process."""
    if arguments.who == PEER:
        rate = stable_baselines3(arguments.game)(arguments.seconds)
    else:
        rate = steps_per_second(
            make_filled_run(arguments.game, {"datatype": arguments.who}), arguments.seconds
        )
    print(f"{rate:.2f}")


def peers(arguments: argparse.Namespace) -> None:
    """Print the rates of this project and of Stable-Baselines3, measured in turns, each in a fresh process.

    One process for both would give the peer this project's set-up of the memory allocator.
    """
    if importlib.util.find_spec("stable_baselines3") is None:
        raise SystemExit(f"benchmarks/training.py: peers needs {PEER}: pip install stable-baselines3")
    rates: dict[str, list[float]] = {who: [] for who in (PEER, *arguments.datatypes)}
    options = ["--game", arguments.game, "--seconds", str(arguments.seconds)]
    for _ in range(arguments.rounds):
        for who, measured in rates.items():
            command = [sys.executable, __file__, "measure", "--who", who, *options]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            measured.append(float(done.stdout.splitlines()[-1]))
    base = statistics.median(rates[PEER])
    rows = [
        [
            who,
            f"{statistics.median(r):.0f}",
            f"{min(r):.0f}–{max(r):.0f}",
            f"{statistics.median(r) / base:.2f}",
        ]
        for who, r in rates.items()
    ]
    print_table(
        f"{arguments.game}, one game, an update of 32 every 4 steps, {arguments.rounds} rounds in turns",
        ["who", "steps/s", "range", "ratio"],
        rows,
    )


TABLES = {"loop": loop, "peers": peers, "measure": measure}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", nargs="?", choices=tuple(TABLES), default="loop")
    parser.add_argument("--game", default="pong")
    parser.add_argument("--workers", type=int, default=1, help="games side by side (loop only)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--datatypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--who", default="float32", help=f"measure: {PEER}, or a datatype of this project")
    arguments = parser.parse_args()
    TABLES[arguments.table](arguments)


if __name__ == "__main__":
    main()
