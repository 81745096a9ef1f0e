"""`doctor`: checks whether this machine can train: what is installed, what fits, and how fast it is.

Other parts of the project are imported by the checks that need them: so a broken library is the finding of
one check, and the others still run.
"""

import logging
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from functools import partial
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from simple_dqn.command_line import Parser, number
from simple_dqn.config import Config
from simple_dqn.errors import UserError, one_line
from simple_dqn.files import home
from simple_dqn.interrupt import Interrupt
from simple_dqn.machine import SHARE, available_memory, gigabytes
from simple_dqn.presets import PRESETS, USUAL

PLAIN = Config.from_flags({**PRESETS[USUAL], "game": "pong"})  # the settings of `train.sh pong`
# Such a run writes 50 snapshots of 1 MB, and a checkpoint of 100,000 screens beside the one before.
FREE_DISK = 3e9  # bytes
LEAST_DISK = 1e9  # bytes; with less, even a short run may end early
SMALLEST_MEMORY = 50_000  # experiences; with fewer, a network forgets what it has learned

# The exploration rate of the trial is the last one, which most of a run is played with.
TRIAL_FLAGS = {
    "exploration_rate_start": 0.1, "replay_size": 10_000, "random_steps": 1_000, "train_steps": 10**6,
    "test_steps": 0, "epochs": 1, "random_seed": 1,
}  # fmt: skip
SLOW = 100  # steps a second: Pong then takes an hour and a half to learn, and not a quarter of one


class Level(Enum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"  # something is slower, or missing; the rest works
    ERROR = "error"  # training does not work


@dataclass(frozen=True)
class Finding:
    """The result of a check, in one line."""

    level: Level
    text: str
    advice: str = ""  # what to do

    def line(self, name: str) -> str:
        """Return the line to print about the check called `name`."""
        return f"{self.level.value:<8} {name:<9} {self.text}" + (f": {self.advice}" if self.advice else "")


ok, warning, error = (partial(Finding, level) for level in Level)

# Checks one thing; is given the folder that holds `snapshots/`, `results/` and `videos/`.
Check = Callable[[Path], Finding]


def main(arguments: Sequence[str], program: str) -> None:
    """Print a line for each check: ok, or what is missing and what to do; exit with 1 after an error."""
    parser = Parser(prog=program, description="Check whether this machine can train.", allow_abbrev=False)
    parser.add_argument("--trial_seconds", type=number(float, minimum=0, maximum=3600),
        default=20.0, metavar="SECONDS",
        help="length of a trial training that measures the speed; 0: none (default: 20)")  # fmt: skip
    seconds = parser.parse(arguments)["trial_seconds"]
    checks = CHECKS | ({"speed": trial_of(seconds)} if seconds else {})
    levels = set()
    for name, finding in examine(checks, home()):
        print(finding.line(name), flush=True)
        levels.add(finding.level)
    if Level.ERROR in levels:
        sys.exit(1)


def examine(checks: Mapping[str, Check], home: Path) -> Iterator[tuple[str, Finding]]:
    """Run the checks in order, without the log, and yield the name and the finding of each."""
    for name, check in checks.items():
        logging.disable(logging.CRITICAL)
        try:
            finding = check(home)
        except UserError as problem:
            finding = error(str(problem))
        except Exception as problem:  # Whatever is broken here, the other checks still run.
            reason = f"{type(problem).__name__}: {one_line(problem)}"
            finding = error(reason, "remove .venv and start again to reinstall everything")
        finally:
            logging.disable(logging.NOTSET)
        yield name, finding


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
        return warning(f"other versions than tested: {_some(others)}", "remove .venv and start any script")
    return ok(f"{len(pins)} packages, all in their pinned versions")


def memory(_home: Path) -> Finding:
    """Check how large a replay memory fits."""
    from simple_dqn.replay import OTHER_BYTES

    screen = PLAIN.environment.screen_width * PLAIN.environment.screen_height
    free = available_memory()
    fits = int(SHARE * free) // (screen + OTHER_BYTES) // 10_000 * 10_000
    text = f"{gigabytes(free)} are free: --replay_size up to {fits:,} fits"
    if fits < SMALLEST_MEMORY:
        return error(text, "close other programs, or give --replay_compression lz4")
    if fits < PLAIN.memory.replay_size:
        return warning(text, f"for {PLAIN.memory.replay_size:,} give --replay_compression lz4")
    return ok(text)


def gpu(_home: Path) -> Finding:
    """Check which GPUs the network can run on."""
    from simple_dqn.device import gpus

    if found := gpus():
        return ok(", ".join(f"{number}: {name}" for number, name in enumerate(found)))
    if shutil.which("nvidia-smi"):
        return warning(
            "PyTorch cannot use the NVIDIA GPU", "install its GPU build; until then the CPU serves"
        )
    return warning("none that PyTorch can use", "the network runs on the CPU, several times slower")


def display(_home: Path) -> Finding:
    """Check whether a window can be opened."""
    from simple_dqn.watch.display import open_display

    try:
        open_display("window", "doctor").close()
    except UserError as problem:
        return warning(str(problem).partition(":")[0], "play.sh plays in the terminal, plot.sh writes files")
    return ok("windows can be opened")


def sound(_home: Path) -> Finding:
    """Check whether there is a sound device."""
    from simple_dqn.watch.viewer import Speaker

    speaker = Speaker()
    speaker.close()
    if speaker.audible:
        return ok("there is a sound device")
    return warning("there is no sound device", "play.sh is silent; record.sh records sound anyway")


def roms(_home: Path) -> Finding:
    """Check the MD5 sums of ale-py's ROMs."""
    from simple_dqn.environment.roms import game_name, known_games

    broken = []
    for game in known_games():
        try:
            game_name(game)
        except UserError:
            broken.append(game)
    if broken:
        return error(
            f"these ROMs of ale-py have a wrong MD5: {_some(broken)}",
            "install ale-py again: remove .venv and start any script; unset ALE_ROMS_DIR if it is set",
        )
    return ok(f"{len(known_games())} games of ale-py, each with the correct MD5")


def disk(home: Path) -> Finding:
    """Check the free disk space."""
    free = shutil.disk_usage(home).free
    text = f"{gigabytes(free)} are free in {home.resolve()}"
    if free < LEAST_DISK:
        return error(text, "make room: snapshots and checkpoints do not fit")
    if free < FREE_DISK:
        return warning(text, f"make room for {gigabytes(FREE_DISK)}, or lower --replay_size")
    return ok(text)


def _some(words: list[str]) -> str:
    return ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")


CHECKS: dict[str, Check] = {
    "packages": packages,
    "memory": memory,
    "GPU": gpu,
    "display": display,
    "sound": sound,
    "ROMs": roms,
    "disk": disk,
}


def trial_of(seconds: float) -> Check:
    """Return a check that trains for `seconds` with the settings of `train.sh`."""

    def trial(_home: Path) -> Finding:
        rate = steps_per_second(PLAIN.with_flags(TRIAL_FLAGS), seconds)
        minutes = PLAIN.run.train_steps / rate / 60
        text = f"{rate:.0f} steps/s of training by {USUAL}: {minutes:.1f} minutes for an epoch"
        slow = "close other busy programs, or use a machine with a GPU"
        return warning(text, slow) if rate < SLOW else ok(text)

    return trial


def steps_per_second(config: Config, seconds: float) -> float:
    """Train with `config` for `seconds`, and return the training steps per second."""
    from simple_dqn.run import make_run

    with Interrupt() as interrupt, closing(make_run(config, interrupt)) as run:
        timer = threading.Timer(seconds, setattr, (interrupt, "requested", True))
        timer.start()
        try:
            run.begin()
            told_to_stop = not timer.finished.is_set()
        finally:
            timer.cancel()
    if told_to_stop:
        raise KeyboardInterrupt
    profile = run.profiler.phases["train"]
    if not profile.steps:
        raise UserError(f"{seconds:g} seconds are too short to start training: raise --trial_seconds")
    return profile.steps / profile.wall
