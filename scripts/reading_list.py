"""Updates or checks the table in docs/tour.md of the files to read about training DQN on one Atari game.

    python scripts/reading_list.py [--check]

A short training of Pong finds the modules that run. Each must be in the list or in `NOT_THE_ALGORITHM`.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from simple_dqn.config import Config
from simple_dqn.interrupt import Interrupt
from simple_dqn.training import Epochs
from simple_dqn.wiring import make_run

PROJECT = Path(__file__).resolve().parents[1]
SOURCE = PROJECT / "src" / "simple_dqn"
PAGE = PROJECT / "docs" / "tour.md"
PLACE = re.compile(r"(<!-- reading list -->\n).*?(<!-- end of the reading list -->)", re.DOTALL)
MOST_FILES, MOST_LINES, MOST_MODULES = 27, 4000, 10

READ = {
    "wiring.py": "builds the objects",
    "training/epochs.py": "the phases of a run: random play, training, tests",
    "training/serial.py": "the loop of Algorithm 1",
    "agent.py": "acts, stores and learns",
    "player.py": "the ε-greedy policy",
    "types.py": "the arrays between the packages, with their shapes",
    "environment/interface.py": "the interface of an environment",
    "environment/vector.py": "games side by side",
    "environment/ale.py": "frame skip, maximum, lives and resets",
    "environment/frames.py": "a frame becomes a screen",
    "environment/emulator.py": "ale-py's emulator",
    "replay_memory/memory.py": "stores steps, samples minibatches",
    "replay_memory/transitions.py": "the ring buffer, and the rows that are transitions",
    "replay_memory/uniform.py": "uniform sampling",
    "replay_memory/screens.py": "the screens, each stored once",
    "deepqnetwork/deepqnetwork.py": "the online and the target network",
    "deepqnetwork/update.py": "targets, loss and descent",
    "deepqnetwork/value_heads.py": "the representation of a return, and its loss",
    "deepqnetwork/networks.py": "the architectures, as a table",
    "deepqnetwork/building.py": "builds a network from the table",
    "deepqnetwork/layers.py": "the modules of a network",
    "deepqnetwork/optimizers.py": "RMSProp and the others",
    "statistics/statistics.py": "the counts and means of a CSV row",
}
# Modules that run in a training but do not belong to the algorithm.
NOT_THE_ALGORITHM = {
    "config.py": "the table of settings",
    "random_streams.py": "named streams of randomness",
    "environment/__init__.py": "the choice of an environment",
    "environment/roms.py": "finds a ROM",
    "deepqnetwork/compute/": "devices, datatypes, threads",
    "deepqnetwork/guided_backpropagation.py": "pictures of a network",
    "deepqnetwork/noisy.py": "an extension; without noise it draws nothing",
    "deepqnetwork/weights.py": "weights as arrays, for files",
    "statistics/": "where the counts are written",
    "scores.py": "scores of games, for the CSV",
    "interrupt.py": "Ctrl-C",
    "profiler.py": "the time of each part",
    "machine.py": "the cores of this machine",
}


def modules_run(work: Callable[[], object]) -> list[str]:
    """Return the project's modules that ran during `work`, in the order of their first call."""
    found: dict[str, None] = {}

    def watch(frame: FrameType, event: str, _argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and frame.f_code.co_name != "<module>" and SOURCE in path.parents:
            found[str(path.relative_to(SOURCE))] = None

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return list(found)


def train_briefly() -> Epochs:
    """Train on Pong for a moment, and return the run."""
    flags = {
        "game": "pong", "backend": "cpu", "threads": 1, "random_seed": 1, "random_steps": 24,
        "train_steps": 8, "test_steps": 4, "epochs": 1, "replay_size": 1000,
    }  # fmt: skip
    run = make_run(Config.from_flags(flags), Interrupt())
    run.begin()
    return run


def is_algorithm(module: str) -> bool:
    """Return whether `module` belongs to the algorithm: it is in the list, or unknown."""
    return module in READ or not module.startswith(tuple(NOT_THE_ALGORITHM))


def lines_of(module: str) -> int:
    """Return the number of lines of a module."""
    return len((SOURCE / module).read_text(encoding="utf-8").splitlines())


def table() -> str:
    """Return the list as a table, with the totals."""
    rows = ["| file | lines | |", "|---|---|---|"]
    rows += [
        f"| [{name}](../src/simple_dqn/{name}) | {lines_of(name)} | {what} |" for name, what in READ.items()
    ]
    rows += [f"| **{len(READ)} files** | **{sum(map(lines_of, READ)):,}** | |"]
    return "\n" + "\n".join(rows) + "\n\n"


def faults() -> list[str]:
    """Return the errors of the list, one line each."""
    runs = [train_briefly()]  # imports all modules before calls are recorded
    trained = modules_run(lambda: runs.append(train_briefly()))
    update = [module for module in modules_run(runs[-1].agent.learn) if is_algorithm(module)]
    found = [f"{module} runs in a training but is not in the list" for module in trained
             if is_algorithm(module) and module not in READ]  # fmt: skip
    found += [
        f"{module} is in the list but does not run" for module in READ if module not in {*trained, "types.py"}
    ]
    if len(update) > MOST_MODULES:
        found.append(f"an update uses {len(update)} modules: {', '.join(update)}")
    if len(READ) > MOST_FILES or sum(map(lines_of, READ)) > MOST_LINES:
        found.append(f"the list has {len(READ)} files and {sum(map(lines_of, READ))} lines")
    return found


def main() -> int:
    """Update the table, or check it with `--check`; return the exit code."""
    page = PAGE.read_text(encoding="utf-8")
    renewed = PLACE.sub(lambda place: place[1] + table() + place[2], page)
    problems = faults()
    if "--check" in sys.argv[1:]:
        if re.sub(r"[\d,]+", "", renewed) != re.sub(r"[\d,]+", "", page):  # line counts may differ
            problems.append("the list in docs/tour.md is out of date: run make anchors")
    else:
        PAGE.write_text(renewed, encoding="utf-8")
    print("\n".join(problems) or f"{len(READ)} files, {sum(map(lines_of, READ)):,} lines")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
