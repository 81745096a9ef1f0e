"""The settings of a sweep compared: which runs count, their scores with intervals, and the figure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from simple_dqn.errors import printable
from simple_dqn.human_scores import SCORES, SOURCE, human_normalised
from simple_dqn.plot import title
from simple_dqn.plot.figure import AXES, Axis, Line, Panel, Plot, View, aligned
from simple_dqn.statistics.csv_file import Run
from simple_dqn.sweep.measures import MEASURES, Array, Estimate, estimate, improvement
from simple_dqn.sweep.scheduler import RunState, RunStatus

COLUMNS = (
    "setting", "measure", "value", "low", "high", "unit", "runs", "phase", "first_epoch", "last_epoch",
    "left_out",
)  # fmt: skip
CURVE_RESAMPLES = 2_000
PROBABILITY = "probability of improvement"


class Member(NamedTuple):
    """A run that is compared."""

    setting: str
    game: str
    run: Run


@dataclass(frozen=True)
class Comparison:
    """The runs that can be compared, at the latest epoch that all of them have reached."""

    members: list[Member]  # in the order of games; every setting has the same games
    phase: str
    epoch: int
    left_out: str  # the numbers of runs left out, with reasons

    @property
    def games(self) -> list[str]:
        """The games."""
        return list(dict.fromkeys(one.game for one in self.members))

    @property
    def unit(self) -> str:
        """The unit of scores: with one game its points, else percent of a human's score in each."""
        return "game points" if len(self.games) == 1 else f"% of human ({SOURCE})"

    @property
    def epochs(self) -> str:
        """The epochs whose mean is the score of a run, as text."""
        first = last_tenth(self.epoch)[0]
        return f"{self.phase} epoch{'' if first == self.epoch else f's {first} to'} {self.epoch}"

    def by_setting(self, points: Iterable[float | None]) -> dict[str, list[Array]]:
        """Return the game points of each member in `unit`, for each setting and game float64 [runs]."""
        found: dict[str, dict[str, list[float]]] = {}
        for one, value in zip(self.members, points, strict=True):
            assert value is not None
            percent = value if len(self.games) == 1 else human_normalised(one.game, value)
            assert percent is not None
            found.setdefault(one.setting, {}).setdefault(one.game, []).append(percent)
        return {setting: [np.array(runs) for runs in games.values()] for setting, games in found.items()}

    def estimates(self) -> dict[str, dict[str, Estimate]]:
        """Return each measure of each setting, and the probability of improvement of each pair."""
        scores = self.by_setting(score(one.run, self.phase, self.epoch) for one in self.members)
        found = {
            setting: {name: estimate(measure, games) for name, measure in MEASURES.items()}
            for setting, games in scores.items()
        }
        for second, first in combinations(scores, 2):
            probability = estimate(improvement, scores[first], second=scores[second])
            found[f"{first} > {second}"] = {PROBABILITY: probability}
        return found

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of the CSV, by `COLUMNS`."""
        about = (len(self.members), self.phase, last_tenth(self.epoch)[0], self.epoch, self.left_out)
        return [
            (setting, name, one.value, one.low, one.high, "" if name == PROBABILITY else self.unit, *about)
            for setting, measures in self.estimates().items()
            for name, one in measures.items()
        ]

    def __str__(self) -> str:
        """Return the report that a user reads."""
        left_out = f"Left out: {self.left_out}." if self.left_out else "No run was left out."
        count = len(self.members)
        if not count:
            return f"No run can be compared. {left_out}"
        lines = [
            f"{count} run{'s' * (count > 1)} of {', '.join(self.games)}: the mean of {self.epochs}, "
            f"in {self.unit}, with 95 % intervals where each game has two runs"
        ]
        for setting, measures in self.estimates().items():
            words = ", ".join(f"{name} {one}" for name, one in measures.items())
            lines.append(f"  {setting}: {words}" if setting else f"  {words}")
        return "\n".join(map(printable, [*lines, left_out]))

    def plot(self) -> Plot:
        """Return the figure: learning curves by steps and by minutes, the measures and the probabilities."""
        found, panels = self.estimates(), [self._curves(AXES["steps"]), self._curves(AXES["minutes"])]
        settings = [name for name, measures in found.items() if PROBABILITY not in measures]
        pairs = [name for name in found if name not in settings]
        lines = []
        for place, setting in enumerate(settings):
            shift = 0.16 * (place - (len(settings) - 1) / 2)
            for row, one in enumerate(found[setting].values()):
                lines.append(_interval(setting, place, row + shift, one))
        axis = Axis(f"{self.unit}, with 95 % intervals", "")
        panels.append(Panel(f"Scores: {self.epochs}", tuple(lines), axis=axis, rows=tuple(MEASURES)))
        if pairs:
            axis = Axis("Probability, with 95 % intervals", "", limits=(-0.02, 1.02))
            chances = [
                _interval(PROBABILITY, len(settings), row, found[pair][PROBABILITY])
                for row, pair in enumerate(pairs)
            ]
            panels.append(Panel(PROBABILITY.capitalize(), tuple(chances), axis=axis, rows=tuple(pairs)))
        return Plot(tuple(settings), tuple(panels), title(self.games))

    def _curves(self, axis: Axis) -> Panel:
        """Return the interquartile mean of each setting, in the epochs in which all its runs have scores."""
        lines = []
        for place, setting in enumerate(dict.fromkeys(one.setting for one in self.members)):
            part = Comparison([one for one in self.members if one.setting == setting], "", 0, "")
            x, values = aligned(
                [one.run for one in part.members], self.phase, "average_reward", View(axis=axis)
            )
            shared = ~np.isnan(values).any(axis=1)
            scores = [part.by_setting(row.tolist())[setting] for row in values[shared]]
            found = [
                estimate(MEASURES["interquartile mean"], games, resamples=CURVE_RESAMPLES) for games in scores
            ]
            if not found:
                continue
            middle, heights = np.median(x[shared], axis=1), np.array([one.value for one in found])
            line = Line(setting or "all runs", middle, heights, f"C{place % 10}", "solid", 2.0, place)
            if found[0].low is not None:
                low, high = (np.array([getattr(one, end) for one in found]) for end in ("low", "high"))
                line = replace(line, low=low, high=high)
            lines.append(line)
        return Panel(f"Interquartile mean, {self.unit}", tuple(lines), axis)


def _interval(label: str, place: int, height: float, one: Estimate) -> Line:
    """Return the line from end to end of an interval, with a mark at the value."""
    x = [one.value] if one.low is None or one.high is None else [one.low, one.value, one.high]
    return Line(
        label or "all runs", np.array(x), np.full(len(x), height), f"C{place % 10}", "solid", 2.0, place
    )


def compare(statuses: Sequence[RunStatus]) -> Comparison:
    """Return the runs that have not failed; see `compare_members`."""
    left_out = Counter(one.state.value for one in statuses if one.state is RunState.FAILED or not one.data)
    known = [
        Member(one.run.setting, one.run.game, one.data)
        for one in statuses
        if one.state is not RunState.FAILED and one.data
    ]
    return compare_members(known, left_out)


def compare_members(members: Sequence[Member], failed: Mapping[str, int] | None = None) -> Comparison:
    """Return `members` at the latest epoch that all of them have reached.

    With several games, those without a human score are left out, and those that not every setting has.

    Args:
        members: The runs, in any order.
        failed: The numbers of runs that were left out before, with reasons; None: there are none.
    """
    left_out, known = Counter(failed or {}), sorted(members, key=lambda one: one.game)
    phase = scored_phase([one.run for one in known])
    epoch = min(filter(None, (reached(one.run, phase) for one in known)), default=0)
    scored = [one for one in known if score(one.run, phase, epoch) is not None]
    left_out[f"without a finished {phase} game"] = len(known) - len(scored)
    many, pairs = len({one.game for one in scored}) > 1, {(one.setting, one.game) for one in scored}
    settings = {one.setting for one in scored}
    measured = [one for one in scored if one.game in SCORES or not many]
    left_out["without a human score"] = len(scored) - len(measured)
    members = [one for one in measured if all((setting, one.game) in pairs for setting in settings)]
    left_out["of a game that not every setting has"] = len(measured) - len(members)
    words = ", ".join(f"{count} {why}" for why, count in sorted(left_out.items()) if count)
    return Comparison(members, phase, epoch, words)


def scored_phase(runs: Sequence[Run]) -> str:
    """Return the phase to score: test, or train where no test game has ended."""
    return "test" if any(len(run.line("test", "average_reward")[0]) for run in runs) else "train"


def reached(run: Run, phase: str) -> int:
    """Return the latest epoch whose `phase` is over; 0: none is."""
    return int(run.line(phase, "epoch")[0].max(initial=0))


def score(run: Run, phase: str, epoch: int) -> float | None:
    """Return the mean reward of the last tenth of the epochs up to `epoch`; None: no game ended then."""
    epochs, rewards = run.line(phase, "average_reward")
    counted = rewards[np.isin(epochs, last_tenth(epoch))]
    return float(counted.mean()) if len(counted) else None


def last_tenth(epoch: int) -> range:
    """Return the last tenth of the epochs 1 to `epoch`, rounded up: 46 to 50 of 50, 5 of 5."""
    return range(epoch - -(-epoch // 10) + 1, epoch + 1)
