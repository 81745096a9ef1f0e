"""Lets trainings be killed, run out of disk, or run for long: they must not lose, change or leak anything.

    PYTHONPATH=src:. .venv/bin/python tests/soak/trainings.py --kills 100 --faults 60 --minutes 60

- `--kills`: trainings of several kinds are killed (`kill -9`) at random moments, with checkpoints every
  second, and begun anew with `--resume`, until they are through.
- `--faults`: the disk is full or read-only, for 3 seconds and for as many as given, in mid-epoch.
  Training goes on, or ends with one line and is resumed. Disks are small ones in memory: run this as root.
- `--minutes`: once the replay memory of a long training is full, the memory of its processes must not grow.

A training that was killed or failed must come to what the same training came to undisturbed: the same CSV,
times aside, and the same weights, bit for bit; and nothing half-written may be left.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from simple_dqn.config import words
from simple_dqn.snapshot.checkpoint import CheckpointFolder
from tests.command_line import PROJECT
from tests.test_resume import assert_same

SMALL = words({
    "preset": "simple_dqn", "screen_width": 42, "screen_height": 42, "random_steps": 1000, "threads": 1,
    "replay_size": 3000, "train_steps": 6000, "test_steps": 2000, "target_steps": 200, "epochs": 2,
    "backend": "cpu", "random_seed": 0, "checkpoint_minutes": 0.01,
})  # fmt: skip
KINDS = {
    "serial": ["pong"],
    "concurrent": ["pong", "--workers", "4", "--processes", "2", "--schedule", "concurrent"],
    "compressed": ["breakout", "--replay_compression", "lz4", "--workers", "2"],
    "catch": ["catch", "--environment", "catch"],
}
ENDLESS = [
    "pong", "--preset", "simple_dqn", "--replay_size", "20000", "--random_steps", "20000",
    "--train_steps", "50000", "--test_steps", "5000", "--random_seed", "0", "--checkpoint_minutes", "1",
    "--backend", "cpu",
]  # fmt: skip
GROWTH = 0.01  # share of the memory that is allowed


def start(home: Path, arguments: list[str]) -> psutil.Popen:
    home.mkdir(exist_ok=True)
    with log_of(home).open("wb") as log:
        return psutil.Popen(
            [sys.executable, "-P", "-m", "simple_dqn.main", "train", *arguments, "--resume"],
            cwd=home, stderr=log,
            env=os.environ | {"PYTHONPATH": str(PROJECT / "src"), "SIMPLE_DQN_HOME": "."},
        )  # fmt: skip


def log_of(home: Path) -> Path:
    return home.with_name(f"{home.name}.log")


def train(home: Path, arguments: list[str], seconds: float | None = None) -> float | None:
    """Train to the end, and return for how many seconds there was training; None: killed after `seconds`."""
    process, begun = start(home, arguments), 0.0
    while process.poll() is None:
        time.sleep(0.02)
        if not begun and "Results are written" in log_of(home).read_text():
            begun = time.monotonic()
        if seconds is not None and begun and time.monotonic() - begun > seconds:
            process.kill()
            process.wait()
    if process.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"the training ended with {process.returncode}:\n{log_of(home).read_text()}")
    return None if process.returncode else time.monotonic() - begun


def compare(disturbed: Path, whole: Path) -> None:
    for copy in disturbed.glob("results/*.*.csv"):
        copy.unlink()  # with rows that were written after the last checkpoint
    assert_same(disturbed, whole)
    left = [path for path in disturbed.rglob("*") if path.name.endswith(".part") or path.name == "lock"]
    assert not left, f"left behind: {left}"


def kill(folder: Path, count: int, seed: int) -> None:
    moments = random.Random(seed)
    for kind, arguments in KINDS.items():
        command, whole = [*arguments, *SMALL], folder / kind
        seconds = train(whole, command) or 0.0
        kills = through = 0
        while kills < -(-count // len(KINDS)):
            home = folder / f"{kind} {through}"
            while train(home, command, moments.uniform(0, seconds / 3)) is None:
                kills += 1
                for checkpoints in home.glob("snapshots/*_checkpoint"):
                    sound = any(CheckpointFolder(checkpoints).usable())
                    assert sound or not list(checkpoints.glob("run_*")), f"{home} has no sound checkpoint"
            compare(home, whole)
            through += 1
        print(f"{kind}: killed {kills} times, {through} trainings came through, all exact", flush=True)


def mount(*words: str) -> None:
    subprocess.run(words, check=True)


@contextmanager
def full(home: Path) -> Iterator[None]:
    with contextlib.suppress(OSError), (home / "filler").open("wb", buffering=0) as file:
        while file.write(bytes(1 << 16)):
            pass
    yield
    (home / "filler").unlink()


@contextmanager
def read_only(home: Path) -> Iterator[None]:
    """Let nothing be written any more on the disk of `home`, which the CSV, being open, would forbid."""
    folder = str(home / "snapshots")
    mount("mount", "--bind", folder, folder)
    mount("mount", "-o", "remount,ro,bind", folder)
    yield
    mount("umount", "--lazy", folder)


def fail(folder: Path, longest: float) -> None:
    command, whole, home = [*KINDS["serial"], *SMALL], folder / "undisturbed", folder / "disk"
    train(whole, command)
    home.mkdir()
    for fault, seconds in [(fault, seconds) for fault in (full, read_only) for seconds in (3, longest)]:
        mount("mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(home))
        try:
            process = start(home, command)
            while process.poll() is None and len(list(home.glob("snapshots/*_checkpoint/run_*.npz"))) < 2:
                time.sleep(0.05)
            with fault(home):
                time.sleep(seconds)
            code, log = process.wait(), log_of(home).read_text()
            assert code in (0, 2), f"it ended with {code}:\n{log}"
            assert "Traceback" not in log, log
            assert code or "Training continues" in log, "nothing was logged"
            if code:
                train(home, command)
            compare(home, whole)
        finally:
            mount("umount", "--lazy", str(home))
        print(f"{fault.__name__} for {seconds} s: exit code {code}, then exact", flush=True)


def watch_memory(home: Path, minutes: float) -> None:
    """Train for `minutes` after the first epoch, and compare the memory at first and in the end."""
    held: list[int] = []  # bytes of all processes, every ten seconds
    training = start(home, ENDLESS)
    try:
        # All that a run has takes memory when it comes for the first time: an epoch of each kind, its
        # snapshot, checkpoints within it. On a busy machine that can take many minutes.
        while len(held) < max(1, 6 * minutes):
            time.sleep(10)
            if training.poll() is not None:
                raise SystemExit(f"the training ended with {training.returncode}")
            if any("1,test" in path.read_text() for path in home.glob("results/*.csv")):
                processes = [training, *training.children(recursive=True)]
                held.append(sum(process.memory_info().rss for process in processes))
    finally:
        training.kill()
        training.wait()
    tenth = max(1, len(held) // 10)
    first, last = max(held[:tenth]), max(held[-tenth:])
    print(f"{first / 1e6:.1f} MB at first, {last / 1e6:.1f} MB in the end: {last / first - 1:+.2%}")
    if last / first - 1 >= GROWTH:
        raise SystemExit("the memory grows")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=0, help="how often trainings are killed, of all kinds")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--faults", type=float, default=0, help="seconds of the longest fault; as root")
    parser.add_argument("--minutes", type=float, default=0, help="of a long training, after its first epoch")
    flags = parser.parse_args()
    if flags.faults and os.geteuid():
        raise SystemExit("run --faults as root: it mounts small disks")
    with tempfile.TemporaryDirectory() as folder:
        if flags.kills:
            kill(Path(folder), flags.kills, flags.seed)
        if flags.faults:
            fail(Path(folder), flags.faults)
        if flags.minutes:
            watch_memory(Path(folder, "long"), flags.minutes)


if __name__ == "__main__":
    main()
