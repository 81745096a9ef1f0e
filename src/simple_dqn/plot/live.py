"""Draws anew each time a CSV grows, until it is told to stop."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from simple_dqn.errors import UserError
from simple_dqn.interrupt import Interrupt
from simple_dqn.plot.request import Request
from simple_dqn.plot.window import Window, open_window
from simple_dqn.statistics import Run

LOOK_SECONDS = 1.0  # between two looks at the CSV files
RELOAD_SECONDS = 10.0  # between two looks of the page at itself


def follow(request: Request) -> None:
    """Draw what `request` asks for each time a CSV changes, in a window too where there can be one.

    Ends when the window is closed. The page stops loading itself again then.

    Raises:
        UserError: It cannot be drawn as asked.
        KeyboardInterrupt: A signal to stop came; the files are whole.
    """
    window = open_window(", ".join(dict.fromkeys(request.names.values())), request.width, request.height)
    where = "" if window else "; there is no window (it needs a display, and a GUI toolkit such as Tk)"
    print(f"Drawing {request.files} each time the CSV grows, until Ctrl-C{where}", flush=True)
    plot = None
    with Interrupt() as interrupt:
        for runs in changes(request, lambda: _wait(interrupt, window)):
            plot = request.plot(runs)
            request.write(plot, RELOAD_SECONDS)
            if window:
                window.draw(plot)
        if plot and request.html_file:
            request.write(plot)
    if interrupt.requested:
        raise KeyboardInterrupt


def _wait(interrupt: Interrupt, window: Window | None) -> bool:
    """Wait for the next look at the files; return whether there is to be one."""
    if window is None:
        time.sleep(LOOK_SECONDS)
        return not interrupt.requested
    window.wait(LOOK_SECONDS)
    return window.open and not interrupt.requested


def changes(request: Request, wait: Callable[[], bool]) -> Iterator[list[Run]]:
    """Yield the runs that can be read, at first and each time one of their files has changed.

    What cannot be read is waited for: a file that is not there yet, that holds nothing to draw, as when a
    run starts anew, or that is broken at the moment.

    Args:
        request: Which files.
        wait: Is called between two looks at them; returns whether to go on.
    """
    seen: list[tuple[int, ...]] | None = None
    complaints: dict[Path, str] = {}
    while True:
        now = [_stamp(path) for path in request.names]
        if now != seen:
            seen = now
            runs = _read_those_there(request, complaints)
            if runs:
                yield runs
        if not wait():
            return


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what changes when the file does; nothing if there is none."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read_those_there(request: Request, complaints: dict[Path, str]) -> list[Run]:
    """Return the runs that can be read; say why others are waited for, unless `complaints` say the same."""
    runs = []
    for path in request.names:
        complaint = ""
        try:
            runs.append(request.read(path))
        except UserError as error:
            complaint = str(error)
        if complaint and complaint != complaints.get(path):
            print(f"Waiting: {complaint}", flush=True)
        complaints[path] = complaint
    return runs
