"""Compares the settings of a sweep: measures with their intervals, and the files and lines that show them.

The measures are those of rliable (Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the
Statistical Precipice", arXiv:2108.13264). A measure maps an array [B, runs] for each game to float64 [B].
"""

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from simple_dqn.errors import printable
from simple_dqn.evaluation import SCORES, SOURCE, human_normalized
from simple_dqn.files import replacing
from simple_dqn.plot import AXES, View, add_frame, add_legends, draw_field, grid, picture, title
from simple_dqn.statistics.csv_file import RunData
from simple_dqn.sweep.pool import Member, SweepRun

Array = NDArray[np.float64]
# log₁₀(1 + median %) of 57 games is about the sum of these times log₁₀(1 + %) (Aitchison et al. 2022,
# "Atari-5"; weights fitted without an intercept to the results of 44 algorithms that they published).
ATARI5 = {
    "battle_zone": 0.382, "double_dunk": 0.068, "name_this_game": 0.311, "phoenix": 0.124, "qbert": 0.08,
}  # fmt: skip


class Estimate(NamedTuple):
    """A number and its 95 % interval; None: a game has only one run, so its spread is unknown."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        """Return `75.0`, or `75.0 (70.1 to 80.2)` with an interval."""
        digits = 1 if abs(self.value) > 1 else 2
        interval = "" if self.low is None else f" ({self.low:.{digits}f} to {self.high:.{digits}f})"
        return f"{self.value:.{digits}f}{interval}"


def interquartile_mean(games: Sequence[Array]) -> Array:
    """Return the mean of the middle half of all runs: without the n // 4 lowest and highest of n."""
    runs = np.sort(np.concatenate(games, axis=1), axis=1)
    cut = runs.shape[1] // 4
    return np.asarray(np.mean(runs[:, cut : runs.shape[1] - cut], axis=1))


MEASURES: dict[str, Callable[[Sequence[Array]], Array]] = {
    "interquartile mean": interquartile_mean,
    "mean": lambda games: np.asarray(np.mean([runs.mean(axis=1) for runs in games], axis=0)),
}


def estimate(name: str, games: Sequence[Array], resamples: int = 10_000) -> Estimate:
    """Return the measure `name` with the percentile interval of a stratified bootstrap.

    `games` has for each game the scores of its runs, float64 [runs]. Each resample draws runs with
    replacement within each game, and keeps the games. The same scores give the same interval.
    """
    measure, rng = MEASURES[name], np.random.default_rng(0)
    value = float(measure([runs[np.newaxis] for runs in games])[0])
    if min(map(len, games)) < 2:
        return Estimate(value)
    found = measure([runs[rng.integers(len(runs), size=(resamples, len(runs)))] for runs in games])
    return Estimate(value, *map(float, np.quantile(found, (0.025, 0.975))))


class Comparison:
    """The runs that can be compared, at the latest epoch that all of them have reached.

    Failed runs and those without a finished game are left out. With several games, scores are percent of the
    human score: games without one, and games that not every setting has, are left out. If no game has a human
    score, scores are game points.
    """

    def __init__(self, runs: Sequence[Member]) -> None:
        known = [run for run in sorted(runs, key=lambda run: run.game) if run.data and run.state != "failed"]
        self.phase, epochs, points = scored([run.data for run in known if run.data])
        scores = {run: score for run, score in zip(known, points, strict=True) if score is not None}
        settings = list(dict.fromkeys(run.setting for run in runs if run in scores))
        normalized = len({run.game for run in scores}) > 1 and any(run.game in SCORES for run in scores)
        if normalized:
            scores = {run: score for run, score in scores.items() if run.game in SCORES}
        pairs = {(run.setting, run.game) for run in scores}
        self.members = [run for run in scores if all((setting, run.game) in pairs for setting in settings)]
        self.games = list(dict.fromkeys(run.game for run in self.members))
        self.left_out = len(runs) - len(self.members)
        self.unit = f"% of human ({SOURCE})" if normalized else "game points"
        self.span = f"{self.phase} epoch{f's {epochs[0]} to' if len(epochs) > 1 else ''} {epochs.stop - 1}"
        self.estimates: list[tuple[str, str, Estimate]] = []  # with the setting and the measure
        self.medians: dict[str, float] = {}  # of 57 games, estimated for each setting
        for setting in settings if self.members else []:
            values: dict[str, list[float]] = {game: [] for game in self.games}
            for run in self.members:
                if run.setting == setting:
                    percent = human_normalized(run.game, scores[run]) or 0.0
                    values[run.game].append(percent if normalized else scores[run])
            arrays = list(map(np.array, values.values()))
            self.estimates += [(setting, name, estimate(name, arrays)) for name in MEASURES]
            if normalized and ATARI5.keys() <= values.keys():
                percents = {game: max(0.0, float(np.mean(values[game]))) for game in ATARI5}
                logarithms = (weight * math.log10(1 + percents[game]) for game, weight in ATARI5.items())
                self.medians[setting] = float(10 ** sum(logarithms) - 1)

    def rows(self) -> list[Sequence[Any]]:
        """Return the rows of the CSV, of which the first has the names of the columns."""
        names = ("setting", "measure", *Estimate._fields, "unit", "runs", "scored", "left_out")
        about = (self.unit, len(self.members), self.span, self.left_out)
        return [names, *((setting, name, *value, *about) for setting, name, value in self.estimates)]

    def __str__(self) -> str:
        """Return the report that a user reads."""
        count, games = len(self.members), ", ".join(self.games)
        lines = [f"{count} run{'s' * (count > 1)} of {games}: mean of {self.span}, in {self.unit}"]
        lines += [f"  {setting or 'all runs'}: {name} {value}" for setting, name, value in self.estimates]
        lines += [
            f"  {setting or 'all runs'}: median of 57 games about {median:.1f}, estimated from Atari-5"
            for setting, median in self.medians.items()
        ]
        if self.left_out:
            lines.append(
                f"Left out ({self.left_out}): runs that failed, or have no finished {self.phase} game or no "
                "human score, or are of a game that not every setting has"
            )
        return "\n".join(map(printable, lines if self.members else ["No run can be compared", *lines[1:]]))

    def draw(self, figure: Any) -> None:
        """Draw the curves of the first eight games, and the measures, into a figure of matplotlib's."""
        settings, games = list(dict.fromkeys(setting for setting, *_ in self.estimates)), self.games[:8]
        *panels, measures = grid(figure, len(games) + 1)
        view = View(phases=(self.phase,), axis=AXES["steps"])
        for game, axes in zip(games, panels, strict=True):
            runs = [member.data for member in self.members if member.data and member.game == game]
            for run in runs:
                run.check(("average_reward", view.axis.column), run.name)
            draw_field(axes, "average_reward", runs, settings, view, title([game]))
        for setting, name, (value, low, high) in self.estimates:
            place, row = settings.index(setting), list(MEASURES).index(name)
            x = [end for end in (low, value, high) if end is not None]
            height = row + 0.16 * (place - (len(settings) - 1) / 2)
            measures.plot(
                x, [height] * len(x), label=setting or "all runs", color=f"C{place % 10}", linewidth=2.0,
                marker="o", markersize=4, markevery=[len(x) // 2],
            )  # fmt: skip
        add_frame(measures, f"Scores: {self.span}", f"{self.unit}, with 95 % intervals")
        measures.set_yticks(range(len(MEASURES)), list(MEASURES))
        measures.invert_yaxis()
        add_legends(figure, len(settings))


def scored(runs: Sequence[RunData]) -> tuple[str, range, list[float | None]]:
    """Return the phase and the epochs to score, and the mean reward of each run in them; None: no game ended.

    The phase is test, or train where no test game has ended. The epochs are the last tenth, rounded up, of
    those that all runs have reached: 46 to 50 of 50, 5 of 5.
    """
    phase = "test" if any(len(run.line("test", "average_reward")[0]) for run in runs) else "train"
    ends = [int(run.line(phase, "epoch")[0].max(initial=0)) for run in runs]
    last = min(filter(None, ends), default=0)
    epochs = range(last - -(-last // 10) + 1, last + 1)
    lines = [run.line(phase, "average_reward") for run in runs]
    rewards = [points[(at >= epochs.start) & (at <= last)] for at, points in lines]
    return phase, epochs, [float(means.mean()) if len(means) else None for means in rewards]


class Report:
    """Writes the files that compare the runs of a sweep, and prints a line for each run that has changed."""

    def __init__(self, runs: Sequence[SweepRun], folder: Path, stream: TextIO) -> None:
        self._runs, self._folder, self._stream = runs, folder, stream
        self._lines: dict[SweepRun, str] = {}

    def update(self) -> None:
        """Print the runs that have changed; if one of them has ended, write the files again."""
        for run in self._runs:
            run.look()
        before, self._lines = self._lines, {run: _line_of(run) for run in self._runs}
        if changed := [run for run in self._runs if self._lines[run] != before.get(run)]:
            print(*(self._lines[run] for run in changed), sep="\n", file=self._stream)
            done = sum(run.state == "done" for run in self._runs)
            print(f"{done} of {len(self._runs)} runs are done", file=self._stream, flush=True)
            if before and any(run.state == "done" for run in changed):
                self.write()

    def write(self) -> str:
        """Write `comparison.csv` and `comparison.png`, and return the comparison as text."""
        comparison, path = Comparison(self._runs), self._folder / "comparison.png"
        if not comparison.members:
            return str(comparison)
        with replacing(path.with_suffix(".csv")) as beside, beside.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(comparison.rows())
        with picture(path) as figure:
            comparison.draw(figure)
        return f"{comparison}\nFigure: {path}"


def _line_of(run: SweepRun) -> str:
    """Return the state of a run, its latest epoch, and its score so far, in raw game points."""
    words = [f"{run.name}: {run.state}"]
    if run.data:
        _, epochs, (score,) = scored([run.data])
        words += [f"epoch {epochs.stop - 1}", "no score" if score is None else f"score {score:,.6g}"]
    return printable(", ".join([*words, *filter(None, [run.reason])]))
