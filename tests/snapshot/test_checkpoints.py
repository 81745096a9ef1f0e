"""Checkpoints: what the saver writes and keeps, which one is used, and those that somebody has edited."""

import math
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simple_dqn import main, own_code
from simple_dqn.config import Config
from simple_dqn.errors import Interrupt, UserError
from simple_dqn.run import Run, make_run
from simple_dqn.snapshot import Snapshot, read_archive, write_archive
from simple_dqn.snapshot.checkpoint import Checkpoint, CheckpointFolder, DamagedError
from simple_dqn.snapshot.saver import Saver, locked, prefix_of
from simple_dqn.types import CheckpointState, Experience
from simple_dqn.verbs.train import follows, recorded
from tests.command_line import Clock, Logs, Patch, Told, catch, start_python, train_in
from tests.replay_memory.test_replay import first_step

ROWS = 6  # that the memory holds
WEIGHTS = {"output.weight": np.ones(3, np.float32)}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def saver(tmp_path: Path, clock: Clock, monkeypatch: Patch) -> Iterator[Saver]:
    monkeypatch.setattr("simple_dqn.snapshot.saver.EXPERIENCES", 4)
    made = Saver(tmp_path / "pong", "pong", 6, Config(), clock)
    yield made
    made.close()


def play(saver: Saver, first: int, end: int) -> None:
    for row in range(first, end):
        saver.log(first_step(np.full((1, 2, 2), row, np.uint8)))


def save(saver: Saver, number: int, held: int = ROWS) -> None:
    saver.save_checkpoint({"number": number, "array": np.array([number])}, held, wait=True)


def number_and_rows_of_newest(saver: Saver) -> tuple[int | None, list[int]]:
    """Return the number and the rows of the newest checkpoint, as another process would find it."""
    futures.wait([saver._last])
    saved = next(CheckpointFolder(saver.folder).usable(), None)
    if saved is None:
        return None, []
    rows = [row for one in saved.experience() for row in one.screens[:, 0, 0, 0].tolist()]
    return saved.run["number"], rows


def test_the_last_two_are_kept_and_the_chunks_that_they_name(saver: Saver) -> None:
    assert number_and_rows_of_newest(saver) == (None, [])
    for n in range(1, 6):
        play(saver, 10 * (n - 1), 10 * n)
        save(saver, n)
    assert number_and_rows_of_newest(saver) == (5, list(range(44, 50)))
    chunks = ((34, 38), (38, 40), (44, 48), (48, 50))  # with rows 34 to 39, and 44 to 49
    names = {f"experience_{first:010d}-{end:010d}.lz4" for first, end in chunks}
    assert {path.name for path in saver.folder.iterdir()} == names | {"run_000004.npz", "run_000005.npz"}


def test_a_chunk_can_be_read_however_many_games_there_are(saver: Saver, monkeypatch: Patch) -> None:
    monkeypatch.setattr("simple_dqn.snapshot.saver.EXPERIENCES", 100)
    monkeypatch.setattr("simple_dqn.snapshot.saver.MOST_BYTES", 15)  # screens of four bytes
    play(saver, 0, 11)
    save(saver, 1, held=10)
    assert number_and_rows_of_newest(saver) == (1, list(range(1, 11)))
    ends = [int(path.stem[-10:]) for path in sorted(saver.folder.glob("experience_*"))]
    assert ends == [3, 6, 9, 11]


def test_training_goes_on_while_the_disk_is_busy(saver: Saver, clock: Clock) -> None:
    gate, array = threading.Event(), np.zeros(3)
    saver._submit(gate.wait, 60)
    for n in (1, 2):  # the second is postponed
        saver.save_checkpoint({"number": n, "nested": {"array": array}}, 0)
    array[:] = 7  # the state was copied
    clock.now += 10_000
    assert not saver.is_due(0, 0)
    gate.set()
    assert number_and_rows_of_newest(saver)[0] == 1
    saved = next(CheckpointFolder(saver.folder).usable())
    assert saved.run["nested"]["array"].tolist() == [0, 0, 0]
    assert saver.is_due(0, 0)


def test_checkpoints_are_due_by_the_clock(saver: Saver, clock: Clock) -> None:
    for now, due in ((599, False), (600, True), (1199, False), (1200, True)):
        clock.now = now
        assert saver.is_due(0, 0) == due
        if now == 600:
            save(saver, 1)
            futures.wait([saver._last])


@pytest.mark.parametrize("pattern", ["run_*", "experience_*"])
@pytest.mark.parametrize("damage", [lambda old: old[:-3], lambda old: old[:99] + b"?" + old[100:], None])
def test_the_one_before_a_damaged_checkpoint_is_used(
    saver: Saver, tmp_path: Path, pattern: str, damage: Callable[[bytes], bytes] | None
) -> None:
    for n in (1, 2):
        play(saver, 10 * (n - 1), 10 * n)
        save(saver, n)
    futures.wait([saver._last])
    path = sorted(saver.folder.glob(pattern))[-1]
    path.write_bytes(damage(path.read_bytes())) if damage else path.unlink()
    assert number_and_rows_of_newest(saver) == (1, [4, 5, 6, 7, 8, 9])
    # A run that continues from it leaves it until the next one is written.
    saved = next(CheckpointFolder(saver.folder).usable())
    again = Saver(tmp_path / "pong", "pong", 6, Config())
    again.resume(saved)
    play(again, 10, 15)
    assert number_and_rows_of_newest(again)[0] == 1
    save(again, 3)
    again.close()
    assert number_and_rows_of_newest(again) == (3, [9, 10, 11, 12, 13, 14])
    assert len(list(saver.folder.glob("run_*"))) == 2


def test_a_disk_without_room_costs_a_line_and_not_the_run(saver: Saver, caplog: Logs) -> None:
    saver.folder.write_text("where a folder should be")
    for first in range(0, 80, 8):
        play(saver, first, first + 8)
        save(saver, 1, held=8)
    futures.wait([saver._last])
    assert "No checkpoint was written" in caplog.text
    assert len(saver._unwritten) == 2  # chunks with the 8 rows that the memory has
    saver.folder.unlink()
    save(saver, 2, held=8)
    assert number_and_rows_of_newest(saver) == (2, list(range(72, 80)))


def test_after_its_folder_is_lost_no_checkpoint_is_written(saver: Saver, caplog: Logs) -> None:
    for number in (1, 2):
        play(saver, 8 * number, 8 * number + 8)
        save(saver, number, held=8 * number)
        if number == 1:
            assert number_and_rows_of_newest(saver)[0] == 1
            shutil.rmtree(saver.folder)  # as when a disk goes away
    assert number_and_rows_of_newest(saver) == (None, [])
    assert "is gone, without which no run can continue" in caplog.text


def test_before_the_first_checkpoint_the_last_snapshot_is_named(saver: Saver, monkeypatch: Patch) -> None:
    assert saver.resume_hint() == ""
    for epoch in (9, 10):
        saver.save_snapshot(epoch, 10 * epoch, WEIGHTS)
    assert saver.resume_hint().endswith(f"resume.sh {saver.prefix}_10.pkl")
    monkeypatch.setattr(own_code, "IMPORTED", {"/their/mine.py": (), "module": ()})
    assert saver.resume_hint().endswith("_10.pkl --import /their/mine.py --import module")


def test_no_checkpoint_gets_ahead_of_a_snapshot(saver: Saver, caplog: Logs) -> None:
    saver.save_snapshot(1, 10, WEIGHTS)
    save(saver, 1, held=0)
    saver.require_snapshots()
    blocked = saver.prefix.with_name("pong_2.pkl")
    blocked.mkdir()
    for epoch in (2, 3):
        saver.save_snapshot(epoch, 10 * epoch, WEIGHTS)
    assert caplog.text.count("tries again later") == 2
    save(saver, 2, held=0)
    assert number_and_rows_of_newest(saver)[0] == 1
    with pytest.raises(UserError, match=r"pong_2\.pkl could not be written: .*resume\.sh .*pong_checkpoint"):
        saver.require_snapshots()
    blocked.rmdir()
    save(saver, 3, held=0)
    assert number_and_rows_of_newest(saver)[0] == 3
    saver.require_snapshots()
    assert Snapshot.load(blocked).total_train_steps == 20
    assert Snapshot.load(saver.prefix.with_name("pong_3.pkl")).epoch == 3


def test_an_unexpected_error_of_the_saver_thread_is_raised(tmp_path: Path, monkeypatch: Patch) -> None:
    saver = Saver(tmp_path / "pong", "pong", 6, Config())
    monkeypatch.setattr(CheckpointFolder, "write", lambda *_: 1 // 0)
    save(saver, 1)
    for call in (saver.close, lambda: save(saver, 2)):
        with pytest.raises(ZeroDivisionError):
            call()


def test_snapshots_name_no_place(tmp_path: Path) -> None:
    config = Config.from_flags({"game": "/home/me/pong.rom", "csv_file": "/home/me/x.csv", "frame_skip": 3})
    path = Saver(tmp_path / "pong", "pong", 6, config).save_snapshot(4, 1000, WEIGHTS)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name] == ["pong_4.pkl"]
    assert b"/home/me" not in path.read_bytes()
    assert Snapshot.load(path).flags["frame_skip"] == 3


def test_a_lock_ends_with_its_process_and_its_unfinished_files_are_removed(tmp_path: Path) -> None:
    prefix = tmp_path / "pong"
    program = (
        "import os, sys; from pathlib import Path; from simple_dqn.snapshot.saver import locked\n"
        f"with locked(Path({str(prefix)!r})): print('mine', flush=True); sys.stdin.read()"
    )
    other = start_python("-c", program)
    assert other.stdout is not None
    assert other.stdout.readline() == "mine\n"
    with (
        pytest.raises(UserError, match=rf"another run \(process {other.pid}\).*another label"),
        locked(prefix),
    ):
        pass
    with locked(prefix.with_name("pong_2")):  # has other files
        pass
    other.kill()
    other.wait()
    gone = [tmp_path / ".pong_3.pkl.77.part", tmp_path / "pong_checkpoint" / ".run_000003.npz.77.part"]
    stays = [tmp_path / name for name in (".pong_2_3.pkl.77.part", ".breakout_3.pkl.77.part", "pong_3.pkl")]
    for path in [*gone, *stays]:
        path.touch()
    with locked(prefix):
        assert [path.exists() for path in [*gone, *stays]] == [False, False, True, True, True]


RUN = catch(test_steps=20, replay_size=50, epochs=2, optimizer="adam", sampler="prioritized")
FOLDER = Path("snapshots/catch_checkpoint")
MISSING = object()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_in(tmp_path_factory.mktemp("trained"), *RUN)


@pytest.fixture(scope="module")
def resumed(trained: Path) -> Iterator[tuple[Run, CheckpointState]]:
    saved = next(CheckpointFolder(trained / FOLDER).usable())
    with closing(make_run(Config.from_flags({**recorded(saved.run), "csv_file": None}), Interrupt())) as run:
        yield run, run.get_state(games=False)


@pytest.fixture
def restore(resumed: tuple[Run, CheckpointState], monkeypatch: Patch) -> Callable[[], None]:
    """Return a function that restores the newest checkpoint of the current folder, but trains no further."""
    run, fresh = resumed
    monkeypatch.setattr(Run, "get_state", lambda self, games: fresh)
    monkeypatch.setattr(Run, "_run", lambda self: None)

    def restore() -> None:
        newest = next(CheckpointFolder(FOLDER).usable(lambda run: follows(None, run)), None)
        if newest is None or newest.path != newest_file():
            raise DamagedError("the one before it is used")
        run.resume(newest)

    return restore


def newest_file() -> Path:
    return max(FOLDER.glob("run_*.npz"))


def edit(changes: dict[str, Any]) -> None:
    with newest_file().open("rb") as file:
        content = read_archive(file)
    for name, value in changes.items():
        *parents, last = name.split("/")
        parent = content
        for key in parents:
            parent = parent[key]
        if value is MISSING:
            del parent[last]
        else:
            parent[last] = value(parent[last]) if callable(value) else value
    write_archive(newest_file(), content)


SAMPLER, NETWORK, GAMES = "agent/memory/sampler", "agent/network", "agent/player/environment"


@pytest.mark.parametrize(("name", "value"), [
    ("run/statistics/running", lambda _: np.zeros(3)), ("run/held_out", lambda old: old[:0]),
    ("format", 1), ("rows", 1.5), ("rows", -1), ("held", 10**9), ("held", -1),
    ("chunks", lambda old: old + 1), ("run/agent/total_train_steps", 2**63 - 1),
    *((f"run/{name}", MISSING) for name in (
        "snapshots/complete", "phase", "flags/environment", "held_out", "statistics/csv", "tester/board",
        f"{NETWORK}/target", f"{NETWORK}/training/slots/output.weight/exp_avg", f"{SAMPLER}/masses",
    )),
    *((f"run/{name}", value) for name, value in {
        "phase/name": "sleep", "phase/epoch": 10**9, "phase/done": -1, "flags": [1], "statistics": None,
        "flags/workers": "many", "flags/random_seed": None, "flags/csv_file": 7, "flags/batch_size": 51,
        "flags/save_weights_prefix": "a\0b",
        "flags/replay_size": 10**9, "flags/record_screen_path": np.zeros(0), "tester": None,
        "statistics/tally/phase": "sleep", "statistics/tally/loss": math.nan,
        "statistics/running": lambda old: old.astype(np.uint8), "held_out": lambda old: old[:, :, :-1],
        "agent/total_train_steps": -1, "agent/player/states/states": lambda old: old[:, :1],
        "agent/player/rng/bit_generator": "MT19937", "agent/player/rng/state/state": -1,
        f"{GAMES}/name": "pong", f"{GAMES}/games": {}, f"{GAMES}/games/0/ball_row": 10**9,
        "agent/memory/ring/rows": 10**9, "agent/memory/ring/position": -1, "agent/memory/height": math.nan,
        f"{NETWORK}/updates": "x", f"{NETWORK}/online/output.bias": lambda old: old * np.nan,
        f"{NETWORK}/target/output.weight": lambda old: old.T, f"{NETWORK}/training/optimizer": "x",
        "tester/board/scores": lambda old: old.astype(np.int16), "tester/board/running": lambda old: old[:0],
        f"{SAMPLER}/masses": lambda old: -old, f"{SAMPLER}/greatest": 1e40, SAMPLER: {},
        "statistics/tally/min_game_reward": "x",
        f"{GAMES}/games/0/paddle": 2.0,
    }.items()),
    # PyTorch's kernels would read and write beyond these.
    *((f"run/{NETWORK}/training/slots/output.weight/{name}", value) for name, value in (
        ("exp_avg", np.zeros((), np.float32)), ("exp_avg_sq", np.zeros(1, np.float32)), ("exp_avg", 1.0),
        ("step", np.array(-1, np.float32)), ("step", lambda old: np.repeat(old, 3)),
    )),
    (f"run/{NETWORK}/training/slots", lambda old: {name: {"step": one["step"]} for name, one in old.items()}),
    (f"run/{SAMPLER}/masses", lambda old: old * math.nan), (f"run/{SAMPLER}/greatest", math.nan),
    (f"run/{SAMPLER}/masses", lambda old: old.astype(np.float32)),
])  # fmt: skip
def test_edited_ones_are_damaged(finished: Path, restore: Callable[[], None], name: str, value: Any) -> None:
    edit({})
    restore()  # a sound one
    edit({name: value})
    with pytest.raises(DamagedError):
        restore()


@pytest.mark.usefixtures("finished")
@pytest.mark.parametrize("change", [
    lambda piece: piece._replace(actions=piece.actions + 99),
    lambda piece: piece._replace(actions=piece.actions - 99),
    lambda piece: piece._replace(screens=piece.screens[..., :-1]),
    lambda piece: piece._replace(screens=piece.screens.astype(np.float32)),
])  # fmt: skip
def test_experience_of_other_games_is_damaged(
    restore: Callable[[], None], change: Callable[[Experience], Experience], monkeypatch: Patch
) -> None:
    experience = Checkpoint.experience
    monkeypatch.setattr(Checkpoint, "experience", lambda self: map(change, experience(self)))
    with pytest.raises(DamagedError, match="of other games"):
        restore()


@pytest.mark.usefixtures("finished")
def test_parts_begin_anew_where_their_settings_change(told: Told) -> None:
    changes = (
        "--target_steps 0 --test_steps 0 --sampler uniform",
        "--target_steps 8 --test_steps 20 --sampler prioritized --priority_exponent 0.5 --average_updates 4",
    )
    for epochs, change in enumerate(changes, 3):
        assert "cannot be used" not in told("resume", str(FOLDER), "--epochs", str(epochs), *change.split())


def test_a_resume_uses_the_one_before_a_damaged_checkpoint(finished: Path, told: Told) -> None:
    newest = newest_file()
    edit({"run/agent/network/updates": "x"})
    assert f"{newest} cannot be used (it is damaged: " in told("resume", str(FOLDER), "--epochs", "3")
    assert len(list(finished.glob("results/*.csv"))) == 2  # with a copy of the rows that were written again


def test_a_checkpoint_chooses_no_path(finished: Path, told: Told) -> None:
    other, own = finished.parent / "other.csv", finished / "results" / "catch.csv"
    other.write_text(own.read_text().replace("\n1,", "\n7,").replace("\n2,", "\n8,"))
    before = {path: path.read_bytes() for path in (other, *finished.glob("results/*"))}
    names = ("record_screen_path", "load_weights", "visualization_file", "csv_file")
    paths = {f"run/flags/{name}": str(other) for name in names}
    paths |= {"run/flags/record_sound_filename": str(finished.parent / "sound.wav")}
    prefix = str(finished / "snapshots" / "catch")
    edit(paths | {"run/flags/display_screen": True, "run/flags/save_weights_prefix": prefix})
    log = told("resume", str(FOLDER), "--epochs", "3")
    assert f"{other} is not of this run: it continues in results/catch.csv" in log
    assert "no recording and no window: give" in log
    assert other.read_bytes() == before[other]
    assert own.read_bytes().startswith(before[own])
    assert {path.name for path in finished.parent.iterdir()} == {"run", "other.csv"}


@pytest.mark.usefixtures("finished")
def test_a_csv_knows_its_run(told: Told) -> None:
    shared = ["--csv_file", "shared.csv", "--epochs", "1"]
    assert main.run(["train", RUN[0], "a", *RUN[1:], *shared]) == 0
    of_a = Path("shared.csv").read_text()
    assert main.run(["train", RUN[0], "b", *RUN[1:], *shared, "--random_seed", "1"]) == 0
    of_b, settings = Path("shared.csv").read_text(), Path("shared.yaml").read_text()
    assert Path("shared.1.csv").read_text() == of_a
    said = told("resume", "snapshots/catch_a_checkpoint", "--epochs", "2", *shared[:2])
    assert "rows of another run" in said
    assert (Path("shared.2.csv").read_text(), Path("shared.2.yaml").read_text()) == (of_b, settings)
    assert [line[:7] for line in Path("shared.csv").read_text().splitlines()[1:]] == ["2,train", "2,test,"]
    # The rows of the new file are those of the run from then on.
    assert main.run(["resume", "snapshots/catch_a_checkpoint", "--epochs", "3"]) == 0
    assert len(Path("shared.csv").read_text().splitlines()) == 5


def test_nothing_is_written_through_links_in_a_folder_of_checkpoints(finished: Path) -> None:
    other = finished.parent / "precious"
    other.write_text("mine")
    last = max(FOLDER.glob("experience_*.lz4")).name.split("-")[1].removesuffix(".lz4")
    os.mkfifo(FOLDER / "run_999999.npz")  # is passed over
    for rows in range(1, 80):  # one of them is the next chunk's
        (FOLDER / f"experience_{last}-{int(last) + rows:010d}.lz4").symlink_to(other)
    assert main.run(["resume", str(FOLDER), "--epochs", "3"]) == 0
    assert other.read_text() == "mine"
    (FOLDER / "lock").symlink_to(other)
    assert main.run(["resume", str(FOLDER), "--epochs", "4"]) == 2
    assert other.read_text() == "mine"


def test_a_folder_of_checkpoints_may_be_a_link(finished: Path) -> None:
    shutil.move(str(FOLDER), finished / "disk_checkpoint")
    FOLDER.symlink_to(finished / "disk_checkpoint")
    assert prefix_of(FOLDER) == Path("snapshots/catch")
    for epochs in ("3", "4"):
        assert main.run(["resume", str(FOLDER), "--epochs", epochs]) == 0
    assert Path("snapshots/catch_4.pkl").exists()
    assert not list(finished.glob("snapshots/disk*"))
