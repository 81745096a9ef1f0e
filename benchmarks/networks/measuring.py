"""Proves and times contenders, which take turns."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from networks.contender import Contender, ContenderError
from networks.interface import UnsupportedError
from networks.proof import Answers, difference, reference
from networks.work import Subject, Task
from networks.worker import order_of


@dataclass
class Cell:
    """What came out for one task: figures, or why there are none."""

    seconds: list[float] = field(default_factory=list)  # of one call, by round
    cores: list[float] = field(default_factory=list)  # busy meanwhile, by round
    warm_up: float = 0.0  # seconds until it was stable
    reason: str = ""

    @property
    def busy(self) -> float:
        """Return the median of the cores busy."""
        return median(self.cores)

    @property
    def middle(self) -> float:
        """Return the median of the seconds of a call."""
        return median(self.seconds)


@dataclass
class Row:
    """One framework on one device."""

    title: str
    name: str
    device: str
    version: str = ""
    reason: str = ""  # why it has no figures at all
    cells: dict[Task, Cell] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    tasks: Sequence[Task]
    rounds: int
    seconds: float  # of each figure in each round
    warm_up: float  # seconds at most of each task


def say(words: str) -> None:
    """Tell the user on standard error what is going on."""
    print(words, file=sys.stderr, flush=True)


def measure(contenders: dict[str, Contender], rows: dict[str, Row], plan: Plan) -> None:
    """Fill `rows`, which have the keys of `contenders`.

    Raises nothing: who cannot go on has a row that says why.
    """
    prove(contenders, rows, plan)
    for key, contender in contenders.items():
        say(f"Warming up {contender.title}")
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
    """Give every task of every row a cell, which says why where the framework is not to be timed."""
    say("Working out what every framework must answer")
    plain = dict.fromkeys(Subject(task.subject.network) for task in plan.tasks)
    expected = {subject.network: reference(subject) for subject in plain}
    for key, contender in contenders.items():
        say(f"Proving that {contender.title} does the same work")
        outcomes = {
            subject: _prove(contender, rows[key], subject, expected[subject.network])
            for subject in dict.fromkeys(task.subject for task in plan.tasks)
        }
        for task in plan.tasks:
            reason, learns = outcomes[task.subject]
            if task.training and not learns:
                reason = reason or "inference only"
            rows[key].cells[task] = Cell(reason=reason)


def _prove(contender: Contender, row: Row, subject: Subject, expected: Answers) -> tuple[str, bool]:
    """Return why the framework cannot be timed with `subject`, or nothing, and whether it learns."""
    if row.reason:
        return row.reason, False
    try:
        order = {"do": "prove", "network": subject.network, "datatype": subject.datatype}
        answer = contender.ask(order)
    except UnsupportedError as error:
        return str(error), False
    except ContenderError as error:
        row.reason = str(error)
        return row.reason, False
    given = Answers(np.array(answer["outputs"]), answer["loss"])
    return difference(given, expected, subject.datatype), answer["loss"] is not None


def _ask(contender: Contender, row: Row, task: Task, what: str, seconds: float) -> dict[str, float]:
    """Return the answer, or nothing where the contender fails: then its row, or the cell, says why."""
    if row.reason:
        return {}
    try:
        return contender.ask({"do": what, "seconds": seconds, **order_of(task)})
    except UnsupportedError as error:
        row.cells[task].reason = str(error)
    except ContenderError as error:
        row.reason = str(error)
    return {}
