"""A second run of a name keeps the files of the first; no run writes among the trained agents."""

import csv
from pathlib import Path

import numpy as np

from simple_dqn import main
from simple_dqn.command_line import read
from simple_dqn.snapshot import CheckpointFolder, Snapshot, snapshots_after
from simple_dqn.snapshot.checkpoint import set_aside
from tests.command_line import Capsys, catch, snapshots

TRAIN = ["train", *catch(epochs=2)]


def names(start: str, *epochs: int) -> set[str]:
    return {f"{start}_{epoch}.pkl" for epoch in epochs}


def epochs(path: Path) -> list[str]:
    with path.open() as file:
        return [row["epoch"] for row in csv.DictReader(file) if row["phase"] == "train"]


def test_each_run_of_a_name_keeps_the_files_of_those_before(finished: Path, capsys: Capsys) -> None:
    first = snapshots(finished)
    assert first.keys() == names("catch", 1, 2)
    assert main.run([*TRAIN, "--random_seed", "1", "--epochs", "1"]) == 0
    assert "The files of an earlier run are kept as snapshots/catch_before_..." in capsys.readouterr().err
    second = snapshots(finished)
    assert second.keys() == names("catch", 1) | names("catch_before", 1, 2)
    assert {name.replace("_before", ""): second[name] for name in second if "before" in name} == first
    assert main.run([*TRAIN, "--random_seed", "2", "--epochs", "1"]) == 0
    third = snapshots(finished)
    assert third.keys() == second.keys() | names("catch_before_2", 1)
    assert third["catch_before_2_1.pkl"] == second["catch_1.pkl"]
    assert third["catch_before_2.pkl"] == first["catch_2.pkl"]
    capsys.readouterr()
    # The first goes on under its new name, by its checkpoint.
    assert main.run(["resume", "snapshots/catch_before_2.pkl", "--epochs", "3"]) == 0
    log = capsys.readouterr().err
    assert "train 3, step 0" in log
    assert "are lost" not in log
    assert snapshots(finished).keys() == third.keys() | names("catch_before", 3)
    # A snapshot that is put back in its place leads to its checkpoint.
    (finished / "snapshots" / "catch_before_2_1.pkl").rename(finished / "snapshots" / "catch_1.pkl")
    assert main.run(["resume", "snapshots/catch_1.pkl", "--epochs", "2"]) == 0
    assert "One is in snapshots/catch_before_2_checkpoint" in capsys.readouterr().err


def test_the_settings_of_an_earlier_run_have_the_number_of_its_csv(finished: Path) -> None:
    main.run(["resume", "snapshots/catch_1.pkl"])  # keeps a copy of the CSV
    main.run([*TRAIN, "--learning_rate", "0.002"])
    results = finished / "results"
    assert {path.name for path in results.iterdir()} == {
        "catch.csv", "catch.yaml", "catch.1.csv", "catch.2.csv", "catch.2.yaml",
    }  # fmt: skip
    assert read(str(results / "catch.2.yaml"))["learning_rate"] == 0.00025


def test_a_run_can_begin_with_weights_that_it_renames(finished: Path, capsys: Capsys) -> None:
    first = snapshots(finished)
    weights = ["--load_weights", "snapshots/catch_2.pkl", "--random_steps", "60", "--learning_rate", "1e-30"]
    assert main.run([*TRAIN, *weights, "--epochs", "1"]) == 0
    began, now = (
        Snapshot.load(finished / "snapshots" / name).weights for name in ("catch_before_2.pkl", "catch_1.pkl")
    )
    assert all(np.array_equal(began[name], now[name]) for name in began)
    assert snapshots(finished)["catch_before_2.pkl"] == first["catch_2.pkl"]
    capsys.readouterr()
    assert main.run([*TRAIN, *weights, "--epochs", "1"]) == 2
    hint = "snapshots/catch_2.pkl does not exist: did you mean snapshots/catch_before_2.pkl?\n"
    assert capsys.readouterr().err.endswith(hint)


def test_a_resume_renames_nothing_that_it_goes_on_from(finished: Path, capsys: Capsys) -> None:
    assert main.run([*TRAIN, "--epochs", "3", "--resume", "true"]) == 0
    assert main.run(["resume", "snapshots/catch_checkpoint", "--epochs", "4"]) == 0
    assert "earlier run" not in capsys.readouterr().err
    assert snapshots(finished).keys() == names("catch", 1, 2, 3, 4)
    # From the snapshot before the last by a checkpoint: what comes after is the same run, and written again.
    assert main.run(["resume", "snapshots/catch_3.pkl", "--epochs", "4"]) == 0
    assert "from snapshots/catch_4.pkl on, will be overwritten" in capsys.readouterr().err
    assert snapshots(finished).keys() == names("catch", 1, 2, 3, 4)
    # From one that no checkpoint follows on: what came after it is another run.
    before = snapshots(finished)
    assert main.run(["resume", "snapshots/catch_1.pkl", "--epochs", "2"]) == 0
    assert "are kept as snapshots/catch_before_..." in capsys.readouterr().err
    now = snapshots(finished)
    assert now.keys() == names("catch", 1, 2) | names("catch_before", 2, 3, 4)
    assert now["catch_1.pkl"] == before["catch_1.pkl"]
    assert now["catch_before_4.pkl"] == before["catch_4.pkl"]


def test_a_trained_agent_goes_on_under_a_label(finished: Path, capsys: Capsys) -> None:
    trained = finished / "snapshots" / "trained"
    trained.mkdir()
    agent = (finished / "snapshots" / "catch_2.pkl").rename(trained / "catch_2.pkl").read_bytes()
    own, results = snapshots(finished), (finished / "results" / "catch.csv").read_text()
    assert main.run(["resume", "snapshots/trained/catch_2.pkl", "--epochs", "3"]) == 0
    log = capsys.readouterr().err
    assert "catch_2.pkl remains unchanged: the run continues as snapshots/catch_trained_..." in log
    assert [path.name for path in trained.iterdir()] == ["catch_2.pkl"]
    assert (trained / "catch_2.pkl").read_bytes() == agent
    assert snapshots(finished).keys() == {*own, "catch_trained_3.pkl"}
    assert (finished / "results" / "catch.csv").read_text() == results
    assert main.run(["resume", "snapshots/catch_trained_3.pkl", "--epochs", "4"]) == 0
    assert epochs(finished / "results" / "catch_trained.csv") == ["3", "4"]
    assert CheckpointFolder(finished / "snapshots" / "catch_trained_checkpoint").newest()
    capsys.readouterr()
    assert main.run([*TRAIN, "--save_weights_prefix", str(trained / "catch")]) == 2
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
