"""Files that users name: a regular file of a fair size is opened, everything else is one line."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from simple_dqn.errors import UserError
from simple_dqn.files import check_target, is_snapshot, kind_of, open_file, read_text, replacing

MOST = 1000


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless_link(path: Path) -> None:
    path.symlink_to(path)


def below_a_file(path: Path) -> None:
    path.parent.write_text("a file where a folder should be")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(40 << 30)


# name, what makes it, why it cannot be read, whether it can be written
PLACES: list[tuple[str, Callable[[Path], object], str, bool]] = [
    ("missing", lambda path: None, "No such file", True),
    ("folder", Path.mkdir, "it is a folder", False),
    ("pipe", fifo, "a device or a pipe", False),
    ("/dev/zero", lambda path: None, "a device or a pipe", False),
    ("/dev/full", lambda path: None, "a device or a pipe", False),
    ("sparse", sparse, "42,949,672,960 bytes, more than 1,000", True),
    ("loop", endless_link, "Too many levels of symbolic links", False),
    ("file/x", below_a_file, "Not a directory", False),
    ("x" * 300, lambda path: None, "File name too long", False),
    ("/".join(["x" * 200] * 25), lambda path: None, "File name too long", False),
    ("a\0b", lambda path: None, "no file can have such a name", False),
    ("a\ud800b", lambda path: None, "no file can have such a name", False),
]


@pytest.mark.parametrize(("name", "make", "reason", "writable"), PLACES, ids=range(len(PLACES)))
def test_one_line_for_a_path_that_is_no_file(
    tmp_path: Path, name: str, make: Callable[[Path], object], reason: str, writable: bool
) -> None:
    path = tmp_path / name
    make(path)
    with pytest.raises(UserError, match=f"^cannot read .*{reason}.*: give another$"):
        open_file(path, MOST, "give another")
    assert name == "sparse" or not is_snapshot(path)
    if not writable:
        with pytest.raises(UserError, match=r"^cannot (write|use).*"), replacing(path) as beside:
            beside.write_bytes(b"x")
    else:
        check_target(path)


def test_a_folder_that_may_not_be_entered_is_no_missing_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:  # as root may enter every folder
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(UserError, match=r"^cannot use .*x: Permission denied: give another path$"):
        kind_of(tmp_path / "x")


def test_text_is_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("\ufeffä 😀".encode())
    assert read_text(path, MOST, "") == "ä 😀"
    path.write_bytes(b"\xff\xfe\0")
    with pytest.raises(UserError, match=re.escape(f"cannot read {path}: it is not a text file: give text")):
        read_text(path, MOST, "give text")
