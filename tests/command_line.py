"""Commands in the process of the test: whole trainings, and verbs that stop after their command line."""

import argparse
import csv
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, CompletedProcess, Popen
from typing import Any, TypeAlias
from unittest.mock import patch

import pytest

from simple_dqn import main
from simple_dqn.command_line import Parser
from simple_dqn.config import words
from simple_dqn.own_code import take_imports

Capsys: TypeAlias = pytest.CaptureFixture[str]
Logs: TypeAlias = pytest.LogCaptureFixture
Patch: TypeAlias = pytest.MonkeyPatch
Start: TypeAlias = Callable[..., int]  # the fixture `start`
Told: TypeAlias = Callable[..., str]  # the fixture `told`
PROJECT = Path(__file__).parents[1]
NEON = PROJECT / "tests" / "data" / "breakout_1.pkl"  # a snapshot of Neon's
ORIGINAL = PROJECT / "tests" / "data" / "simple_dqn_2015.csv"  # statistics of the original simple_dqn
# A training that takes no time, for tests of all that surrounds it.
CATCH: dict[str, Any] = {
    "preset": "simple_dqn", "network": "small", "screen_width": 36, "screen_height": 36, "random_steps": 60,
    "train_steps": 40, "test_steps": 0, "epochs": 1, "replay_size": 100, "batch_size": 4, "target_steps": 8,
    "backend": "cpu", "threads": 1, "random_seed": 0,
}  # fmt: skip


def catch(*label: str, **others: object) -> list[str]:
    return ["catch", *label, *words({**CATCH, **others})]


def train_in(home: Path, *words: str) -> Path:
    """Train with the flags `words` in `home`, as the current folder and the project's; return `home`."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(home)
        patched.setenv("SIMPLE_DQN_HOME", ".")
        assert main.run(["train", *words]) == 0
    return home


def nightly(*values: object) -> Any:
    """Return `values` of a parameter with which a test runs in `make nightly` alone."""
    return pytest.param(*values, marks=pytest.mark.nightly)


def run(*arguments: str) -> None:
    assert main.run(arguments) == 0


def start_python(*words: str, cwd: Path | None = None, **variables: str) -> Popen[str]:
    """Start Python, which finds the project, with pipes to it and from it."""
    own = {"PYTHONPATH": f"{PROJECT / 'src'}:{PROJECT}", **variables}
    command = [sys.executable, *words]
    return Popen(command, env=os.environ | own, cwd=cwd, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True)


def python(*words: str, cwd: Path | None = None, given: str = "", **variables: str) -> CompletedProcess[str]:
    """Run it to its end, with `given` as its standard input."""
    process = start_python(*words, cwd=cwd, **variables)
    out, err = process.communicate(given)
    return CompletedProcess(words, process.returncode, out, err)


def rows(path: Path) -> list[dict[str, str]]:
    times = ("total_time", "epoch_time", "steps_per_second")
    with path.open() as file:
        return [{k: v for k, v in row.items() if k not in times} for row in csv.DictReader(file)]


def watch(owner: Any, name: str, before: Callable[..., Any], patch: pytest.MonkeyPatch | None = None) -> None:
    """From now on, or as long as `patch` lasts, call `before` first with what `owner.name` is called with."""
    call = getattr(owner, name)

    def watched(*arguments: Any, **named: Any) -> Any:
        before(*arguments, **named)
        return call(*arguments, **named)

    (patch.setattr if patch else setattr)(owner, name, watched)


class Clock:
    """A clock that only `advance` moves; it also stands in for `time.sleep`."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += max(0.0, seconds)


class ReadError(Exception):
    """A command line was read without a complaint; what would have followed is left out."""

    def __init__(self, parser: argparse.ArgumentParser, given: Any) -> None:
        super().__init__(f"{parser.prog} was read")
        self.parser, self.given = parser, dict(given if isinstance(given, dict) else vars(given))


@contextmanager
def only_reading() -> Iterator[None]:
    """Let every parser raise `ReadError` once it has read a whole command line."""

    def ending(owner: Any, name: str) -> Any:
        parse = getattr(owner, name)

        def read(parser: argparse.ArgumentParser, *arguments: Any) -> Any:
            with patch.object(owner, name, parse):  # of a flag, such as `--compare`, which has its own parser
                given = parse(parser, *arguments)
            raise ReadError(parser, given)

        return patch.object(owner, name, read)

    with ending(Parser, "parse"), ending(argparse.ArgumentParser, "parse_args"):
        yield


def read(verb: str, arguments: Sequence[str]) -> ReadError:
    """Return what `verb` reads, after the imports that `arguments` name; UserError: it refuses them."""
    arguments = take_imports(arguments)
    with only_reading():
        try:
            main.function_of(verb)(arguments, f"./{verb}.sh")
        except ReadError as outcome:
            return outcome
    raise AssertionError(f"{verb} read nothing")
