"""Draws the curve of every training that the results rest on, as a page to zoom in: build/curves.html.

The page holds all it needs, so it opens without a network. `make docs` puts it into the site.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from bokeh import models
from bokeh.embed import file_html
from bokeh.layouts import column
from bokeh.palettes import Category10_10
from bokeh.plotting import figure
from bokeh.resources import INLINE

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT / "src"), str(PROJECT)]

from scripts.tables import read  # noqa: E402
from simple_dqn.plot import AXES  # noqa: E402
from simple_dqn.statistics.csv_file import RunData, read_run  # noqa: E402

DATA = PROJECT / "docs" / "data"
PRESET = "strong"


def runs_of(game: str) -> list[RunData]:
    """Return the runs of `game` with the preset, the bundled agent's first."""
    others = sorted((DATA / "curves").glob(f"{game}_{PRESET}_*.csv"))
    bundled = read_run(PROJECT / "results" / "trained" / f"{game}.csv", "the bundled agent")
    start = len(f"{game}_{PRESET}_")
    return [bundled, *(read_run(path, f"seed {path.stem[start:].replace('_', ', ')}") for path in others)]


def references() -> dict[str, dict[str, float]]:
    """Return the scores of others for each game, by whose they are."""
    rows = read(DATA / "references.csv").rows
    scores = {row.pop("game").lower().replace(" ", "_").replace("*", ""): row for row in rows}
    return {game: {whose: float(one) for whose, one in row.items() if one} for game, row in scores.items()}


def draw(game: str, axis: str, scores: dict[str, float]) -> Any:
    """Return the figure of `game`: the mean reward of the training games of each epoch."""
    title = game.replace("_", " ").title().replace("Qbert", "Q*bert")
    tools = "pan,wheel_zoom,box_zoom,reset,save"
    plot = figure(title=title, height=360, sizing_mode="stretch_width", tools=tools, active_drag="box_zoom")
    plot.xaxis.axis_label = AXES[axis].label
    plot.yaxis.axis_label = "mean reward of the training games"
    plot.xaxis.formatter = models.NumeralTickFormatter(format="0,0.[0]")
    end = 0.0
    for run, color in zip(runs_of(game), Category10_10, strict=False):
        rows = (run.phases == "train") & np.isfinite(run.columns["average_reward"])
        x, y = run.columns[AXES[axis].column][rows] / AXES[axis].unit, run.columns["average_reward"][rows]
        end = max(end, x[-1])
        line = plot.line(x, y, color=color, width=2, legend_label=run.name)
        plot.add_tools(models.HoverTool(renderers=[line], tooltips=[(run.name, "@y{0,0.[0]}")]))
    for (whose, score), dash in zip(scores.items(), ("dashed", "dotted", "dotdash", "dashdot"), strict=False):
        plot.line([0, end], [score, score], color="gray", line_dash=dash, legend_label=f"{whose}: {score:,g}")
    plot.legend.click_policy = "hide"
    plot.add_layout(plot.legend[0], "right")
    return plot


def page() -> str:
    """Return the page as HTML: a tab for each axis, with a figure for each game."""
    scores = references()
    panels = [
        models.TabPanel(title=f"by {axis}", child=column(
            [draw(game, axis, others) for game, others in scores.items()], sizing_mode="stretch_width"))
        for axis in ("steps", "hours")
    ]  # fmt: skip
    tabs = models.Tabs(tabs=panels, sizing_mode="stretch_width")
    return str(file_html(tabs, INLINE, title=f"The curves of the preset {PRESET}"))


if __name__ == "__main__":
    target = PROJECT / "build" / "curves.html"
    target.parent.mkdir(exist_ok=True)
    target.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{target.relative_to(PROJECT)}\n")
