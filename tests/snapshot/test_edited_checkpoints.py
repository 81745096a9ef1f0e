"""Checkpoints from strangers, or edited by hand: damaged or sound; none writes to another file."""

import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simple_dqn import main
from simple_dqn.config import Config
from simple_dqn.errors import Interrupt
from simple_dqn.run import Run, make_run
from simple_dqn.snapshot import CheckpointFolder, DamagedError, prefix_of
from simple_dqn.snapshot.snapshot import read_archive, write_archive
from simple_dqn.types import CheckpointState
from simple_dqn.verbs.train import follows, recorded
from tests.command_line import train_in

RUN = [
    "catch", "--environment", "catch", "--preset", "simple_dqn", "--random_steps", "60",
    "--train_steps", "40", "--test_steps", "20", "--replay_size", "50", "--screen_width", "36",
    "--screen_height", "36", "--batch_size", "4", "--target_steps", "8", "--backend", "cpu",
    "--random_seed", "0", "--epochs", "2", "--threads", "1", "--optimizer", "adam",
    "--sampler", "prioritized", "--network", "small",
]  # fmt: skip
FOLDER = Path("snapshots/catch_checkpoint")
MISSING = object()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a complete run with two checkpoints."""
    return train_in(tmp_path_factory.mktemp("trained"), *RUN)


@pytest.fixture
def home(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of that folder, the current one."""
    shutil.copytree(trained, tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    monkeypatch.setenv("SIMPLE_DQN_HOME", ".")
    return tmp_path / "run"


@pytest.fixture(scope="module")
def resumed(trained: Path) -> Iterator[tuple[Run, CheckpointState]]:
    """Return a run with the settings of the checkpoints, and its state before anything was restored."""
    saved = CheckpointFolder(trained / FOLDER).newest()
    assert saved is not None
    with closing(make_run(Config.from_flags({**recorded(saved.run), "csv_file": None}), Interrupt())) as run:
        yield run, run.get_state(games=False)


@pytest.fixture
def restore(resumed: tuple[Run, CheckpointState], monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that restores the newest checkpoint of the current folder, but trains no further."""
    run, fresh = resumed
    monkeypatch.setattr(Run, "get_state", lambda self, games: fresh)
    monkeypatch.setattr(Run, "_run", lambda self: None)

    def restore() -> None:
        newest = CheckpointFolder(FOLDER).newest(lambda run: follows(None, run))
        if newest is None or newest.path != _newest():
            raise DamagedError("the one before it is used")
        run.resume(newest)

    return restore


def _newest() -> Path:
    return max(FOLDER.glob("run_*.npz"))


def edit(changes: dict[str, Any]) -> None:
    """Change values of the newest checkpoint, by their names with slashes."""
    with _newest().open("rb") as file:
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
    write_archive(_newest(), content)


SAMPLER, NETWORK, GAMES = "agent/memory/sampler", "agent/network", "agent/player/environment"
EDITS: list[tuple[str, Any]] = [
    ("format", 1), ("rows", 1.5), ("held", 10**9), ("chunks", lambda old: old + 1),
    *((f"run/{name}", MISSING) for name in (
        "snapshots/complete", "phase", "flags/environment", "held_out", "statistics/csv", "tester/board",
        f"{NETWORK}/target", f"{NETWORK}/training/slots/output.weight/exp_avg", f"{SAMPLER}/masses",
    )),
    *((f"run/{name}", value) for name, value in {
        "phase/name": "sleep", "phase/epoch": 10**9, "phase/done": -1, "flags": [1], "statistics": None,
        "flags/workers": "many", "flags/random_seed": None, "flags/csv_file": 7, "flags/batch_size": 51,
        "flags/replay_size": 10**9, "flags/record_screen_path": np.zeros(0), "tester": None,
        "statistics/tally/phase": "sleep", "statistics/tally/loss": math.nan,
        "statistics/running": lambda _: np.zeros(3), "held_out": lambda old: old[:, :, :-1],
        "agent/total_train_steps": -1, "agent/player/states/states": lambda old: old[:, :1],
        "agent/player/rng/bit_generator": "MT19937", "agent/player/rng/state/state": -1,
        f"{GAMES}/name": "pong", f"{GAMES}/games": {}, f"{GAMES}/games/0/ball_row": 10**9,
        "agent/memory/ring/rows": 10**9, "agent/memory/ring/position": -1, "agent/memory/height": math.nan,
        f"{NETWORK}/updates": "x", f"{NETWORK}/online/output.bias": lambda old: old * np.nan,
        f"{NETWORK}/target/output.weight": lambda old: old.T, f"{NETWORK}/training/optimizer": "x",
        "tester/board/scores": lambda old: old.astype(np.int16), "tester/board/running": lambda old: old[:0],
        f"{SAMPLER}/masses": lambda old: -old, f"{SAMPLER}/greatest": 1e40, SAMPLER: {},
    }.items()),
]  # fmt: skip


def test_a_sound_checkpoint_is_restored_even_if_it_was_written_anew(
    home: Path, restore: Callable[[], None]
) -> None:
    for _ in range(2):
        restore()
        edit({})


@pytest.mark.parametrize(("name", "value"), EDITS)
def test_an_edited_checkpoint_is_damaged(
    home: Path, restore: Callable[[], None], name: str, value: Any
) -> None:
    edit({name: value})
    with pytest.raises(DamagedError):
        restore()


def test_parts_begin_anew_where_their_settings_change(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = (
        ["--target_steps", "0", "--test_steps", "0", "--sampler", "uniform"],
        ["--target_steps", "8", "--test_steps", "20", "--sampler", "prioritized", "--average_updates", "4"],
    )
    for epochs, change in enumerate(changes, 3):
        assert main.run(["resume", str(FOLDER), "--epochs", str(epochs), *change]) == 0
    assert "cannot be used" not in capsys.readouterr().err


def test_the_one_before_a_damaged_checkpoint_is_used(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = _newest()
    edit({"run/agent/network/updates": "x"})
    assert main.run(["resume", str(FOLDER), "--epochs", "3"]) == 0
    assert f"{newest} cannot be used (it is damaged: " in capsys.readouterr().err
    assert len(list(home.glob("results/*.csv"))) == 2  # with a copy of the rows that were written again


def test_a_checkpoint_chooses_no_path(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = home.parent / "other.csv"
    other.write_text(
        (home / "results" / "catch.csv").read_text().replace("\n1,", "\n7,").replace("\n2,", "\n8,")
    )
    before = {path: path.read_bytes() for path in (other, *home.glob("results/*"))}
    names = ("record_screen_path", "load_weights", "visualization_file", "csv_file")
    paths = {f"run/flags/{name}": str(other) for name in names}
    paths |= {"run/flags/record_sound_filename": str(home.parent / "sound.wav")}
    prefix = str(home / "snapshots" / "catch")
    edit(paths | {"run/flags/display_screen": True, "run/flags/save_weights_prefix": prefix})
    assert main.run(["resume", str(FOLDER), "--epochs", "3"]) == 0
    log = capsys.readouterr().err
    assert f"{other} does not have the rows of this run: it continues in results/catch.csv" in log
    assert "does not go on: give" in log
    assert other.read_bytes() == before[other]
    assert (home / "results" / "catch.csv").read_bytes().startswith(before[home / "results" / "catch.csv"])
    assert {path.name for path in home.parent.iterdir()} == {"run", "other.csv"}
    assert not (home / "x").exists()


def test_a_csv_knows_its_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = ["--csv_file", "shared.csv", "--epochs", "1"]
    assert main.run(["train", RUN[0], "a", *RUN[1:], *shared]) == 0
    of_a = Path("shared.csv").read_text()
    assert main.run(["train", RUN[0], "b", *RUN[1:], *shared, "--random_seed", "1"]) == 0
    of_b, settings = Path("shared.csv").read_text(), Path("shared.yaml").read_text()
    assert Path("shared.1.csv").read_text() == of_a
    assert main.run(["resume", "snapshots/catch_a_checkpoint", "--epochs", "2", *shared[:2]]) == 0
    assert "rows of another run" in capsys.readouterr().err
    assert (Path("shared.2.csv").read_text(), Path("shared.2.yaml").read_text()) == (of_b, settings)
    assert [line[:7] for line in Path("shared.csv").read_text().splitlines()[1:]] == ["2,train", "2,test,"]
    # The rows of the new file are those of the run from then on.
    assert main.run(["resume", "snapshots/catch_a_checkpoint", "--epochs", "3"]) == 0
    assert len(Path("shared.csv").read_text().splitlines()) == 5


def test_nothing_is_written_through_links_in_a_folder_of_checkpoints(home: Path) -> None:
    other = home.parent / "precious"
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


def test_a_folder_of_checkpoints_may_be_a_link(home: Path) -> None:
    shutil.move(str(FOLDER), home / "disk_checkpoint")
    FOLDER.symlink_to(home / "disk_checkpoint")
    assert prefix_of(FOLDER) == Path("snapshots/catch")
    for epochs in ("3", "4"):
        assert main.run(["resume", str(FOLDER), "--epochs", epochs]) == 0
    assert Path("snapshots/catch_4.pkl").exists()
    assert not list(home.glob("snapshots/disk*"))
