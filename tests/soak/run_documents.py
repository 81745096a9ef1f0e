"""Runs the commands of README.md and the other pages in a fresh clone, in their order, as their reader would.

Trainings are cut short: ten epochs of a few steps, which leave every file that a later command asks for. A
window is left after some seconds. What stands for something else (`SNAPSHOT`, `…`) is not run, nor are tables
of speed, tests and builds: those take the whole machine for minutes, and have tests and trials of their own.

    PYTHONPATH=src:. .venv/bin/python tests/soak/run_documents.py
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from simple_dqn.environment.atari import find_rom
from simple_dqn.main import VERBS
from tests.command_line import PROJECT
from tests.test_documents import Command, commands, is_placeholder, pages

SHORT = ["--random_steps", "400", "--train_steps", "104", "--test_steps", "104"]
# What is added to the commands of a verb, after what the document says, so that it wins.
ADDED = {
    "train": [*SHORT, "--replay_size", "4000", "--epochs", "10", "--threads", "1"],
    "sweep": [*SHORT, "--replay_size", "4000", "--epochs", "1"],
    "profile_train": SHORT,
}
A_CLUSTER = ["--cluster", "local", "--actors", "1", "--workers", "2"]
SECONDS_OF_PLAY = 15


def main() -> int:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    failed, ran = [], set[str]()
    with tempfile.TemporaryDirectory() as folder:
        home = clone(Path(folder) / "simple-dqn")
        for page in pages():
            for command in commands(page.read_text()):
                words = as_run(command)
                if not words or str(command) in ran:
                    continue
                ran.add(str(command))
                began = time.monotonic()
                complaint = run(words, home)
                if command.inline and "arguments are required" in complaint:
                    continue  # It is cut short.
                print(f"{time.monotonic() - began:6.1f} s  {complaint or 'good'}  {command}", flush=True)
                if complaint:
                    failed.append(f"{page.relative_to(PROJECT)}: {command}: {complaint}")
    print(f"{len(ran)} commands, {len(failed)} failed", *failed, sep="\n")
    return 1 if failed else 0


def clone(home: Path) -> Path:
    """Return a fresh clone of what is committed, with this one's packages and a ROM of the reader's own."""
    subprocess.run(["git", "clone", "--quiet", str(PROJECT), str(home)], check=True)
    (home / ".venv").symlink_to(PROJECT / ".venv")
    (home / "roms" / "mine.bin").write_bytes(find_rom("pong").read_bytes())
    return home


def as_run(command: Command) -> list[str]:
    """Return the words to run for `command`; nothing, if it is not to be run."""
    verb, words = command.verb, [*command.arguments]
    if verb not in VERBS or any(map(is_placeholder, words)):
        return []
    if not words and verb != "doctor":
        return []  # In the text, where a verb is named and not run.
    words += ADDED.get(verb, [])
    if "--cluster" in words and verb == "train":
        words += A_CLUSTER
    if verb == "resume" and "--epochs" not in words:
        words += ["--epochs", "11"]
    return [f"./{command.program}", *words]


def run(words: list[str], home: Path) -> str:
    silent = {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"}
    process = subprocess.Popen(
        words, cwd=home, env=os.environ | silent, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    window = words[0] == "./play.sh"
    try:
        said, _ = process.communicate(timeout=SECONDS_OF_PLAY if window else 600)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
        if window and process.returncode in (0, 128 + signal.SIGINT) and "Traceback" not in said:
            return ""
    if process.returncode or "Traceback" in said:
        return f"exit code {process.returncode}: {' / '.join(said.splitlines()[-3:])}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
