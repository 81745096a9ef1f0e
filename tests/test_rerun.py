"""A second run of a name keeps the files of the first; no run writes among the trained agents."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

from simple_dqn import main
from simple_dqn.command_line import read
from simple_dqn.snapshot import CheckpointFolder, Snapshot, snapshots_after
from simple_dqn.snapshot.checkpoint import set_aside
from tests.command_line import train_in

CATCH = [
    "catch", "--environment", "catch", "--preset", "simple_dqn", "--screen_width", "36",
    "--screen_height", "36", "--random_steps", "60", "--train_steps", "40", "--test_steps", "0",
    "--replay_size", "100", "--batch_size", "4", "--target_steps", "8", "--backend", "cpu",
    "--threads", "1", "--random_seed", "0", "--epochs", "2",
]  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of two epochs."""
    return train_in(tmp_path_factory.mktemp("trained"), *CATCH)


@pytest.fixture
def home(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    """Return a copy of that folder, the current one."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMPLE_DQN_HOME", ".")
    capsys.readouterr()
    return tmp_path


def snapshots(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (home / "snapshots").glob("*.pkl")}


def names(start: str, *epochs: int) -> set[str]:
    return {f"{start}_{epoch}.pkl" for epoch in epochs}


def epochs(path: Path) -> list[str]:
    with path.open() as file:
        return [row["epoch"] for row in csv.DictReader(file) if row["phase"] == "train"]


def test_each_run_of_a_name_keeps_the_files_of_those_before(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = snapshots(home)
    assert first.keys() == names("catch", 1, 2)
    assert main.run(["train", *CATCH, "--random_seed", "1", "--epochs", "1"]) == 0
    assert "The files of an earlier run are kept as snapshots/catch_before_..." in capsys.readouterr().err
    second = snapshots(home)
    assert second.keys() == names("catch", 1) | names("catch_before", 1, 2)
    assert {name.replace("_before", ""): second[name] for name in second if "before" in name} == first
    assert main.run(["train", *CATCH, "--random_seed", "2", "--epochs", "1"]) == 0
    third = snapshots(home)
    assert third.keys() == second.keys() | names("catch_before_2", 1)
    assert third["catch_before_2_1.pkl"] == second["catch_1.pkl"]
    assert third["catch_before_2.pkl"] == first["catch_2.pkl"]
    capsys.readouterr()
    # The first goes on under its new name, by its checkpoint.
    assert main.run(["resume", "snapshots/catch_before_2.pkl", "--epochs", "3"]) == 0
    log = capsys.readouterr().err
    assert "train 3, step 0" in log
    assert "are lost" not in log
    assert snapshots(home).keys() == third.keys() | names("catch_before", 3)
    # A snapshot that is put back in its place leads to its checkpoint.
    (home / "snapshots" / "catch_before_2_1.pkl").rename(home / "snapshots" / "catch_1.pkl")
    assert main.run(["resume", "snapshots/catch_1.pkl", "--epochs", "2"]) == 0
    assert "One is in snapshots/catch_before_2_checkpoint" in capsys.readouterr().err


def test_the_settings_of_an_earlier_run_have_the_number_of_its_csv(home: Path) -> None:
    main.run(["resume", "snapshots/catch_1.pkl"])  # keeps a copy of the CSV
    main.run(["train", *CATCH, "--learning_rate", "0.002"])
    results = home / "results"
    assert {path.name for path in results.iterdir()} == {
        "catch.csv", "catch.yaml", "catch.1.csv", "catch.2.csv", "catch.2.yaml",
    }  # fmt: skip
    assert read(str(results / "catch.2.yaml"))["learning_rate"] == 0.00025


def test_a_run_can_begin_with_weights_that_it_renames(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = snapshots(home)
    weights = ["--load_weights", "snapshots/catch_2.pkl", "--random_steps", "60", "--learning_rate", "1e-30"]
    assert main.run(["train", *CATCH, *weights, "--epochs", "1"]) == 0
    began, now = (
        Snapshot.load(home / "snapshots" / name).weights for name in ("catch_before_2.pkl", "catch_1.pkl")
    )
    assert all(np.array_equal(began[name], now[name]) for name in began)
    assert snapshots(home)["catch_before_2.pkl"] == first["catch_2.pkl"]
    capsys.readouterr()
    assert main.run(["train", *CATCH, *weights, "--epochs", "1"]) == 2
    hint = "snapshots/catch_2.pkl does not exist: did you mean snapshots/catch_before_2.pkl?\n"
    assert capsys.readouterr().err.endswith(hint)


def test_epochs_that_count_as_done_keep_their_snapshots(home: Path) -> None:
    first = snapshots(home)
    begun = ["--start_epoch", "1", "--load_weights", "snapshots/catch_1.pkl", "--random_seed", "1"]
    assert main.run(["train", *CATCH, *begun]) == 0
    now = snapshots(home)
    assert now.keys() == {*first, "catch_before_2.pkl"}
    assert now["catch_1.pkl"] == first["catch_1.pkl"]
    assert now["catch_before_2.pkl"] == first["catch_2.pkl"] != now["catch_2.pkl"]


def test_a_resume_renames_nothing_that_it_goes_on_from(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["train", *CATCH, "--epochs", "3", "--resume", "true"]) == 0
    assert main.run(["resume", "snapshots/catch_checkpoint", "--epochs", "4"]) == 0
    assert "earlier run" not in capsys.readouterr().err
    assert snapshots(home).keys() == names("catch", 1, 2, 3, 4)
    # From the snapshot before the last by a checkpoint: what comes after is the same run, and written again.
    assert main.run(["resume", "snapshots/catch_3.pkl", "--epochs", "4"]) == 0
    assert "from snapshots/catch_4.pkl on, will be overwritten" in capsys.readouterr().err
    assert snapshots(home).keys() == names("catch", 1, 2, 3, 4)
    # From one that no checkpoint follows on: what came after it is another run.
    before = snapshots(home)
    assert main.run(["resume", "snapshots/catch_1.pkl", "--epochs", "2"]) == 0
    assert "are kept as snapshots/catch_before_..." in capsys.readouterr().err
    now = snapshots(home)
    assert now.keys() == names("catch", 1, 2) | names("catch_before", 2, 3, 4)
    assert now["catch_1.pkl"] == before["catch_1.pkl"]
    assert now["catch_before_4.pkl"] == before["catch_4.pkl"]


def test_a_trained_agent_goes_on_under_a_label(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained = home / "snapshots" / "trained"
    trained.mkdir()
    agent = (home / "snapshots" / "catch_2.pkl").rename(trained / "catch_2.pkl").read_bytes()
    own, results = snapshots(home), (home / "results" / "catch.csv").read_text()
    assert main.run(["resume", "snapshots/trained/catch_2.pkl", "--epochs", "3"]) == 0
    log = capsys.readouterr().err
    assert "catch_2.pkl remains unchanged: the run continues as snapshots/catch_trained_..." in log
    assert [path.name for path in trained.iterdir()] == ["catch_2.pkl"]
    assert (trained / "catch_2.pkl").read_bytes() == agent
    assert snapshots(home).keys() == {*own, "catch_trained_3.pkl"}
    assert (home / "results" / "catch.csv").read_text() == results
    assert main.run(["resume", "snapshots/catch_trained_3.pkl", "--epochs", "4"]) == 0
    assert epochs(home / "results" / "catch_trained.csv") == ["3", "4"]
    assert CheckpointFolder(home / "snapshots" / "catch_trained_checkpoint").newest()
    capsys.readouterr()
    assert main.run(["train", *CATCH, "--save_weights_prefix", str(trained / "catch")]) == 2
    assert "give another --save_weights_prefix" in capsys.readouterr().err.splitlines()[-1]
    assert [path.name for path in trained.iterdir()] == ["catch_2.pkl"]


def test_only_snapshots_of_the_very_name_are_renamed(tmp_path: Path) -> None:
    others = {
        "pong.pkl", "pong_x_3.pkl", "pong_3_4.pkl", "pong_3.pkl.txt", "xpong_3.pkl", "breakout_3.pkl",
        "pong_before_2.pkl", "pong_before_3_1.pkl", "pong_2.pkl",
    }  # fmt: skip
    for name in (*others, "pong_3.pkl", "pong_10.pkl"):
        (tmp_path / name).touch()
    assert [path.name for path in snapshots_after(tmp_path / "pong", 2)] == ["pong_3.pkl", "pong_10.pkl"]
    set_aside(tmp_path / "pong", 2)  # not as `pong_before`, whose epoch 2 is `pong_before_2.pkl`
    assert {path.name for path in tmp_path.iterdir()} == others | names("pong_before_2", 3, 10)
