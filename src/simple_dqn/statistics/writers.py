"""Writers: the console, TensorBoard, Weights & Biases and trackio; imported when a run needs them."""

import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TextIO

from tqdm import tqdm

from simple_dqn.errors import UserError, discard, one_line, printable, require_extra
from simple_dqn.files import reporting_failure, unused_path
from simple_dqn.statistics import PhaseSummary, Point, Writer

logger = logging.getLogger(__name__)

PROJECT = "simple-dqn"
BAR = "{desc} {percentage:.0f}%|{bar}| {remaining} left {rate_noinv_fmt}"
BAR_WITHOUT_END = "{desc} {n_fmt} steps {rate_noinv_fmt}"


class ConsoleHandler(logging.StreamHandler[TextIO]):
    """Writes printable lines of the log above the progress bar; a terminal that was closed is no error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record to the stream."""
        try:
            tqdm.write(printable(self.format(record)), file=self.stream)
            self.flush()
        except OSError:
            discard(self.stream)
        except Exception:
            self.handleError(record)


def start_log(level: str) -> None:
    """Send messages of `level` and above to standard error, above the progress bar."""
    form = "%(asctime)s %(message)s"
    logging.basicConfig(level=level, format=form, handlers=[ConsoleHandler()], force=True)


def bar_size() -> dict[str, Any]:
    """Return tqdm's arguments for the size of the terminal; 79 columns if it has none, as in containers."""
    with suppress(OSError, ValueError):
        if not os.get_terminal_size(sys.stderr.fileno()).columns:
            return {"ncols": 79, "nrows": 24}
    return {"dynamic_ncols": True}


class Console(Writer):
    """A progress bar for each phase, on a terminal only, and the log messages of simple_dqn after it."""

    _bar: "tqdm[NoReturn] | None" = None
    _steps = 0  # of the phase, in all; 0: unknown

    def __init__(self, epochs: int = 0, test_steps: int = 0) -> None:
        """Log after each epoch but the last how long the rest of `epochs` takes, with their `test_steps`."""
        self._epochs, self._test_steps = epochs, test_steps
        self._seconds: dict[str, float] = {}  # of the latest of each phase

    def on_phase_start(self, phase: str, epoch: int, total_steps: int) -> None:
        """Draw an empty bar on standard error."""
        self._steps = total_steps
        tqdm.monitor_interval = 0  # no thread: `on_progress` draws the bar
        self._bar = tqdm(
            desc=f"{phase} {epoch}", total=total_steps or None, unit="", unit_scale=True, leave=False,
            bar_format=BAR if total_steps else BAR_WITHOUT_END, mininterval=0, miniters=0, file=sys.stderr,
            disable=None, **bar_size(),  # None for tqdm: unless the stream is a terminal
        )  # fmt: skip

    def on_progress(self, progress: PhaseSummary) -> None:
        """Update the bar, and the numbers beside it."""
        bar = self._bar
        assert bar is not None
        if not bar.n:  # a resumed phase has made most of these steps before the bar
            bar.n = bar.last_print_n = bar.initial = progress.steps
        if bar.total and progress.steps > bar.total:  # a test may need more steps to finish its games
            bar.total = None
        shown = {
            "ε {:.2f}": progress.last_exploration_rate, "{} games": progress.nr_games,
            "reward {:.1f}": progress.average_reward, "loss {:.2g}": progress.loss,
        }  # fmt: skip
        words = [form.format(number) for form, number in shown.items() if number is not None]
        bar.bar_format = " ".join([BAR if bar.total else BAR_WITHOUT_END, *words])
        bar.update(progress.steps - bar.n)

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Remove the bar and log the summary, in the words of simple_dqn."""
        self.close()
        games = f"  num_games: {summary.nr_games}"
        if summary.nr_games:
            # %.10g writes integer scores like simple_dqn's %d, and others with their decimals.
            scores = summary.average_reward, summary.min_game_reward, summary.max_game_reward
            words = ", average_reward: {:f}, min_game_reward: {:.10g}, max_game_reward: {:.10g}"
            games += words.format(*scores)
        logger.info("Epoch #%d: %s ended after %d steps", summary.epoch, summary.phase, summary.steps)
        logger.info(games)
        numbers = summary.last_exploration_rate or 0.0, summary.epoch_time, summary.steps_per_second
        logger.info("  last_exploration_rate: %f, epoch_time: %ds, steps_per_second: %d", *numbers)
        self._seconds[summary.phase] = summary.epoch_time
        epochs_left = self._epochs - summary.epoch
        if summary.phase == "train" and epochs_left > 0 and summary.steps >= self._steps:
            # Before the first test, its steps are taken to be as long as those of training.
            test = self._seconds.get("test", self._test_steps * summary.epoch_time / max(1, summary.steps))
            seconds = epochs_left * summary.epoch_time + (epochs_left + 1) * test
            left = timedelta(seconds=round(min(seconds, 1e12)))
            logger.info("  about %s left, for %d epoch%s", left, epochs_left, "s" * (epochs_left > 1))

    def close(self) -> None:
        """Remove the bar, if there is one."""
        if self._bar is not None:
            self._bar.close()


class TensorboardWriter(Writer):
    """Writes numbers of phases and points as scalars over training steps, or raises UserError."""

    points, unfinished = True, False
    _events: Any = None  # torch's SummaryWriter, from the first numbers on

    def __init__(self, folder: Path, resumed: bool = False, histograms: bool = False) -> None:
        """Set up a writer of event files in `folder`, which a new run renames if it exists."""
        self._folder, self._resumed, self._histograms = folder, resumed, histograms
        what = f"TensorBoard's event file in {folder}"
        self._writing = partial(reporting_failure, what, "free disk space, or leave out --tensorboard")

    def open(self) -> None:
        """Create the folder."""
        with self._writing():
            if not self._resumed and any(self._folder.glob("events.out.tfevents.*")):
                aside = self._folder.rename(unused_path(self._folder))
                logger.info("%s has the events of another run: it was renamed to %s", self._folder, aside)
            self._folder.mkdir(parents=True, exist_ok=True)

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Write the numbers that exist."""
        point = Point(summary.total_train_steps, summary.scalars(), None)
        # A test has the same step as the training before it, whose numbers stay in a resumed run.
        self.on_point(point, point.step + (summary.phase == "test"))

    def on_point(self, point: Point, first: int | None = None) -> None:
        """Write the numbers and histograms; a resumed run first drops what it wrote from step `first` on."""
        with self._writing():
            if self._events is None:
                from torch.utils.tensorboard import SummaryWriter

                purge = (first or point.step) if self._resumed else None
                self._events = SummaryWriter(str(self._folder), purge_step=purge)
            for name, number in point.scalars.items():
                self._events.add_scalar(name, number, point.step)
            if self._histograms and point.qvalues is not None:
                self._events.add_histogram("progress/q_values", point.qvalues, point.step)
            self._events.flush()

    def close(self) -> None:
        """Close the event file."""
        if self._events:
            self._events.close()


class Tracker(Writer):
    """Writes to Weights & Biases or to trackio, which have one interface.

    `results/NAME.wandb` holds the tracker's id of the run, by which a resumed run and a film find it.
    """

    points, unfinished = True, False
    _tracked: Any = None  # the package's own object of the run, once it is open

    def __init__(self, package: str, run: Path, settings: Mapping[str, Any], resumed: bool) -> None:
        """Set up a writer to `package`, if installed; `run` is the path of the CSV without its ending."""
        require_extra(package, f"--track {package}")
        self._package, self._run, self._settings = package, run, dict(settings)
        self._id_file = run.with_name(f"{run.name}.{package}")
        self._id = self._id_file.read_text("utf-8") if resumed and self._id_file.exists() else None

    def open(self) -> None:
        """Start the run, or continue it; raise UserError if the tracker cannot be reached."""
        self._run.parent.mkdir(parents=True, exist_ok=True)
        given: dict[str, Any] = {"project": PROJECT, "name": self._run.name, "config": self._settings}
        try:
            package = import_module(self._package)
            if self._package == "wandb":  # trackio finds a run by its name, and writes to its own folder
                quiet = package.Settings(console="off", silent=True)
                given |= {"id": self._id, "dir": self._run.parent.absolute(), "settings": quiet}
            self._tracked = package.init(resume="allow" if self._id else "never", **given)
            if self._package == "wandb":  # whose own count only grows: a test has the steps of the training
                self._tracked.define_metric("*", step_metric="train_steps")
        except Exception as error:  # the packages raise many types
            reason = f"{one_line(error)[:200]}: fix it, or leave out --track"
            raise UserError(f"--track {self._package}: {reason}") from error
        self._id_file.write_text(str(self._tracked.id), encoding="utf-8")

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Write the numbers."""
        self.on_point(Point(summary.total_train_steps, summary.scalars(), None))

    def on_point(self, point: Point) -> None:
        """Write the numbers."""
        own = {} if self._package == "wandb" else {"step": point.step}
        self._try("log", {**point.scalars, "train_steps": point.step}, **own)

    def on_file(self, path: Path) -> None:
        """Add a snapshot or a film to the run."""
        if path.exists():
            kind = "snapshot" if path.suffix == ".pkl" else "film"
            name = re.sub(r"[^\w.-]", "_", f"{path.stem}.{kind}", flags=re.ASCII)
            self._try("log_artifact", str(path), name=name, type=kind)

    def close(self) -> None:
        """End the run, once everything is uploaded."""
        if self._tracked is not None:
            self._try("finish")

    def _try(self, call: str, *arguments: Any, **named: Any) -> None:
        """Call a method of the package's run; an error, such as the server's, is only logged."""
        try:
            getattr(self._tracked, call)(*arguments, **named)
        except Exception as error:  # as above
            logger.warning("--track %s failed: %s", self._package, one_line(error)[:200])


# Name of `--track` -> what makes the writer of a run; `simple_dqn.register_track` adds to it.
TRACKERS: dict[str, Callable[[Path, Mapping[str, Any], bool], Writer]] = {
    package: partial(Tracker, package) for package in ("wandb", "trackio")
}
