"""The experience log against the list of steps that was put into it."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from simple_dqn.errors import UserError
from simple_dqn.snapshot import experience_log
from simple_dqn.snapshot.experience_log import BackgroundThread, Chunk, ExperienceLog, pack, read, unpack
from simple_dqn.types import Experience, Step


def steps(count: int, games: int = 2, seed: int = 0) -> list[Step]:
    rng = np.random.default_rng(seed)
    return [
        Step(
            screens=rng.integers(0, 256, (games, 3, 5), np.uint8),
            actions=rng.integers(0, 18, games),
            rewards=rng.normal(size=games).astype(np.float32),
            terminals=rng.random(games) < 0.2,
            truncations=rng.random(games) < 0.2,
            resets=rng.random(games) < 0.2,
            starts=rng.random(games) < 0.2,
        )
        for _ in range(count)
    ]


@pytest.fixture
def background() -> Iterator[BackgroundThread]:
    thread = BackgroundThread()
    yield thread
    thread.close()


def fill(log: ExperienceLog, experience: list[Step]) -> None:
    for step in experience:
        log.add(step)
    log.flush()


def assert_holds(pieces: Iterator[Experience], expected: list[Step]) -> None:
    """Compare what was read with the steps, row by row and to the type."""
    found = list(pieces)
    for field in fields(Experience):
        column = np.concatenate([getattr(piece, field.name) for piece in found])
        plain = np.stack([getattr(step, field.name) for step in expected])
        assert column.dtype == plain.dtype
        np.testing.assert_array_equal(column, plain)


def secured(log: ExperienceLog, background: BackgroundThread, first: int = 0) -> list[Chunk]:
    background.wait()
    return log.write_from(first)


@pytest.mark.parametrize("games", [1, 2, 5])
@pytest.mark.parametrize("first", [0, 1, 9, 10, 24, 26])
def test_what_was_added_is_read_again(
    tmp_path: Path, background: BackgroundThread, monkeypatch: pytest.MonkeyPatch, games: int, first: int
) -> None:
    monkeypatch.setattr(experience_log, "EXPERIENCES", 10 * games)
    log, experience = ExperienceLog(tmp_path, background), steps(27, games)
    fill(log, experience)
    chunks = secured(log, background, first)
    assert [(chunk.first, chunk.end) for chunk in chunks] == [(0, 10), (10, 20), (20, 27)][first // 10 :]
    assert_holds(read(tmp_path, chunks, first), experience[first:])
    assert {path.name for path in tmp_path.iterdir()} >= {chunk.name for chunk in chunks}


def test_a_log_that_is_taken_up_goes_on(tmp_path: Path, background: BackgroundThread) -> None:
    first, second, experience = (
        ExperienceLog(tmp_path, background),
        ExperienceLog(tmp_path, background),
        steps(9),
    )
    fill(first, experience[:4])
    second.resume(first.rows, secured(first, background))
    fill(second, experience[4:])
    assert second.rows == 9
    assert_holds(read(tmp_path, secured(second, background, 2), 2), experience[2:])


def test_a_chunk_comes_back_as_it_was() -> None:
    experience = steps(7, games=3)
    assert_holds(iter([unpack(pack(experience))]), experience)


def test_screens_that_repeat_take_little_room() -> None:
    quiet = steps(1)[0]
    assert len(pack([quiet] * 400)) < 400 * quiet.screens.nbytes / 5


def test_what_cannot_be_written_is_kept_and_written_later(
    tmp_path: Path, background: BackgroundThread
) -> None:
    folder, experience = tmp_path / "file" / "log", steps(8)
    (tmp_path / "file").write_text("in the way")
    log = ExperienceLog(folder, background)
    fill(log, experience[:4])
    with pytest.raises(UserError, match="cannot write"):
        secured(log, background)
    (tmp_path / "file").unlink()
    fill(log, experience[4:])
    assert_holds(read(folder, secured(log, background), 0), experience)


def test_what_cannot_be_written_and_is_too_old_is_forgotten(
    tmp_path: Path, background: BackgroundThread
) -> None:
    (tmp_path / "file").write_text("in the way")
    log = ExperienceLog(tmp_path / "file" / "log", background)
    fill(log, steps(4))
    assert secured(log, background, first=4) == []


def test_each_flipped_bit_and_each_cut_is_noticed(tmp_path: Path, background: BackgroundThread) -> None:
    log = ExperienceLog(tmp_path, background)
    fill(log, steps(3, games=1))
    (chunk,) = secured(log, background)
    path, rng = tmp_path / chunk.name, np.random.default_rng(0)
    whole = path.read_bytes()
    for _ in range(50):
        spoilt = bytearray(whole)
        spoilt[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        path.write_bytes(spoilt)
        with pytest.raises(UserError, match="is damaged"):
            chunk.read(tmp_path)
        path.write_bytes(whole[: rng.integers(len(whole))])
        with pytest.raises(UserError, match="is damaged"):
            chunk.read(tmp_path)
    path.unlink()
    with pytest.raises(UserError, match="cannot read"):
        chunk.read(tmp_path)


def test_other_bytes_are_no_chunk() -> None:
    for content in (b"", b"nonsense", pack(steps(2))[:-9]):
        with pytest.raises(UserError, match="damaged"):
            unpack(content)
