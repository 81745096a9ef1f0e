"""The CSV on disk: whole rows, in the promised columns, and none of another run's lost."""

import logging
import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simple_dqn.errors import UserError
from simple_dqn.statistics import PhaseSummary
from simple_dqn.statistics.csv_writer import CsvWriter, Resumed

HEADER = (
    "epoch,phase,steps,nr_games,average_reward,min_game_reward,max_game_reward,last_exploration_rate,"
    "total_train_steps,replay_memory_count,meanq,meancost,weight_updates,total_time,epoch_time,"
    "steps_per_second\n"
)
ROW = "1,train,250,3,-20.5,-21.0,-19.0,0.1,250,300,0.3333333333333333,0.001,62,12.5,10.0,25.0\n"


def write(
    path: Path, *summaries: PhaseSummary, resume_epoch: int | None = None, stopped: bool = False
) -> None:
    writer = CsvWriter(path, None if resume_epoch is None else Resumed(resume_epoch, "test", stopped))
    writer.open()
    for summary in summaries:
        writer.on_phase_end(summary)
    writer.close()


def rows(summary: PhaseSummary, *epochs: int) -> list[PhaseSummary]:
    return [replace(summary, epoch=epoch) for epoch in epochs]


def epochs_in(path: Path) -> list[int]:
    header, *lines = path.read_text().splitlines()
    assert header + "\n" == HEADER
    return [int(line.split(",")[0]) for line in lines]


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_rows_are_on_disk_as_soon_as_they_are_written(tmp_path: Path, summary: PhaseSummary) -> None:
    path = tmp_path / "new folder" / "pong.csv"
    writer = CsvWriter(path)
    assert not path.parent.exists()
    writer.open()
    assert path.read_text() == HEADER
    writer.on_phase_end(summary)
    assert path.read_text() == HEADER + ROW
    writer.close()


def test_what_does_not_exist_is_left_empty(tmp_path: Path, summary: PhaseSummary) -> None:
    path = tmp_path / "pong.csv"
    write(
        path,
        replace(
            summary, nr_games=0, average_reward=None, min_game_reward=None, max_game_reward=None, meanq=None
        ),
    )
    assert path.read_text() == HEADER + "1,train,250,0,,,,0.1,250,300,,0.001,62,12.5,10.0,25.0\n"


def test_another_run_is_kept_under_the_next_free_number(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, summary: PhaseSummary
) -> None:
    path = tmp_path / "pong.csv"
    with caplog.at_level(logging.INFO):
        for epoch in (1, 2, 3):
            write(path, *rows(summary, epoch))
    assert files_in(tmp_path) == ["pong.1.csv", "pong.2.csv", "pong.csv"]
    kept = [epochs_in(tmp_path / name) for name in ("pong.1.csv", "pong.2.csv", "pong.csv")]
    assert kept == [[1], [2], [3]]
    assert f"{path} belongs to another run: it was renamed to {tmp_path / 'pong.2.csv'}" in caplog.text


def test_nothing_is_made_or_moved_before_the_first_phase(tmp_path: Path, summary: PhaseSummary) -> None:
    path = tmp_path / "pong.csv"
    write(path, *rows(summary, 1))
    CsvWriter(path).close()
    assert files_in(tmp_path) == ["pong.csv"]
    assert epochs_in(path) == [1]


def test_resuming_at_the_end_appends(tmp_path: Path, summary: PhaseSummary) -> None:
    path = tmp_path / "pong.csv"
    write(path, *rows(summary, 0, 1, 1))
    write(path, *rows(summary, 2, 2), resume_epoch=1)
    assert epochs_in(path) == [0, 1, 1, 2, 2]
    assert files_in(tmp_path) == ["pong.csv"]


def test_resuming_before_the_end_keeps_the_later_rows_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, summary: PhaseSummary
) -> None:
    path = tmp_path / "pong.csv"
    write(path, *rows(summary, 0, 1, 2, 3))
    before = path.read_text()
    with caplog.at_level(logging.INFO):
        write(path, *rows(summary, 2), resume_epoch=1)
    assert epochs_in(path) == [0, 1, 2]
    assert (tmp_path / "pong.1.csv").read_text() == before
    assert files_in(tmp_path) == ["pong.1.csv", "pong.csv"]
    assert "a copy with all rows is kept as" in caplog.text


@pytest.mark.parametrize(("phase", "kept"), [("random", 1), ("train", 2), ("test", 3)])
def test_resuming_between_the_phases_of_an_epoch_keeps_those_before(
    tmp_path: Path, summary: PhaseSummary, phase: str, kept: int
) -> None:
    path = tmp_path / "pong.csv"
    before = [replace(row, phase=phase) for row in rows(summary, 1) for phase in ("random", "train", "test")]
    write(path, *before)
    writer = CsvWriter(path, Resumed(1, phase))
    writer.open()
    writer.close()
    assert [line.split(",")[1] for line in path.read_text().splitlines()[1:]] == [
        row.phase for row in before[:kept]
    ]


def test_resuming_without_a_csv_begins_one(tmp_path: Path, summary: PhaseSummary) -> None:
    write(tmp_path / "pong.csv", *rows(summary, 5), resume_epoch=4)
    assert epochs_in(tmp_path / "pong.csv") == [5]


@given(cut=st.integers(0, len(HEADER) + 3 * len(ROW)), resume_epoch=st.integers(0, 3))
def test_a_csv_cut_anywhere_goes_on_whole(
    tmp_path_factory: pytest.TempPathFactory, cut: int, resume_epoch: int, summary: PhaseSummary
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    path = folder / "pong.csv"
    write(path, *rows(summary, 1, 2, 3))
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    write(path, *rows(summary, 9), resume_epoch=resume_epoch)
    complete = max(0, whole[:cut].count(b"\n") - 1)
    assert epochs_in(path) == [epoch for epoch in range(1, complete + 1) if epoch <= resume_epoch] + [9]
    if complete > resume_epoch:
        assert (folder / "pong.1.csv").read_bytes() == whole[:cut]
    else:
        assert files_in(folder) == ["pong.csv"]


def test_the_row_of_a_stopped_phase_is_replaced_without_a_copy(tmp_path: Path, summary: PhaseSummary) -> None:
    path = tmp_path / "pong.csv"
    write(path, *rows(summary, 1, 2))
    write(path, *rows(summary, 2, 3), resume_epoch=1, stopped=True)
    assert epochs_in(path) == [1, 2, 3]
    assert files_in(tmp_path) == ["pong.csv"]
    write(path, *rows(summary, 2), resume_epoch=1, stopped=True)
    assert epochs_in(path) == [1, 2]
    assert epochs_in(tmp_path / "pong.1.csv") == [1, 2, 3]


def test_a_row_that_is_none_goes_with_the_later_ones(tmp_path: Path, summary: PhaseSummary) -> None:
    path = tmp_path / "pong.csv"
    write(path, *rows(summary, 1))
    broken = path.read_text() + "1\n" + ROW
    path.write_text(broken)
    write(path, resume_epoch=1)
    assert epochs_in(path) == [1, 1]
    assert (tmp_path / "pong.1.csv").read_text() == broken


@pytest.mark.parametrize("content", [b"time,score\n1,2\n", b"root:x:0\n", b"\0\xff", b"epoch\n"])
@pytest.mark.parametrize("resume_epoch", [None, 1])
def test_a_file_of_another_kind_is_refused(
    tmp_path: Path, summary: PhaseSummary, content: bytes, resume_epoch: int | None
) -> None:
    path = tmp_path / "pong.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"pong\.csv is no CSV of statistics: give another --csv_file"):
        write(path, *rows(summary, 2), resume_epoch=resume_epoch)
    assert path.read_bytes() == content
    assert files_in(tmp_path) == ["pong.csv"]


def test_a_full_disk_is_told_and_leaves_whole_rows(tmp_path: Path, summary: PhaseSummary) -> None:
    path = tmp_path / "pong.csv"
    writer = CsvWriter(path)
    writer.open()
    writer.on_phase_end(summary)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + len(ROW) // 2, before[1]))
    try:
        with pytest.raises(UserError, match=r"cannot write the statistics .*pong\.csv: .*: make room"):
            writer.on_phase_end(summary)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == HEADER + ROW
    writer.on_phase_end(summary)
    assert path.read_text() == HEADER + ROW + ROW
    writer.close()


def test_paths_that_cannot_be_written_are_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (tmp_path, file / "pong.csv", Path("/proc/pong.csv"), tmp_path / ("x" * 300 + ".csv")):
        with pytest.raises(UserError) as raised:
            write(path)
        assert "\n" not in str(raised.value)
        assert str(path) in str(raised.value)
        assert "--csv_file" in str(raised.value)
    assert files_in(tmp_path) == ["file"]


def test_folders_of_others_are_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # root may write anywhere
    with pytest.raises(UserError, match="no files can be made"):
        CsvWriter(tmp_path / "pong.csv")
