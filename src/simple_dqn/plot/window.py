"""The panels in a window, by whichever GUI toolkit matplotlib finds."""

from matplotlib import pyplot
from matplotlib.figure import Figure

from simple_dqn.plot.panels import Plot
from simple_dqn.plot.png import draw_into

DPI = 80


class Window:
    """A window that is open until `close`, or until the user closes it."""

    def __init__(self, figure: Figure) -> None:
        self._figure = figure
        self.open = True
        figure.canvas.mpl_connect("close_event", self._on_close)
        pyplot.show(block=False)

    def draw(self, plot: Plot) -> None:
        """Show `plot`; where the user has zoomed, stay there."""
        zoomed = {
            place: (axes.get_xlim(), axes.get_ylim())
            for place, axes in enumerate(self._figure.axes)
            if not (axes.get_autoscalex_on() and axes.get_autoscaley_on())
        }
        draw_into(self._figure, plot)
        toolbar = self._figure.canvas.toolbar
        if zoomed and toolbar is not None:
            toolbar.push_current()  # where its button "home" leads to
        for place, (horizontal, vertical) in zoomed.items():
            self._figure.axes[place].set(xlim=horizontal, ylim=vertical)
        self._figure.canvas.draw_idle()

    def wait(self, seconds: float) -> None:
        """Let the user move, zoom and close the window meanwhile."""
        self._figure.canvas.start_event_loop(seconds)

    def close(self) -> None:
        """Close the window, if the user has not."""
        pyplot.close(self._figure)

    def _on_close(self, _event: object) -> None:
        self.open = False


def open_window(title: str, width: float, height: float) -> Window | None:
    """Return a window of `width` × `height` inches; None where there is no display or no GUI toolkit."""
    try:
        figure = pyplot.figure(title, figsize=(width, height), dpi=DPI)
    except Exception:  # Each toolkit complains of a display in an exception of its own.
        return None
    if figure.canvas.required_interactive_framework is None:  # It is of a backend that writes files only.
        pyplot.close(figure)
        return None
    return Window(figure)
