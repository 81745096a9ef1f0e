"""This project beside its peers, at the same work, in turns."""

import shutil
import statistics
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import ours
import peer_packages
from fresh import FailedError, Flags, measure, train
from peers import PEERS, Work
from table import print_table

from simple_dqn.errors import UserError

MEASURE_PEER = Path(__file__).with_name("peers.py")
FAST: Flags = {"datatype": "bfloat16", "color_averaging": False}
OURS: dict[str, Flags] = {
    "float32, 1 game": {},
    "bfloat16, 1 game": FAST,
    "bfloat16, 16 games": {**FAST, "workers": 16},
    "bfloat16, 16 games, concurrent": {**FAST, "workers": 16, "concurrent": True},
    "bfloat16, 16 games, 128 every 16": {**FAST, "workers": 16, "batch_size": 128, "train_frequency": 16},
}


@dataclass(frozen=True)
class Contender:
    """One row of the table."""

    name: str
    rate: Callable[[], float]  # measures it once, in steps a second; FailedError: it cannot be
    peer: str = ""  # which of `PEERS` it is; none: this project


def check(arguments: Namespace) -> None:
    """Refuse a command line that names what is not there.

    Raises:
        UserError: What.
    """
    for flag in ("python", "cleanrl_python"):
        given = getattr(arguments, flag)
        if given and not shutil.which(given):
            raise UserError(f"--{flag} {given} is not a program: name a Python")
    if arguments.cleanrl and not Path(arguments.cleanrl).is_file():
        raise UserError(f"--cleanrl {arguments.cleanrl} is not a file: name a copy of CleanRL's dqn_atari.py")


def peers(arguments: Namespace) -> None:
    """Print rates measured in turns, and their ratios to the best of each peer."""
    if arguments.install:
        peer_packages.install()
    entries = contenders(arguments)
    rates: dict[str, list[float]] = {entry.name: [] for entry in entries}
    reasons: dict[str, str] = {}
    for number in range(arguments.rounds):
        for entry in entries:
            if entry.name not in reasons:
                print(f"Round {number + 1} of {arguments.rounds}: {entry.name}", file=sys.stderr, flush=True)
                try:
                    rates[entry.name].append(entry.rate())
                except FailedError as error:
                    reasons[entry.name] = str(error)
    title = (
        f"{arguments.game}, 8 samples a step, {arguments.rounds} round(s) in turns, ratio to each one's best"
    )
    header = ["who", "steps/s", "range", *(peer.title for peer in PEERS.values())]
    print_table(title, header, rows(entries, rates, reasons))


def contenders(arguments: Namespace) -> list[Contender]:
    """Return the peers, then this project as it comes and at its fastest."""
    entries = [
        Contender(f"{peer.title}, {count_games(games)}", partial(rate_of_peer, arguments, name, games), name)
        for name, peer in PEERS.items()
        for games in peer.games
    ]
    for name, flags in OURS.items():
        entries.append(Contender(name, partial(rate_of_ours, arguments, flags)))
    return entries


def count_games(games: int) -> str:
    """Return "1 game", or how many."""
    return "1 game" if games == 1 else f"{games} games"


def rate_of_peer(arguments: Namespace, name: str, games: int) -> float:
    """Return the steps a second of the peer called `name`.

    Raises:
        FailedError: It is not there, or it failed.
    """
    python, script = arguments.python, ""
    if name == "cleanrl":
        if not arguments.cleanrl:
            raise FailedError("not measured: give your copy of its script, --cleanrl dqn_atari.py")
        python, script = arguments.cleanrl_python or python, str(Path(arguments.cleanrl).resolve())
    if not python:
        if not peer_packages.is_installed():
            raise FailedError("not installed: ./bench.sh training peers --install")
        python = str(peer_packages.python())
    work = Work(arguments.game, games, arguments.seconds, script)
    gpu = {**ours.DEFAULTS, **arguments.flags}["backend"] == "gpu"
    try:
        outcome = measure([python, str(MEASURE_PEER)], [name, asdict(work)], arguments.seconds, gpu)
    except UserError as error:  # Who ends with its exit code has failed: a peer raises none.
        raise FailedError(str(error)) from None
    rate: float = outcome["rate"]
    return rate


def rate_of_ours(arguments: Namespace, flags: Flags) -> float:
    """Return the steps a second of this project with `flags`.

    Raises:
        UserError: They cannot be used.
        FailedError: The training failed.
    """
    rate: float = train(arguments, flags)["rate"]
    return rate


def rows(
    entries: list[Contender], rates: dict[str, list[float]], reasons: dict[str, str]
) -> list[list[object]]:
    """Return the rows of the table: of who failed, a remark that says why."""
    medians = {name: statistics.median(measured) for name, measured in rates.items() if measured}
    best = {
        peer: max((medians.get(entry.name, 0.0) for entry in entries if entry.peer == peer), default=0.0)
        for peer in PEERS
    }
    table: list[list[object]] = []
    for entry in entries:
        if entry.name in reasons:
            table.append([entry.name, reasons[entry.name]])
            continue
        median, measured = medians[entry.name], rates[entry.name]
        ratios = [f"{median / best[peer]:.2f}" if best[peer] else "–" for peer in PEERS]
        table.append([entry.name, f"{median:.0f}", f"{min(measured):.0f}–{max(measured):.0f}", *ratios])
    return table
