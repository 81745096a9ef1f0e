"""The console: a progress bar during each phase, and log messages after it."""

import logging
import sys
from typing import NoReturn, TextIO

from tqdm import tqdm

from simple_dqn.errors import discard, printable
from simple_dqn.statistics import PhaseSummary, Writer

logger = logging.getLogger(__name__)

# Short, to fit into 80 columns; the rate is in steps per second.
BAR = "{desc} {percentage:.0f}%|{bar}| {remaining} left {rate_noinv_fmt}"
BAR_WITHOUT_END = "{desc} {n_fmt} steps {rate_noinv_fmt}"


class ConsoleHandler(logging.StreamHandler[TextIO]):
    """A log handler that writes printable lines above the progress bar, and outlives its terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record to the stream, by default standard error."""
        try:
            tqdm.write(printable(self.format(record)), file=self.stream)
            self.flush()
        except OSError:
            discard(self.stream)
        except Exception:
            self.handleError(record)


class Console(Writer):
    """A progress bar for each phase, on a terminal only, and the log messages of simple_dqn after it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Draw the bar on `stream`; None: standard error."""
        self._stream = stream
        self._bar: tqdm[NoReturn] | None = None
        tqdm.monitor_interval = 0  # no thread: `on_progress` draws the bar

    def on_phase_start(self, phase: str, epoch: int, total_steps: int) -> None:
        """Draw an empty bar."""
        self._bar = tqdm(
            desc=f"{phase} {epoch}", total=total_steps or None, unit="", unit_scale=True, leave=False,
            bar_format=BAR if total_steps else BAR_WITHOUT_END, dynamic_ncols=True, mininterval=0, miniters=1,
            file=self._stream or sys.stderr, disable=None,  # for tqdm: unless the stream is a terminal
        )  # fmt: skip

    def on_progress(self, progress: PhaseSummary) -> None:
        """Update the bar, and the numbers beside it."""
        bar = self._bar
        assert bar is not None
        if bar.total and progress.steps > bar.total:  # a test may need more steps to finish its games
            bar.total = None
        parts = [BAR if bar.total else BAR_WITHOUT_END]
        if progress.last_exploration_rate is not None:
            parts.append(f"ε {progress.last_exploration_rate:.2f}")
        parts.append(f"{progress.nr_games} games")
        if progress.average_reward is not None:
            parts.append(f"reward {progress.average_reward:.1f}")
        if progress.loss is not None:
            parts.append(f"loss {progress.loss:.2g}")
        bar.bar_format = " ".join(parts)
        bar.update(progress.steps - bar.n)

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Remove the bar and log the summary."""
        self.close()
        one = summary
        logger.info("Epoch #%d: %s ended after %d steps", one.epoch, one.phase, one.steps)
        if one.nr_games:
            # %.10g writes integer scores like simple_dqn's %d, and others with their decimals.
            logger.info(
                "  num_games: %d, average_reward: %f, min_game_reward: %.10g, max_game_reward: %.10g",
                one.nr_games, one.average_reward, one.min_game_reward, one.max_game_reward,
            )  # fmt: skip
        else:
            logger.info("  num_games: 0")
        logger.info(
            "  last_exploration_rate: %f, epoch_time: %ds, steps_per_second: %d",
            one.last_exploration_rate or 0.0, one.epoch_time, one.steps_per_second,
        )  # fmt: skip

    def close(self) -> None:
        """Remove the bar, if there is one."""
        if self._bar is not None:
            self._bar.close()
