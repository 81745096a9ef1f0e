"""Draws again each time a CSV grows, to the files and in a window, until the user ends it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from matplotlib import pyplot
from matplotlib.figure import Figure

from simple_dqn.errors import UserError
from simple_dqn.interrupt import Interrupt
from simple_dqn.plot.command import Request
from simple_dqn.plot.panels import Plot
from simple_dqn.plot.png import draw_into
from simple_dqn.statistics import Run

POLL_SECONDS = 1.0  # between two looks at the CSVs
RELOAD_SECONDS = 10.0  # after which the page loads itself again
DPI = 80  # of the window


class Window:
    """A window of matplotlib, by whichever GUI toolkit it finds; open until the user closes it."""

    def __init__(self, figure: Figure) -> None:
        self._figure = figure
        self.open = True
        figure.canvas.mpl_connect("close_event", self._on_close)
        pyplot.show(block=False)

    def draw(self, plot: Plot) -> None:
        """Show `plot`, and keep the axes that the user has zoomed."""
        zoomed = {
            place: (axes.get_xlim(), axes.get_ylim())
            for place, axes in enumerate(self._figure.axes)
            if not (axes.get_autoscalex_on() and axes.get_autoscaley_on())
        }
        draw_into(self._figure, plot)
        toolbar = self._figure.canvas.toolbar
        if zoomed and toolbar is not None:
            toolbar.push_current()  # the view of its button "home"
        for place, (horizontal, vertical) in zoomed.items():
            self._figure.axes[place].set(xlim=horizontal, ylim=vertical)
        self._figure.canvas.draw_idle()

    def wait(self, seconds: float) -> None:
        """Wait while the user can move, zoom and close the window."""
        self._figure.canvas.start_event_loop(seconds)

    def _on_close(self, _event: object) -> None:
        self.open = False


def open_window(title: str, width: float, height: float) -> Window | None:
    """Return a window of `width` × `height` inches; None where there is no display or no GUI toolkit."""
    try:
        figure = pyplot.figure(title, figsize=(width, height), dpi=DPI)
    except Exception:  # Each toolkit has its own exception for a missing display.
        return None
    if figure.canvas.required_interactive_framework is None:  # a backend that only writes files
        pyplot.close(figure)
        return None
    return Window(figure)


def follow(request: Request) -> None:
    """Draw what `request` asks for each time a CSV changes, also in a window if there is a display.

    Returns when the user closes the window. The last page that it writes does not reload.

    Raises:
        UserError: A run lacks a field, or a file cannot be written.
        KeyboardInterrupt: A signal ended it; the files are complete.
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
    """Wait for `POLL_SECONDS`, and return whether to go on."""
    if window is None:
        time.sleep(POLL_SECONDS)
        return not interrupt.requested
    window.wait(POLL_SECONDS)
    return window.open and not interrupt.requested


def changes(request: Request, wait: Callable[[], bool]) -> Iterator[list[Run]]:
    """Yield the runs that can be read, at first and each time one of their files has changed.

    It waits for files that cannot be read: those that do not exist yet, are damaged at the moment, or have no
    row yet, as when a run starts again.

    Args:
        request: Has the files.
        wait: Is called between two looks at the files; returns whether to go on.
    """
    seen: list[tuple[int, ...]] | None = None
    complaints: dict[Path, str] = {}
    while True:
        now = [_version(path) for path in request.names]
        if now != seen:
            seen = now
            runs = _read_available(request, complaints)
            if runs:
                yield runs
        if not wait():
            return


def _version(path: Path) -> tuple[int, ...]:
    """Return numbers that change when the file does; none if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read_available(request: Request, complaints: dict[Path, str]) -> list[Run]:
    """Return the runs that can be read; print why others cannot, unless `complaints` has it already."""
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
