"""Lets the system give out under a training: it goes on, or ends with one line and is resumed.

The disk is filled to the last byte, made read-only, or the process may open no more files, for some seconds
in the middle of an epoch. Disks are small ones in memory, for which this must be run as root on Linux.

    PYTHONPATH=src .venv/bin/python tests/soak/fail_system.py
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

from kill_trainings import KINDS, SMALL, compare, finish, log_of, start

DISK = "200m"


@contextmanager
def full(home: Path, _pid: int) -> Iterator[None]:
    """Fill the disk of `home`."""
    filler = home / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(1 << 16)):
            pass
    yield
    filler.unlink()


@contextmanager
def read_only(home: Path, _pid: int) -> Iterator[None]:
    """Let nothing be written any more on the disk of `home`, which the CSV, being open, would forbid."""
    mount = ["mount", "--bind", str(home / "snapshots"), str(home / "snapshots")]
    subprocess.run(mount, check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", str(home / "snapshots")], check=True)
    yield
    subprocess.run(["umount", "--lazy", str(home / "snapshots")], check=True)


@contextmanager
def no_more_files(_home: Path, pid: int) -> Iterator[None]:
    """Let process `pid` open no more files."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    yield
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


FAULTS: dict[str, Callable[[Path, int], contextlib.AbstractContextManager[None]]] = {
    "full disk": full,
    "read-only folder": read_only,
    "no more files": no_more_files,
}


def suffer(home: Path, command: list[str], fault: str, seconds: float) -> str:
    """Train in `home` with `fault` for so many seconds of an epoch; return what became of the training."""
    process = start(home, command)
    while process.poll() is None and len(list(home.glob("snapshots/*_checkpoint/run_*.npz"))) < 2:
        time.sleep(0.05)
    with FAULTS[fault](home, process.pid):
        time.sleep(seconds)
    process.wait()
    log = log_of(home).read_text()
    assert process.returncode in (0, 2), f"it ended with {process.returncode}:\n{log}"
    assert "Traceback" not in log, log
    said = log.count("Training continues")
    if process.returncode == 0:
        assert said, "nothing was said"
        return f"went on, with {said} warnings"
    finish(home, command)
    return f"ended with '{log.splitlines()[-1]}' and was resumed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=6000, help="of training in an epoch")
    parser.add_argument(
        "--seconds", type=float, nargs="+", default=[3, 60], help="for which each fault lasts"
    )
    flags = parser.parse_args()
    if os.geteuid():
        raise SystemExit("run this as root: it mounts small disks")
    command = [*KINDS["serial"], *SMALL, "--train_steps", str(flags.steps), "--test_steps", "500"]
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        finish(whole, command)
        for fault in FAULTS:
            for seconds in flags.seconds:
                home = Path(folder) / "disk"
                home.mkdir(exist_ok=True)
                subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(home)], check=True)
                try:
                    end = suffer(home, command, fault, seconds)
                    compare(home, whole)
                finally:
                    subprocess.run(["umount", "--lazy", str(home)], check=True)
                print(f"{fault} for {seconds:g} s: the training {end}; exact", flush=True)


if __name__ == "__main__":
    main()
