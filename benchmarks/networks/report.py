"""The results as tables, for the terminal and for Markdown, and as a CSV file."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from networks.measuring import Cell, Row
from networks.work import DATATYPES, Task
from simple_dqn.errors import UserError
from simple_dqn.files import read_text, replacing

BEGIN, END = "<!-- networks:begin -->", "<!-- networks:end -->"
FIELDS = (
    "framework", "version", "device", "task", "batch", "datatype", "median_us", "least_us",
    "most_us", "peak_share", "cores_busy", "warm_up_s", "reason",
)  # fmt: skip

Peaks = dict[str, dict[str, float]]  # FLOP/s, by device and datatype


@dataclass(frozen=True)
class Table:
    """A table of text; `notes` are printed below it."""

    title: str
    header: list[str]
    rows: list[list[str]]
    notes: list[str]


def tables_of(rows: Sequence[Row], peaks: Peaks) -> list[Table]:
    """Return the table of each datatype."""
    tables = []
    for datatype in DATATYPES:
        if not (tasks := _measured(rows, datatype)):
            continue
        header = ["framework"]
        for task in tasks:
            header.append(f"{task.name} {task.batch}")
            header += ["of peak"] if task.training else []
        body = []
        for row in rows:
            cells = [_label(row, rows)]
            for task in tasks:
                cell = row.cells.get(task, Cell())
                cells.append(_figure(cell))
                if task.training:
                    share = peak_share(row, task, cell, peaks)
                    cells.append("–" if share is None else f"{share:.0%}")
            body.append(cells)
        title = f"Nature's deep Q-network, hidden layers in {datatype}: µs per call"
        tables.append(Table(title, header, body, _notes(rows, tasks)))
    return tables


def _measured(rows: Sequence[Row], datatype: str) -> list[Task]:
    """Return the tasks in `datatype`, predictions before updates and small batches before large ones."""
    tasks = {task for row in rows for task in row.cells if task.datatype == datatype}
    return sorted(tasks, key=lambda task: (task.training, task.batch))


def _label(row: Row, rows: Sequence[Row]) -> str:
    """Return the title of the framework, with the device if there are several."""
    return row.title if len({other.device for other in rows}) == 1 else f"{row.title}, {row.device}"


def _figure(cell: Cell) -> str:
    """Return the median in µs as text, with half the range in percent of it."""
    if not cell.seconds:
        return "wrong" if cell.reason.startswith("wrong") else "–"
    if len(cell.seconds) == 1:
        return f"{cell.middle * 1e6:,.0f}"
    spread = (max(cell.seconds) - min(cell.seconds)) / 2 / cell.middle
    return f"{cell.middle * 1e6:,.0f} ±{spread:.0%}"


def _notes(rows: Sequence[Row], tasks: Sequence[Task]) -> list[str]:
    """Return the reasons for the empty cells of each row."""
    notes = []
    for row in rows:
        reasons = [row.reason] if row.reason else [row.cells[task].reason for task in tasks]
        notes += [f"{_label(row, rows)}: {reason}" for reason in dict.fromkeys(reasons) if reason]
    return notes


def peak_share(row: Row, task: Task, cell: Cell, peaks: Peaks) -> float | None:
    """Return the speed of a cell relative to the measured peak in the same precision."""
    if not cell.seconds or row.device not in peaks:
        return None
    return task.flops / cell.middle / peaks[row.device][task.datatype]


def markdown(heading: Sequence[str], tables: Sequence[Table]) -> str:
    """Return the heading and the tables as Markdown, without rows that have no figure.

    Each note stands once below all tables.
    """
    lines = [*(f"- {line}" for line in heading)]
    for table in tables:
        measured = [row for row in table.rows if set(row[1:]) != {"–"}]
        rows = [table.header, ["---", *["---:"] * (len(table.header) - 1)], *measured]
        lines += ["", f"**{table.title}**", "", *("| " + " | ".join(row) + " |" for row in rows)]
    notes = dict.fromkeys(note for table in tables for note in table.notes)
    lines += ["", "Cells without a figure:", "", *(f"- {note}" for note in notes)] if notes else []
    return "\n".join(lines) + "\n"


def check_markers(path: Path) -> tuple[str, str]:
    """Return the text before and after the figures in the document `path`.

    Raises:
        UserError: It cannot be read, or lacks the markers.
    """
    text = read_text(path, 1 << 20, "give a Markdown file")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"{path} lacks the markers of the figures: add the lines {BEGIN} and {END}")
    return before + begin, end + after


def fill(path: Path, text: str) -> None:
    """Replace the text between the markers of the document `path`."""
    before, after = check_markers(path)
    with replacing(path) as beside:
        beside.write_text(f"{before}\n\n{text}\n{after}", encoding="utf-8")


def write_csv(path: Path, rows: Sequence[Row], peaks: Peaks) -> None:
    """Write a line for each task of each row; a framework without figures has one line with the reason."""
    with replacing(path) as beside, beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, restval="")
        writer.writeheader()
        for row in rows:
            about = {"framework": row.name, "version": row.version, "device": row.device}
            if not row.cells:
                writer.writerow(about | {"reason": row.reason})
            for task, cell in row.cells.items():
                of_task = {"task": task.name, "batch": task.batch, "datatype": task.datatype}
                writer.writerow(about | of_task | _csv_cell(row, task, cell, peaks))


def _csv_cell(row: Row, task: Task, cell: Cell, peaks: Peaks) -> dict[str, object]:
    if not cell.seconds:
        return {"reason": cell.reason or row.reason}
    figures = {"median_us": cell.middle, "least_us": min(cell.seconds), "most_us": max(cell.seconds)}
    share = peak_share(row, task, cell, peaks)
    return {
        **{name: f"{seconds * 1e6:.1f}" for name, seconds in figures.items()},
        "peak_share": "" if share is None else f"{share:.4f}",
        "cores_busy": f"{median(cell.cores):.2f}",
        "warm_up_s": f"{cell.warm_up:.2f}",
    }


def higher(peaks: Peaks, others: Peaks) -> Peaks:
    """Return the higher of each figure, because other work on the machine can only lower a peak."""
    return {
        device: {name: max(flops, others[device][name]) for name, flops in speeds.items()}
        for device, speeds in peaks.items()
        if device in others
    }
