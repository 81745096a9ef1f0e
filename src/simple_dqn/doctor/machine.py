"""What the machine has.

Rooms of the house are imported by the checks that need them, so that a library that is broken is the finding
of a check and not the end of all.
"""

import platform
import shutil
import sys
from pathlib import Path

from simple_dqn.config import EnvironmentConfig, MemoryConfig
from simple_dqn.doctor.findings import Finding, Level
from simple_dqn.errors import UserError
from simple_dqn.ledger import usable_cores

OLDEST_PYTHON = (3, 11)
# A default run writes 200 snapshots of 7 MB, and a checkpoint of a million screens beside the one before.
FREE_DISK = 20e9  # bytes
LEAST_DISK = 1e9  # bytes; below, even a short run may end for want of it
SMALLEST_MEMORY = 50_000  # experiences: as many as a run begins with


def python(_home: Path) -> Finding:
    """Look at the version of Python."""
    version = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        return Finding(
            Level.ERROR, f"{version} is too old", f"install Python {oldest} or newer, remove .venv"
        )
    return Finding(Level.OK, f"{version} on {platform.system()} {platform.machine()}")


def cores(_home: Path) -> Finding:
    """Look at how many cores this process may use."""
    count = usable_cores()
    if count == 1:
        return Finding(
            Level.WARNING,
            "1 core can be used",
            "emulator and network take turns on it; --concurrent true gains nothing here",
        )
    return Finding(Level.OK, f"{count} cores can be used")


def memory(_home: Path) -> Finding:
    """Look at how large a replay memory fits."""
    from simple_dqn.replay_memory.capacity import SHARE, available_memory, gigabytes
    from simple_dqn.replay_memory.memory import OTHER_BYTES

    screen = EnvironmentConfig.screen_width * EnvironmentConfig.screen_height
    spare = available_memory()
    fits = int(SHARE * spare) // (screen + OTHER_BYTES) // 10_000 * 10_000
    text = f"{gigabytes(spare)} are free, --replay_size up to {fits:,} fits"
    if fits < SMALLEST_MEMORY:
        return Finding(Level.ERROR, text, "close other programs, or give --replay_file PATH")
    if fits < MemoryConfig.replay_size:
        return Finding(
            Level.WARNING,
            text,
            f"for the default of {MemoryConfig.replay_size:,} give --replay_file PATH, or give --replay_size",
        )
    return Finding(Level.OK, text)


def gpu(_home: Path) -> Finding:
    """Look at which GPUs the network can run on."""
    from simple_dqn.deepqnetwork.backend import gpus

    found = gpus()
    if found:
        return Finding(Level.OK, ", ".join(f"{number}: {name}" for number, name in enumerate(found)))
    if shutil.which("nvidia-smi"):
        return Finding(
            Level.WARNING,
            "there is an NVIDIA driver, but no GPU that PyTorch can use",
            "install PyTorch's GPU build (README.md says how); until then the network runs on the CPU",
        )
    return Finding(
        Level.WARNING, "none that PyTorch can use", "the network runs on the CPU, several times slower"
    )


def display(_home: Path) -> Finding:
    """Look at whether a window can be opened."""
    from simple_dqn.watch.display import open_display

    try:
        open_display("window", "doctor").close()
    except UserError as error:
        reason = str(error).partition(":")[0]
        return Finding(Level.WARNING, reason, "play.sh plays in the terminal, plot.sh writes files")
    return Finding(Level.OK, "a window can be opened")


def sound(_home: Path) -> Finding:
    """Look at whether there is a sound device."""
    from simple_dqn.watch.speaker import Speaker

    speaker = Speaker()
    speaker.close()
    if speaker.audible:
        return Finding(Level.OK, "there is a sound device")
    return Finding(
        Level.WARNING, "there is no sound device", "play.sh is silent; record.sh has the sound all the same"
    )


def disk(home: Path) -> Finding:
    """Look at how much room there is for snapshots."""
    free = shutil.disk_usage(home).free
    text = f"{free / 1e9:.3g} GB are free in {home.resolve()}"
    if free < LEAST_DISK:
        return Finding(Level.ERROR, text, "make room: snapshots and checkpoints do not fit")
    if free < FREE_DISK:
        advice = f"make room, or lower --replay_size: a default run can write {FREE_DISK / 1e9:g} GB"
        return Finding(Level.WARNING, text, advice)
    return Finding(Level.OK, text)
