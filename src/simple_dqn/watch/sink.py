"""A file for libav to write to."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


class Sink:
    """A file that complains once: after a first error it takes what comes and keeps none of it.

    libav goes on writing for a while before it tells of an error, and PyAV would print every further
    one, with a traceback, beside raising the first.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Write to `file`."""
        self._file = file
        self._failed = False

    @property
    def closed(self) -> bool:
        """Whether the file is closed; PyAV writes no ending to one that is."""
        return self._file.closed

    def write(self, data: bytes) -> int:
        """Write all of `data`, and return its length.

        Raises:
            OSError: It cannot be written, for the first time.
        """
        with self._complaining_once():
            self._file.write(data)
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place in the file, and return it.

        Raises:
            OSError: What was written before cannot be kept, for the first time.
        """
        with self._complaining_once():
            return self._file.seek(offset, whence)
        return offset

    def tell(self) -> int:
        """Return the place in the file."""
        return self._file.tell()

    @contextmanager
    def _complaining_once(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            if not self._failed:
                self._failed = True
                raise
