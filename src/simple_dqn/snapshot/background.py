"""A thread that writes while training goes on."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any


class Background:
    """Does what it is given, one after the other, in a thread of its own."""

    def __init__(self) -> None:
        """Get ready; the thread begins with the first task."""
        self._executor = ThreadPoolExecutor(1, "checkpoint")
        self._tasks: deque[Future[None]] = deque()  # in the order given; those done without error are gone

    def do(self, task: Callable[..., None], *arguments: Any) -> Future[None]:
        """Do `task` when all before it is done, and return at once.

        Raises:
            Exception: An earlier task raised it.
        """
        while self._tasks and self._tasks[0].done():
            self._tasks.popleft().result()
        future = self._executor.submit(task, *arguments)
        self._tasks.append(future)
        return future

    def wait(self) -> None:
        """Wait until all is done."""
        wait(self._tasks)

    def close(self) -> None:
        """Wait until all is done, and end the thread.

        Raises:
            Exception: A task raised it.
        """
        self._executor.shutdown()
        while self._tasks:
            self._tasks.popleft().result()
