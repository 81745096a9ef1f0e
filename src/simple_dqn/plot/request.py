"""What is to be drawn, out of which files and into which."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simple_dqn.plot.panels import PHASES, Plot, make_plot
from simple_dqn.statistics import Run, read_run


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    names: dict[Path, str]  # of the runs, by their CSV; seeds of one setting have one name
    png_file: Path
    html_file: Path | None = None
    fields: Sequence[str] = ("average_reward", "meanq", "nr_games", "meancost")
    phases: Sequence[str] = PHASES
    width: float = 16  # of the picture, in inches
    height: float = 9
    dpi: int = 80
    skip_rows: int | None = None
    delimiter: str = ","

    @property
    def files(self) -> str:
        """Where it is drawn, in words."""
        return " and ".join(str(path) for path in (self.png_file, self.html_file) if path)

    def read(self, path: Path) -> Run:
        """Return the run whose CSV is `path`.

        Raises:
            UserError: It cannot be read, or holds nothing to draw yet.
        """
        return read_run(path, self.names[path], self.skip_rows, self.delimiter)

    def plot(self, runs: Sequence[Run]) -> Plot:
        """Return what is to be drawn of `runs`, all or some of those asked for.

        Raises:
            UserError: A run lacks a field.
        """
        return make_plot(runs, self.fields, list(dict.fromkeys(self.names.values())), self.phases)

    def write(self, plot: Plot, reload_seconds: float | None = None) -> None:
        """Write the files; the page loads itself again every `reload_seconds`.

        Raises:
            UserError: A file cannot be written.
        """
        from simple_dqn.plot import png  # matplotlib takes a second that a sweep begins sooner without

        png.save(png.draw(plot, self.width, self.height), self.png_file, self.dpi)
        if self.html_file:
            from simple_dqn.plot import html  # Bokeh takes a second that a picture can do without.

            html.save(plot, self.html_file, reload_seconds)
