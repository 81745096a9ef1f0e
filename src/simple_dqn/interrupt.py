"""Ctrl-C: the first asks for a clean end, the second leaves at once."""

import logging
import signal
from types import FrameType
from typing import Any

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, kill, a terminal that is closed


class Interrupt:
    """While it is entered, a signal to stop only sets `requested`; the next one is obeyed at once."""

    def __init__(self) -> None:
        self.requested = False
        self.number: int = signal.SIGINT  # of the signal that asked for it
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> "Interrupt":
        """Take the signals over."""
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
                self._handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        """Give the signals back."""
        self._give_back()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.requested, self.number = True, number
        self._give_back()
        logger.info("Stopping: this phase is brought to a clean end. Once more to leave at once.")

    def _give_back(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
