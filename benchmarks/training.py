"""Speed of training in steps/s, each measured in a process of its own.

    ./bench.sh training loop      shares of time in acting, emulation, sampling, updates ... of one game
    ./bench.sh training grid      workers x concurrent x synchronized, like fast-dqn's speed test
    ./bench.sh training hands_on  the speed-ups of Deep RL Hands-On, chapter 9, one by one
    ./bench.sh training peers     comparison with Stable-Baselines3, Tianshou and CleanRL
    ./bench.sh training pqn       the preset strong compared with CleanRL's PQN
    ./bench.sh training compare   settings of your own, the rows that --rows names
    ./bench.sh training gpu       a GPU, with more games, processes and threads
    ./bench.sh training strong    the preset strong with --emulator warp, by the number of games

All tables train on one game with Nature's network and 32 samples every 4 steps, unless a row says otherwise.
"""

import json
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path

import common
import comparison
import measurement
from common import machine, positive, print_table
from measurement import STRONG, Flags, of_preset, train
from peers import PEERS

from simple_dqn.command_line import Parser
from simple_dqn.errors import UserError
from simple_dqn.sweep import setting


def loop(arguments: Namespace) -> None:
    """Print how the time of training is spent, for each datatype."""
    for datatype in arguments.datatypes:
        print(f"\n{arguments.game}, {datatype}")
        print("\n".join(train(arguments, {"datatype": datatype})["lines"]))


def grid(arguments: Namespace) -> None:
    """Print the steps/s of each schedule for several numbers of workers."""
    datatype = arguments.datatypes[-1]
    rows: list[list[object]] = []
    for workers in (1, 2, 4, 8, 16):
        rates = []
        for concurrent in (False, True):
            for synchronize in (False, True) if workers > 1 else (False,):
                flags = {"workers": workers, "concurrent": concurrent, "synchronize": synchronize}
                rates.append(f"{train(arguments, {'datatype': datatype, **flags})['rate']:.0f}")
        if workers == 1:
            rates = [rates[0], "", rates[1], ""]
        rows.append([workers, *rates])
    header = ["workers", "neither", "synchronized", "concurrent", "both"]
    print_table(f"steps/s on {arguments.game}, {datatype}, {arguments.seconds:g} s each", header, rows)


# Chapter 9's hyperparameters for Pong, except for an update every 4 steps, and others for Catch, a toy game.
# Every number of steps is a multiple of 12: three games, and four steps between updates.
RECIPE: Flags = {
    "optimizer": "adam", "learning_rate": 1e-4, "replay_size": 100_000, "random_steps": 10_000,
    "exploration_decay_steps": 100_000, "exploration_rate_end": 0.02, "target_steps": 1_200,
}  # fmt: skip
RECIPES: dict[str, Flags] = {
    "catch": {
        "optimizer": "adam", "learning_rate": 3e-4, "replay_size": 5_000, "random_steps": 480,
        "exploration_decay_steps": 4_000, "exploration_rate_end": 0.01, "target_steps": 240,
        "screen_width": 36, "screen_height": 36,
    },
}  # fmt: skip
SPEED_UPS: list[tuple[str, Flags]] = [
    ("one game", {}),
    ("three games", {"workers": 3}),
    ("three games, playing while learning", {"workers": 3, "concurrent": True}),
    (
        "the same, less preprocessing",
        {
            "workers": 3, "concurrent": True, "random_starts": 0, "color_averaging": False,
            "frame_maximum": False, "history_length": 2,
        },
    ),
]  # fmt: skip


def hands_on(arguments: Namespace) -> None:
    """Print the steps/s with each further speed-up and, with --reward, the time until the game is solved."""
    datatype = arguments.datatypes[-1]
    recipe = {**RECIPES.get(arguments.game, RECIPE), "datatype": datatype, **arguments.flags}
    header = ["setting", "steps/s", "ratio"]
    if arguments.reward is not None:
        header.append(f"until {arguments.reward:g}")
    base = 0.0
    rows: list[list[object]] = []
    for name, flags in SPEED_UPS:
        rate = train(arguments, {**recipe, **flags})["rate"]
        base = base or rate
        row: list[object] = [name, f"{rate:.0f}", f"{rate / base:.2f}"]
        if arguments.reward is not None:
            limits = {"reward": arguments.reward, "limit": arguments.limit}
            seconds = train(arguments, {**recipe, **flags}, "time_to_reward", **limits)["seconds"]
            row.append(f"not in {arguments.limit:g} s" if seconds is None else f"{seconds:.0f} s")
        rows.append(row)
    print_table(f"Speed-ups of chapter 9 on {arguments.game}, {datatype}", header, rows)


GPU_FLAGS: Flags = {"datatype": "bfloat16", "backend": "gpu", "color_averaging": False, "random_starts": 0}
GPU_CASES: list[tuple[str, Flags]] = [
    ("CPU, bfloat16, 1 game", {"backend": "cpu"}),
    ("GPU, float32, 1 game", {"datatype": "float32"}),
    ("GPU, bfloat16, 1 game", {}),
    ("the same, 16 games", {"workers": 16}),
    ("the same, 8 processes", {"workers": 16, "processes": 8}),
    ("the same, --schedule overlapped", {"workers": 16, "processes": 8, "overlap": True}),
    ("16 games, 8 processes, --schedule concurrent", {"workers": 16, "processes": 8, "concurrent": True}),
]


def gpu(arguments: Namespace) -> None:
    """Print the steps/s on the GPU and on all cores, or raise UserError if PyTorch can use no GPU."""
    from simple_dqn.device import gpus  # PyTorch takes seconds to import

    if not (found := gpus()):
        raise UserError("this table compares a GPU with the CPU, but PyTorch can use none: see ./doctor.sh")
    rates = [train(arguments, {**GPU_FLAGS, **flags})["rate"] for _, flags in GPU_CASES]
    rows = [
        [name, f"{rate:.0f}", f"{rate / rates[0]:.1f}"]
        for (name, _), rate in zip(GPU_CASES, rates, strict=True)
    ]
    print_table(f"Steps/s on {arguments.game}, {found[0]}", ["setting", "steps/s", "ratio"], rows)


def strong(arguments: Namespace) -> None:
    """Print the steps/s of the preset `strong` for several numbers of games on the emulator of our own."""
    for workers in arguments.workers:
        outcome = train(arguments, {**STRONG, "workers": workers})
        print(f"{workers:6} games  {outcome['rate']:8,.0f} steps/s")
        print("\n".join(outcome["lines"][1:]), flush=True)


TABLES = {one.__name__: one for one in (loop, grid, hands_on, gpu, strong)}
TABLES |= dict.fromkeys(comparison.WORK, comparison.compare)
CLEANRL = " or ".join(peer.script for peer in PEERS.values() if peer.script)


def parser() -> Parser:
    """Return the parser of the command line."""
    result = common.parser("training", __doc__)
    add = result.add_argument
    add("table", nargs="?", choices=tuple(TABLES), default="loop")
    add("--game", type=common.game, default="pong", help="one of ale-py's, or catch (default: %(default)s)")
    add("--seconds", type=positive(float), default=10.0, help="per measurement (default: %(default)g)")
    add("--datatypes", nargs="+", default=["float32", "bfloat16"], help="loop uses all, others the last")
    of_rows = 'flags of train.sh for all rows, as JSON: {"processes": 2}'
    add("--flags", type=json_flags, default={}, help=of_rows)
    add("--workers", nargs="+", type=positive(int), default=[64, 512], help="numbers of games, for strong")
    add = result.add_argument_group("hands_on").add_argument
    add("--reward", type=float, help="also measure the time until the last 100 training games have this mean")
    add("--limit", type=positive(float), default=600.0, help="seconds for that (default: %(default)g)")
    add = result.add_argument_group("peers, pqn and compare").add_argument
    add("--rounds", type=positive(int), default=3, help="measurements of each row (default: %(default)s)")
    add("--rows", type=row, nargs="+", default=[], metavar="NAME=FLAGS",
        help="the rows of compare; flags may name a preset: \"mine=--preset quick\"")  # fmt: skip
    add("--install", action="store_true", help="first install the others, in environments of their own")
    add("--cleanrl", metavar="FILE", default="", help=f"{CLEANRL} of a clone of CleanRL")
    return result


def row(word: str) -> tuple[str, Flags]:
    """Parse a row of `compare`, NAME=FLAGS: its name, and its flags with those of its preset."""
    name, flags = setting(word)
    preset = flags.pop("preset", "")
    return name, {**of_preset(preset), **flags} if preset else flags


def json_flags(word: str) -> Flags:
    """Parse flags of training given as a JSON object."""
    try:
        given = json.loads(word)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise ArgumentTypeError(f'{word!r} is not a JSON object such as {{"processes": 2}}')
    return given


def main(words: Sequence[str]) -> None:
    """Print the table for the given command line.

    Raises:
        UserError: A flag is not valid.
        FailedError: A training failed.
    """
    arguments = Namespace(**parser().parse(words))
    for flags in (*({"datatype": one} for one in arguments.datatypes), *(own for _, own in arguments.rows)):
        measurement.settings({"game": arguments.game, **arguments.flags, **flags})
    if arguments.cleanrl and not Path(arguments.cleanrl).is_file():
        raise UserError(f"--cleanrl {arguments.cleanrl} is not a file: give {CLEANRL} of a clone")
    if arguments.table == "compare" and not arguments.rows:
        raise UserError('no rows are named: give --rows "plain=" "double=--target_rule double", for example')
    if len(dict(arguments.rows)) < len(arguments.rows):
        raise UserError("two settings of --rows have the same name: give each its own")
    print(machine(), flush=True)
    TABLES[arguments.table](arguments)


if __name__ == "__main__":
    sys.exit(common.console("training", main))
