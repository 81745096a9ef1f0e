"""The console: a progress bar during each phase, and log messages after it."""

import logging
import sys
from typing import NoReturn, TextIO

from tqdm import tqdm

from simple_dqn.errors import discard, printable
from simple_dqn.statistics.summary import PhaseSummary, Progress, Writer

logger = logging.getLogger(__name__)

# Short, to fit into 80 columns; the rate is in steps per second.
BAR = "{desc} {percentage:.0f}%|{bar}| {remaining} left {rate_noinv_fmt}"
BAR_WITHOUT_END = "{desc} {n_fmt} steps {rate_noinv_fmt}"


class ConsoleHandler(logging.StreamHandler[TextIO]):
    """A log handler that writes its lines above the progress bar, and outlives its terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Write to `stream`; None: standard error."""
        super().__init__(stream)
        self.setFormatter(_Lines("%(asctime)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record to the stream, by default standard error."""
        try:
            tqdm.write(self.format(record), file=self.stream)
            self.flush()
        except OSError:
            discard(self.stream)
        except Exception:
            self.handleError(record)


class _Lines(logging.Formatter):
    """Formats a message as one printable line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, a name of logging's
        return printable(super().formatMessage(record))


class Console(Writer):
    """A progress bar for each phase, on a terminal only, and the log messages of simple_dqn after it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Draw the bar on `stream`; None: standard error."""
        self._stream = stream
        self._bar: tqdm[NoReturn] | None = None
        self._format = BAR
        tqdm.monitor_interval = 0  # no thread: `on_progress` draws the bar

    def on_phase_start(self, phase: str, epoch: int, total_steps: int) -> None:
        """Draw an empty bar."""
        self._format = BAR if total_steps else BAR_WITHOUT_END
        self._bar = tqdm(
            desc=f"{phase} {epoch}",
            total=total_steps or None,
            bar_format=self._format,
            unit="",
            unit_scale=True,
            leave=False,
            dynamic_ncols=True,
            mininterval=0,
            miniters=1,
            file=self._stream or sys.stderr,
            disable=None,  # for tqdm: unless the stream is a terminal
        )

    def on_progress(self, progress: Progress) -> None:
        """Update the bar, and the numbers beside it."""
        assert self._bar is not None
        if (
            self._bar.total and progress.steps > self._bar.total
        ):  # a test may need more steps to finish its games
            self._bar.total, self._format = None, BAR_WITHOUT_END
        parts = [self._format]
        if progress.exploration_rate is not None:
            parts.append(f"ε {progress.exploration_rate:.2f}")
        parts.append(f"{progress.nr_games} games")
        if progress.average_reward is not None:
            parts.append(f"reward {progress.average_reward:.1f}")
        if progress.loss is not None:
            parts.append(f"loss {progress.loss:.2g}")
        self._bar.bar_format = " ".join(parts)
        self._bar.update(progress.steps - self._bar.n)

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Remove the bar and log the summary."""
        self.close()
        logger.info("Epoch #%d: %s ended after %d steps", summary.epoch, summary.phase, summary.steps)
        if summary.nr_games:
            # %.10g writes integer scores like simple_dqn's %d, and others with their decimals.
            logger.info(
                "  num_games: %d, average_reward: %f, min_game_reward: %.10g, max_game_reward: %.10g",
                summary.nr_games,
                summary.average_reward,
                summary.min_game_reward,
                summary.max_game_reward,
            )
        else:
            logger.info("  num_games: 0")
        logger.info(
            "  last_exploration_rate: %f, epoch_time: %ds, steps_per_second: %d",
            summary.last_exploration_rate or 0.0,
            summary.epoch_time,
            summary.steps_per_second,
        )

    def close(self) -> None:
        """Remove the bar, if there is one."""
        if self._bar is not None:
            self._bar.close()
