"""Signals such as Ctrl-C: the first stops the run cleanly; a second Ctrl-C quits immediately."""

import logging
import signal
import threading
from types import FrameType
from typing import Any

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, kill, a closed terminal


class Interrupt:
    """A context in which the first signal sets `requested`, and a second Ctrl-C stops immediately.

    Further SIGTERMs and SIGHUPs change nothing: `timeout`, a closed terminal and batch systems send several.
    """

    def __init__(self) -> None:
        self.requested = False
        self.number: int = signal.SIGINT  # the first signal that was received
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> "Interrupt":
        """Install the handlers in the main thread; Python allows no other thread to."""
        for number in SIGNALS if threading.current_thread() is threading.main_thread() else ():
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
                self._handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous handlers."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.requested:
            return
        self.requested, self.number = True, number
        signal.signal(signal.SIGINT, self._handlers.pop(signal.SIGINT))
        logger.info("Stopping cleanly. Press Ctrl-C again to quit immediately.")
