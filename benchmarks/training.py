"""Steps per second of whole training loops, each measured in a process of its own.

    python benchmarks/training.py loop     where the time of one game at simple_dqn's defaults goes
    python benchmarks/training.py grid     workers x concurrent x synchronized, as fast-dqn's speed test
    python benchmarks/training.py ladder   the speed-ups of Deep RL Hands-On, chapter 9, one by one
    python benchmarks/training.py growth   against workers, batch, replay size
    python benchmarks/training.py peers    beside Stable-Baselines3 and Tianshou, where they are installed

All train on one game with Nature's network and 32 samples every 4 steps, unless a row says otherwise.
"""

import argparse
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, TypeAlias

from table import print_table

FILL_STEPS = 2_000  # random steps before the clock starts
WARM_UP_STEPS = 400
DEFAULTS: dict[str, Any] = {"replay_size": 20_000, "target_steps": 800, "random_steps": 0, "backend": "cpu"}

Flags: TypeAlias = dict[str, Any]
Outcome: TypeAlias = dict[str, Any]


def measure(game: str, flags: Flags, seconds: float) -> Outcome:
    """Train for about `seconds` in this process; return the rate, the ledger's lines and the memory."""
    from simple_dqn.config import Config
    from simple_dqn.interrupt import Interrupt
    from simple_dqn.training import concurrent, serial
    from simple_dqn.wiring import make_run

    config = Config.from_flags({**DEFAULTS, "game": game, "random_seed": 1, **flags})
    run = make_run(config, Interrupt())
    agent = run.agent
    agent.start()
    serial.fill(agent, FILL_STEPS, 1.0, stopped=lambda: False)
    agent.total_train_steps = config.agent.exploration_decay_steps  # the ε of most of a training
    schedule = concurrent if config.agent.concurrent else serial
    schedule.train(agent, max(WARM_UP_STEPS, config.agent.target_steps), stopped=lambda: False)
    start, updates = time.perf_counter(), agent.network.updates
    with agent.ledger.phase("train"):
        schedule.train(agent, 10**9, stopped=lambda: time.perf_counter() - start > seconds)
    agent.player.environment.close()
    # By the updates, not by the steps played: the concurrent actor runs ahead within a period.
    steps = (agent.network.updates - updates) * config.agent.train_frequency
    return {
        "rate": steps / agent.ledger.books["train"].wall,
        "lines": agent.ledger.lines(),
        "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def measure_stable_baselines3(game: str, flags: Flags, seconds: float) -> Outcome:
    """Train Stable-Baselines3's DQN at the same work with `workers` games."""
    import ale_py
    import gymnasium
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    gymnasium.register_envs(ale_py)
    games = flags["workers"]
    environment = VecFrameStack(make_atari_env(f"{_camel(game)}NoFrameskip-v4", n_envs=games, seed=1), 4)
    model = DQN(
        "CnnPolicy",
        environment,
        buffer_size=20_000,
        learning_starts=FILL_STEPS,
        batch_size=32,
        train_freq=max(1, 4 // games),
        gradient_steps=max(1, games // 4),
        target_update_interval=10_000,
        exploration_initial_eps=0.1,
        exploration_final_eps=0.1,
    )
    model.learn(FILL_STEPS + WARM_UP_STEPS)
    start, before = time.perf_counter(), model.num_timesteps

    def go_on(_locals: dict[str, Any], _globals: dict[str, Any]) -> bool:
        return time.perf_counter() - start < seconds

    model.learn(10**9, callback=go_on, reset_num_timesteps=False)
    return {"rate": (model.num_timesteps - before) / (time.perf_counter() - start)}


MEASURES = {"simple_dqn": measure, "stable_baselines3": measure_stable_baselines3}


def measured(arguments: argparse.Namespace, flags: Flags, who: str = "simple_dqn") -> Outcome:
    """Return the outcome of one measurement in a fresh process.

    A process that trained before has other threads and another allocator than one that starts.
    """
    task = json.dumps([who, arguments.game, {**arguments.flags, **flags}, arguments.seconds])
    done = subprocess.run([sys.executable, __file__, "--measure", task], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{who} {flags}:\n{done.stderr}")
    outcome: Outcome = json.loads(done.stdout.splitlines()[-1])
    return outcome


def loop(arguments: argparse.Namespace) -> None:
    """Print the speed ledger of one game for each datatype."""
    for datatype in arguments.datatypes:
        print(f"\n{arguments.game}, {datatype}")
        print("\n".join(measured(arguments, {"datatype": datatype})["lines"]))


def grid(arguments: argparse.Namespace) -> None:
    """Print steps/s over workers, and the gain over one game in turn."""
    datatype = arguments.datatypes[-1]
    rows: list[list[object]] = []
    for workers in (1, 2, 4, 8, 16):
        rates = []
        for concurrent in (False, True):
            for synchronize in (False, True) if workers > 1 else (False,):
                flags = {"workers": workers, "concurrent": concurrent, "synchronize": synchronize}
                rates.append(f"{measured(arguments, {'datatype': datatype, **flags})['rate']:.0f}")
        if workers == 1:
            rates = [rates[0], "", rates[1], ""]
        rows.append([workers, *rates])
    header = ["workers", "neither", "synchronized", "concurrent", "both"]
    print_table(f"steps/s on {arguments.game}, {datatype}, {arguments.seconds:g} s each", header, rows)


LADDER: list[tuple[str, Flags]] = [
    ("one game", {}),
    ("three games", {"workers": 3, "target_steps": 1200}),
    ("three games, playing while learning", {"workers": 3, "target_steps": 1200, "concurrent": True}),
    (
        "the same, tweaked preprocessing",
        {
            "workers": 3, "target_steps": 1200, "concurrent": True, "random_starts": 0,
            "color_averaging": False, "frame_maximum": False, "history_length": 2,
        },
    ),
]  # fmt: skip


def ladder(arguments: argparse.Namespace) -> None:
    """Print steps/s of each rung; each has all that stands above it."""
    base, rows = 0.0, []
    for name, flags in LADDER:
        rate = measured(arguments, {"datatype": arguments.datatypes[-1], **flags})["rate"]
        base = base or rate
        rows.append([name, f"{rate:.0f}", f"{rate / base:.2f}"])
    print_table(
        f"The ladder on {arguments.game}, {arguments.datatypes[-1]}", ["step", "steps/s", "ratio"], rows
    )


def growth(arguments: argparse.Namespace) -> None:
    """Print steps/s and resident memory as the work grows in one direction at a time."""
    cases: list[tuple[str, object, Flags]] = [
        *(("workers", n, {"workers": n}) for n in (1, 4, 16, 64)),
        *(("batch_size", n, {"batch_size": n}) for n in (16, 32, 64, 128)),
        *(("replay_size", n, {"replay_size": n}) for n in (10_000, 100_000, 1_000_000)),
        *(("screen_width, _height", n, {"screen_width": n, "screen_height": n}) for n in (42, 84, 126)),
    ]
    rows = []
    for name, value, flags in cases:
        outcome = measured(arguments, {"datatype": arguments.datatypes[-1], **flags})
        rows.append([name, value, f"{outcome['rate']:.0f}", f"{outcome['bytes'] / 1e9:.2f}"])
    print_table(
        f"As the work grows, {arguments.game}, {arguments.datatypes[-1]}",
        ["flag", "value", "steps/s", "GB"],
        rows,
    )


def peers(arguments: argparse.Namespace) -> None:
    """Print rates measured in turns, and their ratios to the peer's best."""
    peer = "Stable-Baselines3"
    if importlib.util.find_spec("stable_baselines3") is None:
        raise SystemExit(f"benchmarks/training.py: peers needs {peer}: pip install stable-baselines3")
    fast = {"datatype": "bfloat16", "color_averaging": False}
    contenders: dict[str, tuple[str, Flags]] = {
        f"{peer}, 1 game": ("stable_baselines3", {"workers": 1}),
        f"{peer}, 8 games": ("stable_baselines3", {"workers": 8}),
        "float32, 1 game": ("simple_dqn", {}),
        "bfloat16, 1 game": ("simple_dqn", fast),
        "bfloat16, 16 games": ("simple_dqn", {**fast, "workers": 16}),
        "bfloat16, 16 games, concurrent": ("simple_dqn", {**fast, "workers": 16, "concurrent": True}),
        "bfloat16, 16 games, 128 every 16": (
            "simple_dqn", {**fast, "workers": 16, "batch_size": 128, "train_frequency": 16},
        ),
    }  # fmt: skip
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(arguments.rounds):
        for name, (who, flags) in contenders.items():
            rates[name].append(measured(arguments, flags, who)["rate"])
    best = max(statistics.median(r) for name, r in rates.items() if name.startswith(peer))
    rows = [
        [
            name,
            f"{statistics.median(r):.0f}",
            f"{min(r):.0f}–{max(r):.0f}",
            f"{statistics.median(r) / best:.2f}",
        ]
        for name, r in rates.items()
    ]
    title = f"{arguments.game}, 8 samples a step, {arguments.rounds} rounds in turns"
    print_table(title, ["who", "steps/s", "range", "ratio"], rows)


def _camel(game: str) -> str:
    return "".join(part.capitalize() for part in game.split("_"))


TABLES = {"loop": loop, "grid": grid, "ladder": ladder, "growth": growth, "peers": peers}


def main(words: Sequence[str]) -> None:
    if words[:1] == ["--measure"]:
        who, game, flags, seconds = json.loads(words[1])
        print(json.dumps(MEASURES[who](game, flags, seconds)))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", nargs="?", choices=tuple(TABLES), default="loop")
    parser.add_argument("--game", default="pong")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="peers: how often each is measured")
    parser.add_argument("--datatypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--flags", type=json.loads, default={}, help='more flags, as JSON: {"processes": 2}')
    arguments = parser.parse_args(words)
    TABLES[arguments.table](arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
