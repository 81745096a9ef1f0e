"""The command line of `./bench.sh networks`."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import command
from command import positive
from table import machine, print_table

from networks import chart, report
from networks.catalogue import FRAMEWORKS, home
from networks.contender import Contender, ContenderError
from networks.installer import install
from networks.measuring import Plan, Row, measure, say
from networks.work import QUICK_TASKS, TASKS
from simple_dqn.errors import UserError
from simple_dqn.flags import Parser
from simple_dqn.machine import usable_cores

# rounds, seconds of each figure in a round, seconds of warm-up at most
QUICK, FULL = (3, 0.2, 1.0), (7, 1.0, 20.0)


def parser() -> Parser:
    """Return the parser of the flags."""
    result = command.parser("networks", "Time small networks under today's frameworks.")
    add = result.add_argument
    add("frameworks", nargs="*", metavar="FRAMEWORK", help=f"some of {', '.join(FRAMEWORKS)} (default: all)")
    add("--install", action="store_true", help="install those that are not, each beside the project's own")
    add("--quick", action="store_true", help="fewer tasks and shorter: under 3 minutes once all is compiled")
    add("--threads", type=positive(int), default=usable_cores(), help="CPU threads (default: %(default)s)")
    add(
        "--rounds", type=positive(int), help=f"repeats of each figure (default: {FULL[0]}, quick: {QUICK[0]})"
    )
    add("--csv_file", type=Path, default=home() / "results" / "networks.csv", help="(default: %(default)s)")
    add("--png_file", type=Path, help="the chart (default: beside the CSV)")
    add(
        "--docs",
        type=Path,
        metavar="FILE",
        help="put the tables into this Markdown file, between its markers",
    )
    return result


def choose(words: Sequence[str]) -> list[str]:
    """Return the frameworks that `words` name, or all.

    Raises:
        UserError: There is no such framework.
    """
    for word in words:
        if word not in FRAMEWORKS:
            raise UserError(f"there is no framework {word!r}: choose among {', '.join(FRAMEWORKS)}")
    return list(dict.fromkeys(words)) or list(FRAMEWORKS)


def devices() -> list[str]:
    """Return "cpu", and "gpu" where there is one that NVIDIA's tools see."""
    tool = shutil.which("nvidia-smi")
    return ["cpu", "gpu"] if tool and subprocess.run([tool, "-L"], capture_output=True).stdout else ["cpu"]


def peaks(threads: int) -> report.Peaks:
    """Return the speed of large matrix products, FLOP/s by device and datatype."""
    result = {}
    for device in devices():
        command = [sys.executable, "-P", "-m", "networks.peak", device, str(threads)]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode == 0:
            result[device] = json.loads(done.stdout.splitlines()[-1])
    return result


def run(frameworks: Sequence[str], plan: Plan, threads: int, failures: dict[str, str]) -> list[Row]:
    """Measure `frameworks` on every device there is; a framework that fails leaves the others running."""
    rows: dict[str, Row] = {}
    contenders: dict[str, Contender] = {}
    with ExitStack() as stack:
        for device in devices():
            for name in frameworks:
                key = f"{name} {device}"
                rows[key] = row = Row(FRAMEWORKS[name].title, name, device)
                try:
                    if name in failures:
                        raise ContenderError(failures[name])
                    say(f"Starting {row.title} on the {device.upper()}")
                    contenders[key] = Contender(name, device, threads)
                except ContenderError as error:
                    row.reason = str(error)
                    continue
                stack.callback(contenders[key].close)
                row.version = contenders[key].version
        measure(contenders, rows, plan)
    return list(rows.values())


def heading(flags: dict[str, Any], plan: Plan, rows: Sequence[Row], speeds: report.Peaks) -> list[str]:
    """Return what a reader must know to make sense of the figures."""
    lines = [
        f"{machine()}; {flags['threads']} threads for every framework",
        f"median of {plan.rounds} rounds of {plan.seconds:g} s in turns, ± half the range",
        "versions: " + "; ".join(f"{row.title} {row.version}" for row in rows if row.version),
    ]
    for device, speed in speeds.items():
        figures = ", ".join(f"{name} {flops / 1e9:,.0f} GFLOP/s" for name, flops in speed.items())
        lines.append(f"peak on the {device.upper()}, the fastest large matrix product: {figures}")
    if devices() == ["cpu"]:
        lines.append("no GPU here: the figures of GPUs are left out")
    return lines


def main(words: Sequence[str]) -> None:
    """Measure what the command line asks for.

    Raises:
        UserError: Something in it cannot be done.
    """
    flags = parser().parse(words)
    frameworks = choose(flags["frameworks"])
    if not 1 <= flags["threads"] <= usable_cores():
        raise UserError(
            f"--threads {flags['threads']} cannot be: give 1 to {usable_cores()}, the usable cores"
        )
    if flags["docs"]:
        report.check_markers(flags["docs"])
    failures = install(frameworks) if flags["install"] else {}
    rounds, seconds, warm_up = QUICK if flags["quick"] else FULL
    plan = Plan(QUICK_TASKS if flags["quick"] else TASKS, flags["rounds"] or rounds, seconds, warm_up)
    speeds = peaks(flags["threads"])
    rows = run(frameworks, plan, flags["threads"], failures)
    speeds = report.higher(speeds, peaks(flags["threads"]))
    lines = heading(flags, plan, rows, speeds)
    tables = [*report.original_tables(rows), *report.dqn_tables(rows, speeds)]
    print("\n".join(lines))
    for table in tables:
        print_table(table.title, table.header, table.rows)
        print("\n".join(table.notes))
    report.write_csv(flags["csv_file"], rows, speeds)
    chart.draw(rows, flags["png_file"] or flags["csv_file"].with_suffix(".png"))
    if flags["docs"]:
        report.fill(flags["docs"], report.markdown(lines, tables))
    print(f"\nThe figures are in {flags['csv_file']}")


if __name__ == "__main__":
    sys.exit(command.console("networks", main))
