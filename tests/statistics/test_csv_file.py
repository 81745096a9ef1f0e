"""The CSV of a run: whole rows in the promised columns, none of another run's lost; and CSVs to be read."""

import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simple_dqn.errors import UserError
from simple_dqn.statistics import PhaseSummary
from simple_dqn.statistics.csv_file import CsvWriter, RunData, is_of_run, read_run
from tests.command_line import ORIGINAL

HEADER = (
    "epoch,phase,steps,nr_games,average_reward,min_game_reward,max_game_reward,last_exploration_rate,"
    "total_train_steps,replay_memory_count,meanq,meancost,weight_updates,total_time,epoch_time,"
    "steps_per_second\n"
)
SUMMARY = PhaseSummary(
    1, "train", 250, 3, -20.5, -21.0, -19.0, 0.1, 250, 300, 1 / 3, 0.001, 62, 12.5, 10.0, 25.0
)
ROW = "1,train,250,3,-20.5,-21.0,-19.0,0.1,250,300,0.3333333333333333,0.001,62,12.5,10.0,25.0\n"
TEXT = ORIGINAL.read_text()
BODY = TEXT.split("\n", 1)[1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pong.csv"


def write(path: Path, *summaries: PhaseSummary, resumed: str | None = None) -> None:
    writer = CsvWriter(path, resumed)
    writer.open()
    for summary in summaries:
        writer.on_phase_end(summary)
    writer.close()


def epochs(*numbers: int) -> list[PhaseSummary]:
    return [replace(SUMMARY, epoch=number) for number in numbers]


def epochs_in(path: Path) -> list[int]:
    header, *lines = path.read_text().splitlines()
    assert header + "\n" == HEADER
    return [int(line.split(",")[0]) for line in lines]


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_rows_are_on_disk_as_soon_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "pong.csv"
    writer = CsvWriter(path)
    assert not path.parent.exists()
    writer.open()
    assert path.read_text() == writer.last_row == HEADER
    writer.on_phase_end(SUMMARY)
    assert path.read_text() == HEADER + ROW
    none: dict[str, Any] = dict.fromkeys(("average_reward", "min_game_reward", "max_game_reward", "meanq"))
    writer.on_phase_end(replace(SUMMARY, nr_games=0, **none))
    assert writer.last_row == "1,train,250,0,,,,0.1,250,300,,0.001,62,12.5,10.0,25.0\n"
    assert path.read_text() == HEADER + ROW + writer.last_row
    writer.close()


# The epochs in the CSV, where it goes on, the epochs that stay, and those of the copy with all rows.
@pytest.mark.parametrize(("before", "resumed", "kept", "copy"), [
    ([], None, [], None),
    ([1, 2], None, [], [1, 2]),  # of another run
    ([0, 1, 1], ROW, [0, 1, 1], None),
    ([0, 1, 2, 3], ROW, [0, 1], [0, 1, 2, 3]),
    ([0, 1, 11, 2], "1,", [0, 1], [0, 1, 11, 2]),
    ([1, 2], ROW.rstrip(), [1], [1, 2]),  # but not if that phase had ended
    ([1, 2], ROW, [1], None),  # the row of the stopped phase is replaced
    ([2, 3], ROW, [], [2, 3]),
    ([], ROW, [], None),
    ([0], HEADER, [], None),
])  # fmt: skip
def test_a_run_goes_on_after_its_last_row(
    path: Path, before: list[int], resumed: str | None, kept: list[int], copy: list[int] | None
) -> None:
    path.with_name("pong.1.csv").touch()  # of a run before that
    if before:
        write(path, *epochs(*before))
    CsvWriter(path).close()  # before the first phase nothing is created or changed
    assert path.exists() == bool(before)
    is_mine = is_of_run(path, resumed or "")
    assert is_mine == (None if not before else bool(kept or resumed == HEADER) and resumed in (ROW, HEADER))
    write(path, *epochs(9), resumed=resumed)
    assert epochs_in(path) == [*kept, 9]
    assert files_in(path.parent) == ["pong.1.csv", *["pong.2.csv"] * bool(copy), "pong.csv"]
    assert copy is None or epochs_in(path.with_name("pong.2.csv")) == copy


# Those before are a lone header, also of other columns and half of one, and a row that is not whole.
@pytest.mark.parametrize("resumed", [None, HEADER, ROW, ROW.rstrip()])
@pytest.mark.parametrize("before", [HEADER, "epoch,phase,loss\n", "", HEADER[:20], HEADER + ROW[:20]])
def test_without_a_row_there_is_nothing_to_keep(path: Path, before: str, resumed: str | None) -> None:
    path.write_text(before)
    for _ in range(3):
        write(path, resumed=resumed)
        assert path.read_text() == HEADER
    assert files_in(path.parent) == ["pong.csv"]


@settings(max_examples=50)
@given(cut=st.integers(0, len(HEADER) + 3 * len(ROW)), resume_epoch=st.integers(1, 3))
def test_a_cut_csv_is_whole(tmp_path_factory: pytest.TempPathFactory, cut: int, resume_epoch: int) -> None:
    path, rows = tmp_path_factory.mktemp("cut") / "pong.csv", [f"{epoch}{ROW[1:]}" for epoch in (1, 2, 3)]
    whole = (HEADER + "".join(rows)).encode()[:cut]
    path.write_bytes(whole)
    write(path, *epochs(9), resumed=rows[resume_epoch - 1])
    complete = max(0, whole.count(b"\n") - 1)
    kept = resume_epoch if complete >= resume_epoch else 0
    assert epochs_in(path) == [*range(1, kept + 1), 9]
    copies = [file.read_bytes() for file in path.parent.iterdir() if file != path]
    assert copies == ([whole] if whole.count(b"\n") > (kept + 2 if kept else 1) else [])


@pytest.mark.parametrize("content", [b"time,score\n1,2\n", b"root:x:0\n", b"\0\xff", b"epoch\n"])
def test_a_file_of_another_kind_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"pong\.csv: it is not a CSV of statistics: .* --csv_file"):
        write(path)
    assert path.read_bytes() == content
    assert files_in(path.parent) == ["pong.csv"]


def test_two_runs_do_not_share_a_file(path: Path) -> None:
    first = CsvWriter(path)
    first.open()
    first.on_phase_end(SUMMARY)
    for resumed in (None, ROW):
        with pytest.raises(UserError, match=r"pong\.csv is being written by another run: wait, or"):
            CsvWriter(path, resumed).open()
    first.on_phase_end(SUMMARY)
    first.close()
    assert path.read_text() == HEADER + ROW + ROW
    write(path, resumed=ROW)
    assert files_in(path.parent) == ["pong.csv"]


def test_a_full_disk_is_one_line_and_leaves_whole_rows(path: Path) -> None:
    writer = CsvWriter(path)
    writer.open()
    writer.on_phase_end(SUMMARY)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + len(ROW) // 2, before[1]))
    try:
        with pytest.raises(UserError, match=r"cannot write .*pong\.csv: .*: free disk space"):
            writer.on_phase_end(SUMMARY)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == HEADER + ROW
    writer.on_phase_end(SUMMARY)
    assert path.read_text() == HEADER + ROW + ROW
    writer.close()


def read(folder: Path, text: str, **how: Any) -> RunData:
    (folder / "run.csv").write_bytes(text.encode("utf-8" if text[:1] == "\ufeff" else "latin-1"))
    return read_run(folder / "run.csv", "run", **how)


def values(run: RunData, phase: str, field: str) -> dict[float, float]:
    return dict(zip(*(line.tolist() for line in run.line(phase, field)), strict=True))


def test_the_original_is_read_without_maxint_and_half_rows(tmp_path: Path) -> None:
    run = read_run(ORIGINAL, "run")
    assert values(run, "random", "average_reward") == {0: -20.5}
    assert values(run, "train", "average_reward") == {1: -20.25, 2: -19.75, 3: -17.5}
    assert values(run, "test", "min_game_reward") == {2: -20, 3: -19}
    assert values(run, "test", "max_game_reward") == {2: -14, 3: -10}
    run = read(tmp_path, "epoch,phase,meanq,speed\n1,train,,2\n2,train,1.5,nan\n")
    assert (values(run, "train", "meanq"), values(run, "train", "speed")) == ({2: 1.5}, {1: 2})
    for cut in range(TEXT.index("1,test"), len(TEXT)):
        assert len(read(tmp_path, TEXT[:cut]).phases) == TEXT[:cut].count("\n") - 1


@pytest.mark.parametrize(("text", "how"), [
    (TEXT.replace("epoch_time", "phase_time"), {}), (BODY, {"skip_rows": 0}), (TEXT, {"skip_rows": 1}),
    ("# Pong\n" + TEXT, {"skip_rows": 2}), ("# Pong\n" + BODY, {"skip_rows": 1}),
    (TEXT.replace(",", ";"), {"delimiter": ";"}), (TEXT.replace(",", ", ").replace("\n", "\r\n\r\n"), {}),
    ("\ufeff" + TEXT, {}),
])  # fmt: skip
def test_the_same_run_in_other_forms(tmp_path: Path, text: str, how: dict[str, Any]) -> None:
    expected, run = read_run(ORIGINAL, "run"), read(tmp_path, text, **how)
    assert run.phases.tolist() == expected.phases.tolist()
    assert list(run.columns) == list(expected.columns)
    for field, column in expected.columns.items():
        np.testing.assert_array_equal(run.columns[field], column)


@pytest.mark.parametrize(("text", "complaint"), [
    *((text, "--skiprows 0") for text in ("", "\n\n", BODY, TEXT.replace(",", ";"))),
    (TEXT.split("\n")[0] + "\n", "no row of training or of a test yet"),
    ("\n".join(TEXT.split("\n")[:2]) + "\n", "no row of training or of a test yet"),
    (TEXT.replace("-17.5", "many"), "'average_reward' in row 6 of its data is 'many': give one"),
    (TEXT.replace("-17.5", "x" * 100_000), "'x{60}'[.]{3}: give one"),
    (TEXT.replace(",20000,24,-20.25", ""), "row 2 of its data has 13 columns instead of 16"),
    ("\0\xff", "not a text file"), (None, "No such file"),
])  # fmt: skip
def test_a_file_that_cannot_be_drawn_is_one_line(tmp_path: Path, text: str | None, complaint: str) -> None:
    with pytest.raises(UserError, match=f"^(?!.*\n).*run.csv.*{complaint}"):
        read_run(tmp_path / "run.csv", "run") if text is None else read(tmp_path, text)


def test_of_many_columns_some_are_named() -> None:
    run = RunData("pong", np.array(["train"]), {f"column_{number}": np.zeros(1) for number in range(10**5)})
    with pytest.raises(UserError, match=r"choose among column_0, column_1, .* [.]{3}$") as raised:
        run.check(("steps",), "pong")
    assert len(str(raised.value)) < 600
