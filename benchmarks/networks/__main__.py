"""The command line of `./bench.sh networks`."""

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import common
from common import machine, positive, print_table

from networks import report
from networks.catalogue import FRAMEWORKS, install
from networks.contender import Contender, ContenderError
from networks.measuring import Plan, Row, measure, say
from networks.work import QUICK_TASKS, TASKS
from simple_dqn.command_line import Parser
from simple_dqn.errors import UserError
from simple_dqn.files import check_target, home
from simple_dqn.machine import usable_cores
from simple_dqn.sweep.pool import visible_gpus

# rounds, seconds per figure and round, maximum seconds of warm-up
QUICK, FULL = (3, 0.2, 1.0), (7, 1.0, 20.0)


def parser() -> Parser:
    """Return the parser of the flags."""
    result = common.parser("networks", "Measure the speed of Nature's network in several frameworks.")
    add = result.add_argument
    add("frameworks", nargs="*", metavar="FRAMEWORK", help=f"{', '.join(FRAMEWORKS)} (default: all)")
    add("--install", action="store_true", help="install missing frameworks, each in its own environment")
    add("--quick", action="store_true", help="fewer and shorter measurements: under 3 minutes")
    add("--threads", type=positive(int), default=usable_cores(), help="CPU threads (default: %(default)s)")
    rounds = f"measurements per figure (default: {FULL[0]}, quick: {QUICK[0]})"
    add("--rounds", type=positive(int), help=rounds)
    add("--csv_file", type=Path, default=home() / "results" / "networks.csv", help="(default: %(default)s)")
    add("--docs", type=Path, metavar="FILE", help="write the tables between the markers of this page")
    return result


def choose(words: Sequence[str]) -> list[str]:
    """Return the frameworks in `words`, all if it is empty, or raise UserError if one is unknown."""
    for word in words:
        if word not in FRAMEWORKS:
            raise UserError(f"unknown framework {word!r}: choose from {', '.join(FRAMEWORKS)}")
    return list(dict.fromkeys(words)) or list(FRAMEWORKS)


def devices() -> list[str]:
    """Return "cpu", and "gpu" if nvidia-smi finds one."""
    return ["cpu", "gpu"] if visible_gpus() else ["cpu"]


def peaks(threads: int) -> report.Peaks:
    """Return the speed of large matrix products in FLOP/s, by device and datatype."""
    result = {}
    for device in devices():
        command = [sys.executable, "-P", "-m", "networks.peak", device, str(threads)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            result[device] = json.loads(done.stdout.splitlines()[-1])
    return result


def run(frameworks: Sequence[str], plan: Plan, threads: int, failures: dict[str, str]) -> list[Row]:
    """Measure `frameworks` on every device; if one fails, the others continue."""
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


def heading(threads: int, plan: Plan, rows: Sequence[Row], speeds: report.Peaks) -> list[str]:
    """Return the lines above the tables: machine, method, versions and peak speeds."""
    lines = [
        f"{machine()}; {threads} threads for every framework",
        f"median of {plan.rounds} alternating rounds of {plan.seconds:g} s, ± half the range",
        "versions: " + "; ".join(f"{row.title} {row.version}" for row in rows if row.version),
    ]
    for device, speed in speeds.items():
        figures = ", ".join(f"{name} {flops / 1e9:,.0f} GFLOP/s" for name, flops in speed.items())
        lines.append(f"peak speed of the {device.upper()} in a large matrix product: {figures}")
    if devices() == ["cpu"]:
        lines.append("no GPU: measured on the CPU only")
    return lines


def main(words: Sequence[str]) -> None:
    """Measure and report for the command line, or raise UserError if a flag is not valid."""
    flags = parser().parse(words)
    frameworks = choose(flags["frameworks"])
    if flags["threads"] > usable_cores():
        raise UserError(
            f"--threads {flags['threads']} exceeds the usable cores: give at most {usable_cores()}"
        )
    if flags["docs"]:
        report.check_markers(flags["docs"])
    check_target(flags["csv_file"], "--csv_file", (b"framework,",))
    failures = install(frameworks) if flags["install"] else {}
    rounds, seconds, warm_up = QUICK if flags["quick"] else FULL
    plan = Plan(QUICK_TASKS if flags["quick"] else TASKS, flags["rounds"] or rounds, seconds, warm_up)
    speeds = peaks(flags["threads"])
    rows = run(frameworks, plan, flags["threads"], failures)
    speeds = report.higher(speeds, peaks(flags["threads"]))
    lines = heading(flags["threads"], plan, rows, speeds)
    tables = report.tables_of(rows, speeds)
    print("\n".join(lines))
    for table in tables:
        print_table(table.title, table.header, table.rows)
        print("\n".join(table.notes))
    report.write_csv(flags["csv_file"], rows, speeds)
    if flags["docs"]:
        report.fill(flags["docs"], report.markdown(lines, tables))
    print(f"\nThe figures are in {flags['csv_file']}")


if __name__ == "__main__":
    sys.exit(common.console("networks", main))
