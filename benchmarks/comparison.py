"""Compares the speed of training, with others' and of settings: `training peers`, `pqn` and `compare`."""

import shutil
import statistics
import sys
import sysconfig
from argparse import Namespace
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import measurement
from common import FailedError, print_table
from measurement import STRONG, Flags, Outcome, measure, train
from networks.catalogue import error_of
from peers import PEERS, Peer, Work

from simple_dqn.errors import UserError
from simple_dqn.files import home

MEASURE_PEER = Path(__file__).with_name("peers.py")
# The virtual environments of the peers; CleanRL's scripts need an earlier Gymnasium, and Gym.
PINS = {
    "peers": ("stable-baselines3==2.9.2", "tianshou==2.0.1", "envpool==1.2.5"),
    "cleanrl": ("gymnasium==0.29.1", "ale-py==0.10.1", "tyro==1.0.17"),
    "cleanrl_pqn": ("envpool==0.8.4", "gym==0.23.1", "tyro==1.0.17", "numpy==1.26.4"),
}
WORK = {"peers": "8 samples per step, ", "pqn": "PQN, ", "compare": ""}  # in the title of each table

FAST: Flags = {"datatype": "bfloat16", "color_averaging": False}
# Four passes over rollouts of 128 steps of 8 games, as CleanRL's PQN.
FOUR_PASSES: Flags = {**STRONG, "emulator": "ale", "workers": 8, "rollout_steps": 128, "batch_size": 256}
OURS: dict[str, dict[str, Flags]] = {
    "peers": {
        "float32, 1 game": {}, "bfloat16, 1 game": FAST,
        "bfloat16, 16 games": {**FAST, "workers": 16},
        "bfloat16, 16 games, concurrent": {**FAST, "workers": 16, "concurrent": True},
        "bfloat16, 16 games, 128 every 16": {**FAST, "workers": 16, "batch_size": 128, "train_frequency": 16},
    },
    "pqn": {
        "the same work, float32": {**FOUR_PASSES, "datatype": "float32"},
        "the same work, --datatype auto": FOUR_PASSES,
        "the preset strong": {**STRONG, "emulator": "ale"},
        "the preset strong, --emulator warp": STRONG,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One row of the table."""

    name: str
    measure: Callable[[], Outcome]  # measures the rate once; raises FailedError if it cannot
    peer: str = ""  # the peer whose row it is, a key of `PEERS`; in `compare` set for the first row only


def compare(arguments: Namespace) -> None:
    """Print the steps/s of the rows of a table, and ratios to the best row of each peer or to the first."""
    of_table = {name: peer for name, peer in PEERS.items() if peer.table == arguments.table}
    for environment in {peer.environment for peer in of_table.values()} if arguments.install else ():
        install(environment)
    entries = entries_of(arguments, of_table)
    rates: dict[str, list[float]] = {entry.name: [] for entry in entries}
    reasons: dict[str, str] = {}
    for number in range(arguments.rounds):
        for entry in entries:
            if entry.name not in reasons:
                print(f"Round {number + 1} of {arguments.rounds}: {entry.name}", file=sys.stderr, flush=True)
                try:
                    rates[entry.name].append(entry.measure()["rate"])
                except FailedError as error:
                    reasons[entry.name] = str(error)
    title = f"{arguments.game}, {WORK[arguments.table]}{arguments.rounds} alternating round(s)"
    if of_table:
        title += "; the last columns are ratios to the best row of that project"
    columns = {name: peer.title for name, peer in of_table.items()} or {entries[0].peer: "ratio"}
    header = ["project" if of_table else "setting", "steps/s", "range", *columns.values()]
    print_table(title, header, rows(entries, rates, reasons, columns))


def entries_of(arguments: Namespace, of_table: dict[str, Peer]) -> list[Entry]:
    """Return the peers of the table, then the rows of this project, or those that `--rows` names."""
    entries = []
    for name, peer in of_table.items():
        for games in peer.games:
            title = f"{peer.title}, {games} game{'s' * (games > 1)}"
            entries.append(Entry(title, partial(measure_peer, arguments, name, games), name))
    for name, flags in (OURS[arguments.table] if of_table else dict(arguments.rows)).items():
        entries.append(Entry(name, partial(train, arguments, flags), "" if entries else name))
    return entries


def measure_peer(arguments: Namespace, name: str, games: int) -> Outcome:
    """Return the rate of the peer `name`, or raise FailedError if it failed or is not installed."""
    environment, script = PEERS[name].environment, PEERS[name].script
    if not is_installed(environment):
        raise FailedError(f"not installed: ./bench.sh training {arguments.table} --install")
    if script and not arguments.cleanrl:
        raise FailedError(f"not measured: give {script} of a clone of CleanRL as --cleanrl")
    work = Work(arguments.game, games, arguments.seconds, arguments.cleanrl)
    gpu = {**measurement.DEFAULTS, **arguments.flags}["backend"] == "gpu"
    command = [str(python(environment)), str(MEASURE_PEER)]
    return measure(command, [name, asdict(work)], arguments.seconds, gpu)


def rows(
    entries: list[Entry], rates: dict[str, list[float]], reasons: dict[str, str], peers: Iterable[str]
) -> list[list[object]]:
    """Return the rows of the table of `peers`; a row that failed has the reason in place of figures."""
    medians = {name: statistics.median(measured) for name, measured in rates.items() if measured}
    best = {
        peer: max((medians.get(entry.name, 0.0) for entry in entries if entry.peer == peer), default=0.0)
        for peer in peers
    }
    table: list[list[object]] = []
    for entry in entries:
        if entry.name in reasons:
            table.append([entry.name, reasons[entry.name]])
            continue
        median, measured = medians[entry.name], rates[entry.name]
        ratios = [f"{median / best[peer]:.2f}" if best[peer] else "–" for peer in peers]
        table.append([entry.name, f"{median:.0f}", f"{min(measured):.0f}–{max(measured):.0f}", *ratios])
    return table


def folder(environment: str) -> Path:
    """Return the folder of a virtual environment, a key of `PINS`."""
    return home() / f".venv-bench-{environment}"


def python(environment: str) -> Path:
    """Return the path of the Python in it."""
    return folder(environment) / "bin" / "python"


def is_installed(environment: str) -> bool:
    """Return whether it has the versions of `PINS`, for this Python."""
    made_from = folder(environment) / "made_from.txt"
    return made_from.exists() and made_from.read_text() == _recipe(environment)


def install(environment: str) -> None:
    """Create a virtual environment, a key of `PINS`, unless it exists.

    It includes this project's packages, so that every project runs on the same PyTorch and NumPy. pip adds
    only what the peers need in another version: for CleanRL, Gymnasium, Gym, ALE and NumPy.

    Raises:
        UserError: pip failed.
    """
    if is_installed(environment):
        return
    target, pins = folder(environment), PINS[environment]
    print(f"Installing {', '.join(pins)} into {target}", file=sys.stderr)
    shutil.rmtree(target, ignore_errors=True)
    reason = error_of([sys.executable, "-m", "venv", str(target)])
    if not reason:
        packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(target)}))
        (packages / "project.pth").write_text(sysconfig.get_path("purelib") + "\n")
        reason = error_of([str(python(environment)), "-m", "pip", "install", *pins])
    if reason:
        raise UserError(f"the peers could not be installed: {reason}")
    # Written last: without it the environment is incomplete.
    (target / "made_from.txt").write_text(_recipe(environment))


def _recipe(environment: str) -> str:
    return "\n".join([*PINS[environment], sys.version, sysconfig.get_path("purelib"), ""])
