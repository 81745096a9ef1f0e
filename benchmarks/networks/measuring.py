"""Checks the results of the frameworks, then times them alternately."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

import numpy as np

from networks.contender import Contender, ContenderError
from networks.interface import UnsupportedError
from networks.proof import Answers, difference, reference
from networks.work import Task


@dataclass
class Cell:
    """The figures of one task, or the reason why there are none."""

    seconds: list[float] = field(default_factory=list)  # per call, by round
    cores: list[float] = field(default_factory=list)  # number of busy cores, by round
    warm_up: float = 0.0  # seconds until the speed was stable
    reason: str = ""

    @property
    def middle(self) -> float:
        """Return the median seconds per call."""
        return median(self.seconds)


@dataclass
class Row:
    """One framework on one device."""

    title: str
    name: str
    device: str
    version: str = ""
    reason: str = ""  # why the whole row has no figures
    cells: dict[Task, Cell] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """What to measure, and for how long."""

    tasks: Sequence[Task]
    rounds: int
    seconds: float  # per figure and round
    warm_up: float  # maximum seconds per task


def say(words: str) -> None:
    """Print a progress message to standard error."""
    print(words, file=sys.stderr, flush=True)


def measure(contenders: dict[str, Contender], rows: dict[str, Row], plan: Plan) -> None:
    """Fill `rows`, which have the keys of `contenders`.

    An error of a framework is not raised: its row gets the reason.
    """
    prove(contenders, rows, plan)
    for key, contender in contenders.items():
        say(f"Warming up {rows[key].title}")
        for task, cell in rows[key].cells.items():
            if not cell.reason:
                cell.warm_up = _ask(contender, rows[key], task, "warm_up", plan.warm_up).get("seconds", 0.0)
    for number in range(plan.rounds):
        say(f"Round {number + 1} of {plan.rounds}")
        order = list(contenders) if number % 2 == 0 else list(reversed(contenders))
        for task in plan.tasks:
            for key in order:
                cell = rows[key].cells[task]
                if cell.reason or rows[key].reason:
                    continue
                answer = _ask(contenders[key], rows[key], task, "measure", plan.seconds)
                if answer:
                    cell.seconds.append(answer["seconds"])
                    cell.cores.append(answer["cores"])


def prove(contenders: dict[str, Contender], rows: dict[str, Row], plan: Plan) -> None:
    """Add a cell for every task to every row, with a reason where the framework cannot be timed."""
    say("Computing the reference results")
    expected = reference()
    for key, contender in contenders.items():
        say(f"Checking the results of {rows[key].title}")
        outcomes = {
            datatype: _prove(contender, rows[key], datatype, expected)
            for datatype in dict.fromkeys(task.datatype for task in plan.tasks)
        }
        for task in plan.tasks:
            reason, learns = outcomes[task.datatype]
            if task.training and not learns:
                reason = reason or "inference only"
            rows[key].cells[task] = Cell(reason=reason)


def _prove(contender: Contender, row: Row, datatype: str, expected: Answers) -> tuple[str, bool]:
    """Return why the framework cannot be timed in `datatype`, or "", and whether it supports training."""
    if row.reason:
        return row.reason, False
    try:
        answer = contender.ask({"do": "prove", "datatype": datatype})
    except UnsupportedError as error:
        return str(error), False
    except ContenderError as error:
        row.reason = str(error)
        return row.reason, False
    given = Answers(np.array(answer["outputs"]), answer["loss"])
    return difference(given, expected, datatype, row.device), answer["loss"] is not None


def _ask(contender: Contender, row: Row, task: Task, what: str, seconds: float) -> dict[str, float]:
    """Return the answer; if the framework fails, store the reason in its cell or row and return {}."""
    if row.reason:
        return {}
    try:
        return contender.ask({"do": what, "seconds": seconds, **asdict(task)})
    except UnsupportedError as error:
        row.cells[task].reason = str(error)
    except ContenderError as error:
        row.reason = str(error)
    return {}
