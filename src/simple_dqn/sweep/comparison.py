"""The settings of a sweep compared: measures with their intervals, and the files and lines that show them.

The measures are those of rliable (Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the
Statistical Precipice", arXiv:2108.13264), which needs the same number of runs for every game. A measure maps
one or two settings to float64 [B]; a setting has an array [B, runs] for each game.
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from simple_dqn.errors import printable
from simple_dqn.evaluation import SCORES, SOURCE, human_normalized
from simple_dqn.files import replacing
from simple_dqn.plot import AXES, Axis, Line, Panel, Plot, View, aligned, make_plot, title, write
from simple_dqn.statistics.csv_file import Run
from simple_dqn.sweep.pool import STATES, Member, SweepRun

RESAMPLES = 10_000
CURVE_RESAMPLES = 2_000
BATCH = 500  # resamples that are computed together
TAILS = (0.025, 0.975)  # of a 95 % interval
PROBABILITY = "probability of improvement"
SHOWN = ("epoch", "steps", "score", "steps/s")
Array = NDArray[np.float64]


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


def improvement(first: Sequence[Array], second: Sequence[Array]) -> Array:
    """Return P(X > Y) + P(X = Y) / 2 for a run X of `first` and Y of `second`, the mean over games."""
    signs = [np.sign(x[:, :, None] - y[:, None]) for x, y in zip(first, second, strict=True)]
    return np.asarray(np.mean([sign.mean(axis=(1, 2)) for sign in signs], axis=0) / 2 + 0.5)


MEASURES: dict[str, Callable[[Sequence[Array]], Array]] = {
    "interquartile mean": interquartile_mean,
    "median": lambda games: np.asarray(np.median([runs.mean(axis=1) for runs in games], axis=0)),
    "mean": lambda games: np.asarray(np.mean([runs.mean(axis=1) for runs in games], axis=0)),
}


def estimate(
    measure: Callable[..., Array], *settings: Sequence[Array], resamples: int = RESAMPLES
) -> Estimate:
    """Return `measure` of one setting or two, with the percentile interval of a stratified bootstrap.

    A setting has for each game the scores of its runs, float64 [runs]. Each resample draws runs with
    replacement within each game of each setting, and keeps the games. The same scores give the same interval.
    """
    value = float(measure(*([runs[np.newaxis] for runs in games] for games in settings))[0])
    if min(len(runs) for games in settings for runs in games) < 2:
        return Estimate(value)
    rng = np.random.default_rng(0)

    def resample(games: Sequence[Array]) -> list[Array]:
        return [runs[rng.integers(len(runs), size=(BATCH, len(runs)))] for runs in games]

    found = [measure(*map(resample, settings)) for _ in range(resamples // BATCH)]
    low, high = np.quantile(np.concatenate(found), TAILS)
    return Estimate(value, float(low), float(high))


class Comparison:
    """The runs that can be compared."""

    def __init__(self, members: dict[Member, float], phase: str, epochs: range, left_out: str) -> None:
        """Compare `members`, in the order of games, by their scores in the mean of the `epochs`.

        Every setting has the same games. `left_out` has the numbers of other runs, with reasons.
        """
        self.members, self.phase, self.epochs, self.left_out = members, phase, epochs, left_out
        self.games = list(dict.fromkeys(one.game for one in members))
        # With one game scores are its points, else percent of a human's score in each.
        self.unit = "game points" if len(self.games) == 1 else f"% of human ({SOURCE})"
        self.span = f"{phase} epoch{f's {epochs.start} to' if len(epochs) > 1 else ''} {epochs.stop - 1}"

    def by_setting(self, points: Iterable[float]) -> dict[str, list[Array]]:
        """Return the game points of each member in `unit`, for each setting and game float64 [runs]."""
        found: dict[str, dict[str, list[float]]] = {}
        for one, value in zip(self.members, points, strict=True):
            percent = human_normalized(one.game, value) if len(self.games) > 1 else value
            found.setdefault(one.setting, {}).setdefault(one.game, []).append(percent or 0.0)
        return {setting: list(map(np.array, games.values())) for setting, games in found.items()}

    @cached_property
    def estimates(self) -> dict[str, dict[str, Estimate]]:
        """Return each measure of each setting, and the probability of improvement of each pair."""
        scores = self.by_setting(self.members.values())
        found = {
            setting: {name: estimate(measure, games) for name, measure in MEASURES.items()}
            for setting, games in scores.items()
        }
        for second, first in combinations(scores, 2):
            found[f"{first} > {second}"] = {PROBABILITY: estimate(improvement, scores[first], scores[second])}
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the CSV, by column."""
        about = {"runs": len(self.members), "scored": self.span, "left_out": self.left_out}
        return [
            {"setting": setting, "measure": name, **one._asdict(),
             "unit": "" if name == PROBABILITY else self.unit, **about}
            for setting, measures in self.estimates.items()
            for name, one in measures.items()
        ]  # fmt: skip

    def __str__(self) -> str:
        """Return the report that a user reads."""
        left_out = f"Left out: {self.left_out}." if self.left_out else "No run was left out."
        if not self.members:
            return f"No run can be compared. {left_out}"
        count = f"{len(self.members)} run{'s' * (len(self.members) > 1)} of {', '.join(self.games)}"
        lines = [f"{count}: the mean of {self.span}, in {self.unit}, with 95 % intervals from two runs on"]
        for setting, measures in self.estimates.items():
            words = ", ".join(f"{name} {one}" for name, one in measures.items())
            lines.append(f"  {setting}: {words}" if setting else f"  {words}")
        return "\n".join(map(printable, [*lines, left_out]))

    def plot(self) -> Plot:
        """Return the figure: learning curves by steps and by minutes, the measures and the probabilities."""
        found = self.estimates
        settings = [name for name, measures in found.items() if PROBABILITY not in measures]
        pairs = [name for name in found if name not in settings]
        scores = [
            _interval(setting, place, row + 0.16 * (place - (len(settings) - 1) / 2), one)
            for place, setting in enumerate(settings)
            for row, one in enumerate(found[setting].values())
        ]
        chances = [
            _interval(PROBABILITY, len(settings), row, found[pair][PROBABILITY])
            for row, pair in enumerate(pairs)
        ]
        axis = Axis(f"{self.unit}, with 95 % intervals", "")
        chance = Axis("Probability, with 95 % intervals", "", limits=(-0.02, 1.02))
        panels = [self._curves(AXES[x], settings) for x in ("steps", "minutes")]
        panels += [Panel(f"Scores: {self.span}", tuple(scores), axis, rows=tuple(MEASURES))]
        if pairs:
            panels += [Panel(PROBABILITY.capitalize(), tuple(chances), chance, rows=tuple(pairs))]
        return Plot(tuple(settings), tuple(panels), title(self.games))

    def _curves(self, axis: Axis, settings: Sequence[str]) -> Panel:
        """Return the interquartile mean of each setting, in the epochs in which all its runs have scores."""
        lines = []
        for place, setting in enumerate(settings):
            members = {one: score for one, score in self.members.items() if one.setting == setting}
            part = Comparison(members, self.phase, self.epochs, "")
            data = [one.data for one in members if one.data]
            x, values = aligned(data, self.phase, "average_reward", View(axis=axis))
            shared = ~np.isnan(values).any(axis=1)
            scores = [part.by_setting(row.tolist())[setting] for row in values[shared]]
            found = [estimate(interquartile_mean, one, resamples=CURVE_RESAMPLES) for one in scores]
            if found:
                middle, (heights, low, high) = np.median(x[shared], axis=1), np.array(found, np.float64).T
                line = Line(setting or "all runs", middle, heights, f"C{place % 10}", "solid", 2.0)
                lines.append(line if np.isnan(low).any() else replace(line, low=low, high=high))
        return Panel(f"Interquartile mean, {self.unit}", tuple(lines), axis)


def _interval(label: str, place: int, height: float, one: Estimate) -> Line:
    """Return the line from end to end of an interval, with a mark at the value."""
    x = np.array([one.value] if one.low is None else [one.low, one.value, one.high], np.float64)
    return Line(label or "all runs", x, np.full(len(x), height), f"C{place % 10}", "solid", 2.0)


def compare(runs: Sequence[Member]) -> Comparison:
    """Return `runs` at the latest epoch that all of them have reached, without those that have failed.

    With several games, those without a human score are left out, and those that not every setting has.
    """
    known = [one for one in sorted(runs, key=lambda one: one.game) if one.data and one.state != "failed"]
    left_out = Counter(one.state for one in runs if one not in known)
    phase, epochs, points = scored([one.data for one in known if one.data])
    scores = {one: score for one, score in zip(known, points, strict=True) if score is not None}
    left_out[f"without a finished {phase} game"] = len(known) - len(scores)
    settings, several = {one.setting for one in scores}, len({one.game for one in scores}) > 1
    measured = [one for one in scores if one.game in SCORES or not several]
    left_out["without a human score"] = len(scores) - len(measured)
    pairs = {(one.setting, one.game) for one in measured}
    shared = [one for one in measured if all((setting, one.game) in pairs for setting in settings)]
    left_out["of a game that not every setting has"] = len(measured) - len(shared)
    words = ", ".join(f"{count} {why}" for why, count in sorted(left_out.items()) if count)
    return Comparison({one: scores[one] for one in shared}, phase, epochs, words)


def scored(runs: Sequence[Run]) -> tuple[str, range, list[float | None]]:
    """Return the phase and the epochs to score, and the mean reward of each run in them; None: no game ended.

    The phase is test, or train where no test game has ended. The epochs are the last tenth, rounded up, of
    those that all runs have reached: 46 to 50 of 50, 5 of 5.
    """
    phase = "test" if any(len(run.line("test", "average_reward")[0]) for run in runs) else "train"
    ends = [int(run.line(phase, "epoch")[0].max(initial=0)) for run in runs]
    last = min(filter(None, ends), default=0)
    epochs = range(last - -(-last // 10) + 1, last + 1)
    lines = [run.line(phase, "average_reward") for run in runs]
    rewards = [points[np.isin(at, epochs)] for at, points in lines]
    return phase, epochs, [float(one.mean()) if len(one) else None for one in rewards]


class Report:
    """Keeps the files of a sweep in `folder`, and the lines that show its runs, up to date."""

    def __init__(self, runs: Sequence[SweepRun], folder: Path, stream: TextIO) -> None:
        self._runs, self._folder, self._stream = runs, folder, stream
        self._rows: dict[str, dict[str, Any]] = {}

    def update(self) -> None:
        """Show the runs that have changed, and renew the files; the figures, if one has ended."""
        before, self._rows = self._rows, {one.name: row_of(one) for one in self._runs}
        changed = [one for one in self._runs if self._rows[one.name] != before.get(one.name)]
        if not changed:
            return
        for one in changed:
            row = self._rows[one.name]
            numbers = [f"{name} {row[name]:,.6g}" for name in SHOWN if row[name] is not None]
            words = [f"{one.name}: {one.state}", *numbers, *filter(None, [one.reason])]
            print(printable(", ".join(words)), file=self._stream)
        counts = Counter(one.state for one in self._runs)
        states = ", ".join(f"{counts[state]} {state}" for state in STATES)
        print(f"{len(self._runs)} runs: {states}", file=self._stream, flush=True)
        rows = sorted(self._rows.values(), key=lambda row: (row["game"], row["setting"], row["seed"]))
        _write_csv(self._folder / "summary.csv", rows)
        if before and (ended := {one.game for one in changed if one.state == "done"}):
            self.compare(ended)

    def compare(self, games: Iterable[str]) -> str:
        """Draw a figure for each of `games`, write the comparison of the settings, and return it as text."""
        folder, comparison = self._folder, compare(self._runs)
        for game in sorted(games):
            data = [one.data for one in self._runs if one.game == game and one.data]
            names = list(dict.fromkeys(run.name for run in data))
            if data:
                write(make_plot(data, names, View(title=title([game]))), folder / f"{game}.png")
        if not comparison.members:
            return str(comparison)
        _write_csv(folder / "comparison.csv", comparison.rows())
        write(comparison.plot(), folder / "comparison.png")
        return f"{comparison}\nFigure: {folder / 'comparison.png'}"


def row_of(run: SweepRun) -> dict[str, Any]:
    """Return the row of a run in the summary, by column; a number that does not exist yet is None.

    `score` is the mean average reward of the last tenth of the run's epochs so far, in raw game points.
    """
    row: dict[str, Any] = {"game": run.game, "setting": run.setting, "seed": run.seed, "state": run.state}
    row |= dict.fromkeys(("epoch", "steps", "hours", "phase", "score", "score_human_normalised", "steps/s"))
    if data := run.data:
        last = {name: float(np.nan_to_num(column[-1])) for name, column in data.columns.items()}
        phase, _, (points,) = scored([data])
        percent = None if points is None else human_normalized(run.game, points)
        row |= {"epoch": int(last["epoch"]), "steps": int(last["total_train_steps"]), "phase": phase,
                "hours": round(last["total_time"] / 3600, 4), "score": points,
                "score_human_normalised": percent, "steps/s": round(last["steps_per_second"])}  # fmt: skip
    return {**row, "reason": run.reason}


def _write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write a CSV, completely or not at all."""
    with replacing(path) as beside, beside.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([rows[0], *(row.values() for row in rows)])
