"""The CSV of an original run, and what is drawn of it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from simple_dqn.plot.panels import Plot, View, make_plot
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
        return make_plot([read_run(csv_file, name) for name in names], names, View(fields))

    return plot
