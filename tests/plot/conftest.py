"""The CSV of an original run, what is drawn of it, and a display."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from simple_dqn.plot.panels import Plot, make_plot
from simple_dqn.statistics import read_run

ORIGINAL = Path(__file__).parents[1] / "data" / "simple_dqn_2015.csv"


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    return Path(shutil.copy(ORIGINAL, tmp_path / "pong.csv"))


@pytest.fixture
def plot_of(csv_file: Path) -> Callable[..., Plot]:
    """Return a function from fields, and names, to a plot of as many runs, all with the same values."""

    def plot(fields: list[str], *names: str) -> Plot:
        names = names or ("pong",)
        return make_plot([read_run(csv_file, name) for name in names], fields, names)

    return plot


@pytest.fixture(scope="session")
def display() -> Iterator[str]:
    """Name an X display that nobody looks at, for as long as the tests run."""
    if not (shutil.which("Xvfb") and shutil.which("xdotool")):
        pytest.skip("Xvfb and xdotool are not installed")
    read, write = os.pipe()
    command = ["Xvfb", "-displayfd", str(write), "-screen", "0", "1600x1000x24", "-nolisten", "tcp"]
    server = subprocess.Popen(command, pass_fds=[write], stderr=subprocess.DEVNULL)
    os.close(write)
    with os.fdopen(read) as number:
        yield f":{number.readline().strip()}"
    server.terminate()
    server.wait(timeout=30)
