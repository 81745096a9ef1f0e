"""Tables of text, and the line that says what made them."""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from simple_dqn.machine import usable_cores

PACKAGES = ("torch", "numpy", "ale-py")  # on which the figures depend most


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print `rows` under `header` in aligned columns: the first to the left, the others to the right.

    A row may end early: its last cell is then a remark, which runs on over the columns that are left out.
    """
    lines = [[str(cell) for cell in row] for row in (header, *rows)]
    whole = [line for line in lines if len(line) == len(header)]
    widths = [max(len(cell) for cell in column) for column in zip(*whole, strict=True)]
    widths[0] = max(len(line[0]) for line in lines)
    print(f"\n{title}")
    for number, line in enumerate(lines):
        remark = [] if len(line) == len(header) else [line.pop()]
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=False)]
        print("  ".join(cells + remark).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


def machine() -> str:
    """Return what the figures depend on: the processor, its cores, and the versions of what computes."""
    name = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text().splitlines()
        name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), name)
    versions = [f"{package} {_version(package)}" for package in PACKAGES]
    python = f"Python {platform.python_version()}"
    return ", ".join([name, f"{usable_cores()} usable core(s)", python, *versions])


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
