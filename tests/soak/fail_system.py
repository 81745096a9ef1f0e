"""Lets the system give out under a training: it goes on, or ends with one line and is resumed.

The disk is filled to the last byte, made read-only, or the process may open no more files, for some seconds
in the middle of an epoch. Disks are small ones in memory, for which this must be run as root on Linux.

    PYTHONPATH=src:. .venv/bin/python tests/soak/fail_system.py
"""

import argparse
import contextlib
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kill_trainings import KINDS, SMALL, compare, log_of, start, train

COMMAND = [*KINDS["serial"], *SMALL, "--train_steps", "6000", "--test_steps", "500"]


def mount(*words: str) -> None:
    subprocess.run(words, check=True)


@contextmanager
def full(home: Path, _pid: int) -> Iterator[None]:
    """Fill the disk of `home`."""
    with contextlib.suppress(OSError), (home / "filler").open("wb", buffering=0) as file:
        while file.write(bytes(1 << 16)):
            pass
    yield
    (home / "filler").unlink()


@contextmanager
def read_only(home: Path, _pid: int) -> Iterator[None]:
    """Let nothing be written any more on the disk of `home`, which the CSV, being open, would forbid."""
    folder = str(home / "snapshots")
    mount("mount", "--bind", folder, folder)
    mount("mount", "-o", "remount,ro,bind", folder)
    yield
    mount("umount", "--lazy", folder)


@contextmanager
def no_more_files(_home: Path, pid: int) -> Iterator[None]:
    """Let process `pid` open no more files."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    yield
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


FAULTS: tuple[Callable[[Path, int], contextlib.AbstractContextManager[None]], ...] = (
    full, read_only, no_more_files,
)  # fmt: skip


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    if os.geteuid():
        raise SystemExit("run this as root: it mounts small disks")
    with tempfile.TemporaryDirectory() as folder:
        whole, home = Path(folder, "whole"), Path(folder, "disk")
        train(whole, COMMAND)
        home.mkdir()
        for fault, seconds in [(fault, seconds) for fault in FAULTS for seconds in (3, 60)]:
            mount("mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(home))
            try:
                process = start(home, COMMAND)
                while process.poll() is None and len(list(home.glob("snapshots/*_checkpoint/run_*.npz"))) < 2:
                    time.sleep(0.05)
                with fault(home, process.pid):
                    time.sleep(seconds)
                code, log = process.wait(), log_of(home).read_text()
                assert code in (0, 2), f"it ended with {code}:\n{log}"
                assert "Traceback" not in log, log
                assert code or "Training continues" in log, "nothing was logged"
                if code:
                    train(home, COMMAND)
                compare(home, whole)
            finally:
                mount("umount", "--lazy", str(home))
            print(f"{fault.__name__} for {seconds} s: exit code {code}, then exact", flush=True)


if __name__ == "__main__":
    main()
