"""`doctor`: checks whether this machine can train: packages, GPU, disk and ROMs.

Each check imports the libraries that it needs: one that is broken fails that check, and the others still run.
"""

import logging
import shutil
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from simple_dqn.command_line import Parser
from simple_dqn.errors import UserError, one_line
from simple_dqn.files import home
from simple_dqn.machine import gigabytes

FREE_DISK = 3e9  # bytes, for 50 snapshots of the usual preset and two checkpoints of 100,000 screens
LEAST_DISK = 1e9  # bytes; with less, even a short run may end early
REINSTALL = "remove .venv and start any script again"
# ok, warning (training works) or error (it does not); and a text with the remedy
Finding = tuple[str, str]


def main(arguments: Sequence[str], program: str) -> None:
    """Print a line for each check: ok, or what is missing and what to do; exit with 1 after an error."""
    about = "Check whether this machine can train."
    Parser(prog=program, description=about, allow_abbrev=False).parse(arguments)
    levels = set()
    for name, check in CHECKS.items():
        level, text = examine(check, home())
        levels.add(level)
        print(f"{level:<8} {name:<9} {text}")
    if "error" in levels:
        sys.exit(1)


def examine(check: Callable[[Path], Finding], folder: Path) -> Finding:
    """Return the finding of `check`, an error if it raises any exception; nothing is logged meanwhile."""
    logging.disable(logging.CRITICAL)
    try:
        return check(folder)
    except UserError as problem:
        return "error", str(problem)
    except Exception as problem:
        return "error", f"{type(problem).__name__}: {one_line(problem)}: {REINSTALL}"
    finally:
        logging.disable(logging.NOTSET)


def packages(folder: Path) -> Finding:
    """Compare the installed packages with those that the lock file in `folder` pins."""
    lock_file = folder / "requirements.txt"
    if not lock_file.exists():
        return "warning", f"there is no {lock_file} to compare with: versions were not checked"
    pins = [Requirement(line) for line in lock_file.read_text().splitlines() if line and line[0] not in "#-"]
    missing, others = [], []
    for pin in pins:
        try:
            found = Version(metadata.version(pin.name))
            if not pin.specifier.contains(found.public, prereleases=True):  # torch's build has its own name
                others.append(f"{pin.name} {found} instead of {str(pin.specifier).lstrip('=')}")
        except metadata.PackageNotFoundError:
            missing.append(pin.name)
    level, what = ("error", "missing") if missing else ("warning", "other versions than tested")
    if names := missing or others:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        return level, f"{what}: {', '.join(names[:5])}{more}: {REINSTALL}"
    return "ok", f"{len(pins)} packages, all in their pinned versions"


def gpu(_folder: Path) -> Finding:
    """Check which GPUs the network can run on."""
    from simple_dqn.device import gpus

    if found := gpus():
        return "ok", ", ".join(f"{number}: {name}" for number, name in enumerate(found))
    if shutil.which("nvidia-smi"):
        return "warning", "PyTorch cannot use the NVIDIA GPU: install its GPU build, or train on the CPU"
    return "warning", "none that PyTorch can use: the network runs on the CPU, several times slower"


def roms(_folder: Path) -> Finding:
    """Check the MD5 sums of ale-py's ROMs."""
    from simple_dqn.environment.atari import known_games, locate

    for game in known_games():
        try:
            locate(game)
        except UserError as error:
            return "error", f"{error}; install ale-py again: {REINSTALL}; unset ALE_ROMS_DIR if it is set"
    return "ok", f"{len(known_games())} games of ale-py, each with the correct MD5"


def disk(folder: Path) -> Finding:
    """Check the free disk space."""
    folder = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.is_dir())
    free = shutil.disk_usage(folder).free
    text = f"{gigabytes(free)} are free in {folder.resolve()}"
    if free < LEAST_DISK:
        return "error", f"{text}, too little for snapshots and checkpoints: free some disk space"
    if free < FREE_DISK:
        return "warning", f"{text}: free {gigabytes(FREE_DISK)}, or lower --replay_size"
    return "ok", text


CHECKS: dict[str, Callable[[Path], Finding]] = {"packages": packages, "GPU": gpu, "ROMs": roms, "disk": disk}
