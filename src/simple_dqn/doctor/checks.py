"""The checks: what the machine has, what the project needs beside it, and how fast a training runs.

Other parts of the project are imported by the checks that need them: so a broken library is the finding of
one check, and the others still run.
"""

import platform
import shutil
import sys
import tempfile
import threading
from contextlib import closing
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from simple_dqn.config import Config
from simple_dqn.doctor.findings import Check, Finding, error, ok, warning
from simple_dqn.errors import UserError
from simple_dqn.interrupt import Interrupt
from simple_dqn.machine import SHARE, available_memory, gigabytes, usable_cores
from simple_dqn.presets import PRESETS, USUAL

OLDEST_PYTHON = (3, 11)
PLAIN = Config.from_flags({**PRESETS[USUAL], "game": "pong"})  # the settings of `train.sh pong`
# Such a run writes 50 snapshots of 1 MB, and a checkpoint of 100,000 screens beside the one before.
FREE_DISK = 3e9  # bytes
LEAST_DISK = 1e9  # bytes; with less, even a short run may end early
SMALLEST_MEMORY = 50_000  # experiences; with fewer, a network forgets what it has learned
FOLDERS = ("snapshots", "results", "videos")
SHOWN = 5  # words of a list, at most

# The exploration rate of the trial is the last one, which most of a run is played with.
TRIAL_FLAGS = {
    "exploration_rate_start": 0.1, "replay_size": 10_000, "random_steps": 1_000, "train_steps": 10**6,
    "test_steps": 0, "epochs": 1, "random_seed": 1,
}  # fmt: skip
SLOW = 100  # steps a second: Pong then takes an hour and a half to learn, and not a quarter of one


def python(_home: Path) -> Finding:
    """Check the version of Python."""
    version = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        return error(f"{version} is too old", f"install Python {oldest} or newer, remove .venv")
    return ok(f"{version} on {platform.system()} {platform.machine()}")


def packages(home: Path) -> Finding:
    """Compare the installed packages with those that the lock file pins."""
    lock_file = home / "requirements.txt"
    if not lock_file.exists():
        return warning(f"there is no {lock_file} to compare with", "versions were not checked")
    pins = [Requirement(line) for line in lock_file.read_text().splitlines() if line and line[0] not in "#-"]
    missing, others = [], []
    for pin in pins:
        try:
            found = Version(metadata.version(pin.name))
        except metadata.PackageNotFoundError:
            missing.append(pin.name)
            continue
        if not pin.specifier.contains(found.public, prereleases=True):  # torch's build has a name of its own
            others.append(f"{pin.name} {found} instead of {str(pin.specifier).lstrip('=')}")
    if missing:
        return error(f"missing: {_some(missing)}", "remove .venv and start any script again")
    if others:
        advice = "to get the tested versions, remove .venv and start any script"
        return warning(f"other versions than tested: {_some(others)}", advice)
    return ok(f"{len(pins)} packages, all in their pinned versions")


def cores(_home: Path) -> Finding:
    """Check how many cores this process may use."""
    count = usable_cores()
    if count == 1:
        advice = "emulator and network share it; --concurrent true gains nothing"
        return warning("1 core is usable", advice)
    return ok(f"{count} cores are usable")


def memory(_home: Path) -> Finding:
    """Check how large a replay memory fits."""
    from simple_dqn.replay_memory.memory import OTHER_BYTES

    screen = PLAIN.environment.screen_width * PLAIN.environment.screen_height
    free = available_memory()
    fits = int(SHARE * free) // (screen + OTHER_BYTES) // 10_000 * 10_000
    text = f"{gigabytes(free)} are free: --replay_size up to {fits:,} fits"
    if fits < SMALLEST_MEMORY:
        return error(text, "close other programs, or give --replay_compression lz4")
    if fits < PLAIN.memory.replay_size:
        usual = f"{PLAIN.memory.replay_size:,}"
        return warning(text, f"for the usual {usual} give --replay_compression lz4, or give --replay_size")
    return ok(text)


def gpu(_home: Path) -> Finding:
    """Check which GPUs the network can run on."""
    from simple_dqn.deepqnetwork.compute.device import gpus

    found = gpus()
    if found:
        return ok(", ".join(f"{number}: {name}" for number, name in enumerate(found)))
    if shutil.which("nvidia-smi"):
        return warning(
            "there is an NVIDIA driver, but no GPU that PyTorch can use",
            "install PyTorch's GPU build (README.md says how); until then the network runs on the CPU",
        )
    return warning("none that PyTorch can use", "the network runs on the CPU, several times slower")


def display(_home: Path) -> Finding:
    """Check whether a window can be opened."""
    from simple_dqn.watch.display import open_display

    try:
        open_display("window", "doctor").close()
    except UserError as problem:
        reason = str(problem).partition(":")[0]
        return warning(reason, "play.sh plays in the terminal, plot.sh writes files")
    return ok("windows can be opened")


def sound(_home: Path) -> Finding:
    """Check whether there is a sound device."""
    from simple_dqn.watch.viewer import Speaker

    speaker = Speaker()
    speaker.close()
    if speaker.audible:
        return ok("there is a sound device")
    return warning("there is no sound device", "play.sh is silent; record.sh records sound anyway")


def roms(home: Path) -> Finding:
    """Check the MD5 sums of ale-py's ROMs, and identify those in `roms/`."""
    from simple_dqn.environment.roms import game_name, known_games, md5

    broken, strange, own = [], [], []
    for game in known_games():
        try:
            game_name(game)
        except UserError:
            broken.append(game)
    for path in sorted((home / "roms").glob("*.[rb][oi][mn]")):
        try:
            own.append(f"{path.name} is {game_name(str(path))}")
        except UserError:
            strange.append(f"{path.name} (MD5 {md5(path)})")
    if broken:
        return error(
            f"these ROMs of ale-py have a wrong MD5: {_some(broken)}",
            "install ale-py again: remove .venv and start any script; unset ALE_ROMS_DIR if it is set",
        )
    if strange:
        advice = "no known ROM has their MD5; name games such as pong instead"
        return warning(f"ALE cannot play these in roms/: {_some(strange)}", advice)
    text = f"{len(known_games())} games of ale-py, each with the correct MD5"
    return ok(f"{text}; in roms/: {_some(own)}" if own else text)


def disk(home: Path) -> Finding:
    """Check the free disk space."""
    free = shutil.disk_usage(home).free
    text = f"{gigabytes(free)} are free in {home.resolve()}"
    if free < LEAST_DISK:
        return error(text, "make room: snapshots and checkpoints do not fit")
    if free < FREE_DISK:
        return warning(text, f"make room for {gigabytes(FREE_DISK)}, or lower --replay_size")
    return ok(text)


def folders(home: Path) -> Finding:
    """Check that runs can write to their folders."""
    for folder in [home / name if (home / name).exists() else home for name in FOLDERS]:
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"\0")
                file.flush()
        except OSError as problem:
            advice = "make it a writable folder, or copy the project elsewhere"
            return error(f"{folder} is not writable ({problem.strerror})", advice)
    return ok(f"{', '.join(f'{name}/' for name in FOLDERS)} are writable")


def _some(words: list[str]) -> str:
    """Return the first few of the words, and how many more there are."""
    more = len(words) - SHOWN
    return ", ".join(words[:SHOWN]) + (f" and {more} more" if more > 0 else "")


CHECKS: dict[str, Check] = {
    "Python": python,
    "packages": packages,
    "cores": cores,
    "memory": memory,
    "GPU": gpu,
    "display": display,
    "sound": sound,
    "ROMs": roms,
    "disk": disk,
    "folders": folders,
}


def trial_of(seconds: float) -> Check:
    """Return a check that trains for `seconds` with the settings of `train.sh`."""

    def trial(_home: Path) -> Finding:
        rate = steps_per_second(PLAIN.with_flags(TRIAL_FLAGS), seconds)
        minutes = PLAIN.run.train_steps / rate / 60
        text = f"{rate:.0f} steps/s of training by {USUAL}: {minutes:.1f} minutes for an epoch"
        if rate < SLOW:
            advice = "close other busy programs, or use a machine with a GPU"
            return warning(text, advice)
        return ok(text)

    return trial


def steps_per_second(config: Config, seconds: float) -> float:
    """Train with `config` for `seconds`, and return the training steps per second.

    Raises:
        UserError: It cannot be trained here.
        KeyboardInterrupt: A signal asked to stop.
    """
    from simple_dqn.wiring import make_run

    with Interrupt() as interrupt, closing(make_run(config, interrupt)) as run:

        def stop() -> None:
            interrupt.requested = True

        timer = threading.Timer(seconds, stop)
        timer.start()
        try:
            run.begin()
            told_to_stop = not timer.finished.is_set()
        finally:
            timer.cancel()
    if told_to_stop:
        raise KeyboardInterrupt
    book = run.agent.ledger.books["train"]
    if not book.steps:
        raise UserError(f"{seconds:g} seconds are too short to start training: raise --trial_seconds")
    return book.steps / book.wall
