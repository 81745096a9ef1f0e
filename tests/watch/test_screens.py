"""The folder of screens is replaced as a whole, and only of screens."""

import os
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from simple_dqn.errors import UserError
from simple_dqn.watch.screens import replacing_screens


def pictures(count: int) -> list[NDArray[np.uint8]]:
    return list(np.random.default_rng(count).integers(256, size=(count, 21, 16, 3), dtype=np.uint8))


def write(folder: Path, count: int) -> None:
    with replacing_screens(folder) as screens:
        for picture in pictures(count):
            screens.add(picture)


def read(path: Path) -> NDArray[np.uint8]:
    picture = cv2.imread(str(path))
    assert picture is not None
    return picture[:, :, ::-1].astype(np.uint8)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_screens_are_the_pictures_to_the_pixel(tmp_path: Path) -> None:
    folder = tmp_path / "videos" / "pong"
    write(folder, 12)
    assert names(folder) == [f"{number:06}.png" for number in range(12)]
    for number, picture in enumerate(pictures(12)):
        assert np.array_equal(read(folder / f"{number:06}.png"), picture)
    assert names(tmp_path / "videos") == ["pong"]


def test_screens_of_an_earlier_film_go_and_all_else_stays(tmp_path: Path) -> None:
    folder = tmp_path / "pong"
    write(folder, 9)
    (folder / "best moment.png").write_bytes(b"chosen")
    (folder / "12.png").write_bytes(b"no screen")
    (folder / "000002.png.bak").write_bytes(b"no screen")
    (folder / "notes").mkdir()
    (folder / "notes" / "000001.png").write_bytes(b"not here")
    (folder / "1000000.png").write_bytes(b"of a very long film")
    write(folder, 3)
    screens = [f"{number:06}.png" for number in range(3)]
    assert names(folder) == sorted([*screens, "000002.png.bak", "12.png", "best moment.png", "notes"])
    assert (folder / "best moment.png").read_bytes() == b"chosen"
    assert (folder / "notes" / "000001.png").read_bytes() == b"not here"
    assert np.array_equal(read(folder / "000002.png"), pictures(3)[2])
    assert names(tmp_path) == ["pong"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_after_an_error_the_folder_is_as_it_was(tmp_path: Path, error: type[BaseException]) -> None:
    folder = tmp_path / "pong"
    write(folder, 3)

    def begin_and_fail() -> None:
        with replacing_screens(folder) as screens:
            screens.add(pictures(5)[0])
            raise error

    with pytest.raises(UserError if error is OSError else error):
        begin_and_fail()
    assert names(tmp_path) == ["pong"]
    assert names(folder) == ["000000.png", "000001.png", "000002.png"]
    assert np.array_equal(read(folder / "000000.png"), pictures(3)[0])


def test_a_folder_elsewhere_is_replaced_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    (tmp_path / "pong").symlink_to(tmp_path / "large disk")
    write(tmp_path / "pong", 2)
    write(tmp_path / "pong", 1)
    assert (tmp_path / "pong").is_symlink()
    assert names(tmp_path / "large disk") == ["000000.png"]
    assert names(tmp_path) == ["large disk", "pong"]


def test_a_file_in_its_place_is_kept(tmp_path: Path) -> None:
    (tmp_path / "pong").write_text("mine")
    with pytest.raises(UserError, match="it is a file"):
        write(tmp_path / "pong", 1)
    assert (tmp_path / "pong").read_text() == "mine"


def test_a_swap_that_fails_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pong"
    write(folder, 3)
    rename = Path.rename

    def fail_for_the_new(self: Path, target: Path) -> Path:
        if self.suffix == ".part":
            raise PermissionError(os.strerror(13))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_for_the_new)
    with pytest.raises(UserError, match="cannot write screens"):
        write(folder, 1)
    assert names(tmp_path) == ["pong"]
    assert len(names(folder)) == 3
