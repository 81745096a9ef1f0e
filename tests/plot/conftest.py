"""The CSV of an original run, and its figure."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from simple_dqn.plot.figure import Plot, View, make_plot
from simple_dqn.statistics.csv_file import read_run

ORIGINAL = Path(__file__).parents[1] / "data" / "simple_dqn_2015.csv"


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    return Path(shutil.copy(ORIGINAL, tmp_path / "pong.csv"))


@pytest.fixture
def plot_of() -> Callable[..., Plot]:
    """Return a function from fields, and names, to a plot of as many runs, all with the same values."""

    def plot(fields: list[str], *names: str) -> Plot:
        names = names or ("pong",)
        return make_plot([read_run(ORIGINAL, name) for name in names], names, View(fields))

    return plot
