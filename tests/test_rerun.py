"""A second run of a name keeps the snapshots of the first; no run writes among the trained agents."""

import csv
from pathlib import Path

import numpy as np
import pytest

from simple_dqn import main
from simple_dqn.settings_file import read
from simple_dqn.snapshot import CheckpointFolder, Snapshot
from simple_dqn.snapshot.keeper import set_aside, snapshots_after

CATCH = [
    "catch", "--environment", "catch", "--preset", "simple_dqn", "--screen_width", "36",
    "--screen_height", "36", "--random_steps", "60", "--train_steps", "40", "--test_steps", "0",
    "--replay_size", "100", "--batch_size", "4", "--target_steps", "8", "--backend", "cpu",
    "--threads", "1", "--random_seed", "0", "--epochs", "2",
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMPLE_DQN_HOME", ".")
    return tmp_path


def snapshots(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (home / "snapshots").glob("*.pkl")}


def epochs(path: Path) -> list[str]:
    with path.open() as file:
        return [row["epoch"] for row in csv.DictReader(file) if row["phase"] == "train"]


def test_a_second_run_keeps_the_snapshots_of_the_first(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["train", *CATCH]) == 0
    assert "earlier run" not in capsys.readouterr().err
    first = snapshots(home)
    assert first.keys() == {"catch_1.pkl", "catch_2.pkl"}
    assert main.run(["train", *CATCH, "--random_seed", "1", "--epochs", "1"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "Snapshots of an earlier run" in line]
    assert [line.split(" ", 2)[2] for line in lines] == [
        "Snapshots of an earlier run, snapshots/catch_1.pkl to catch_2.pkl, are kept as "
        "snapshots/catch_before_1.pkl to catch_before_2.pkl"
    ]
    second = snapshots(home)
    assert second.keys() == {"catch_1.pkl", "catch_before_1.pkl", "catch_before_2.pkl"}
    assert {name.replace("_before", ""): second[name] for name in second if "before" in name} == first
    # The third does the same with the second, and leaves the first where it is.
    assert main.run(["train", *CATCH, "--random_seed", "2", "--epochs", "1"]) == 0
    third = snapshots(home)
    assert third.keys() == second.keys() | {"catch_before_2_1.pkl"}
    assert third["catch_before_2_1.pkl"] == second["catch_1.pkl"]
    assert third["catch_before_2.pkl"] == first["catch_2.pkl"]


def test_an_earlier_run_goes_on_under_its_new_name(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["train", *CATCH])
    main.run(["train", *CATCH, "--epochs", "1"])
    capsys.readouterr()
    assert main.run(["resume", "snapshots/catch_before_2.pkl", "--epochs", "3"]) == 0
    log = capsys.readouterr().err
    assert "train 3, step 0" in log  # by its checkpoint, which has the same name
    assert "are lost" not in log
    assert snapshots(home).keys() == {"catch_1.pkl", *(f"catch_before_{epoch}.pkl" for epoch in (1, 2, 3))}


def test_the_settings_of_an_earlier_run_have_the_number_of_its_csv(home: Path) -> None:
    main.run(["train", *CATCH, "--learning_rate", "0.001"])
    main.run(["resume", "snapshots/catch_1.pkl"])  # keeps a copy of the CSV
    main.run(["train", *CATCH, "--learning_rate", "0.002"])
    results = home / "results"
    assert {path.name for path in results.iterdir()} == {
        "catch.csv", "catch.yaml", "catch.1.csv", "catch.2.csv", "catch.2.yaml",
    }  # fmt: skip
    assert read(str(results / "catch.2.yaml"))["learning_rate"] == 0.001


def test_labels_are_runs_of_their_own(home: Path) -> None:
    for label in ("mine", "mine", "7"):
        assert main.run(["train", CATCH[0], label, *CATCH[1:], "--epochs", "1"]) == 0
    assert main.run(["train", *CATCH, "--epochs", "1"]) == 0
    assert snapshots(home).keys() == {
        "catch_mine_1.pkl", "catch_mine_before_1.pkl", "catch_7_1.pkl", "catch_1.pkl",
    }  # fmt: skip


def test_a_run_can_begin_with_weights_that_it_renames(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["train", *CATCH])
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
    assert capsys.readouterr().err.endswith(
        "snapshots/catch_2.pkl does not exist: did you mean snapshots/catch_before_2.pkl?\n"
    )


def test_epochs_that_count_as_done_keep_their_snapshots(home: Path) -> None:
    main.run(["train", *CATCH, "--epochs", "3"])
    first = snapshots(home)
    begun = ["--start_epoch", "2", "--load_weights", "snapshots/catch_2.pkl", "--random_seed", "1"]
    assert main.run(["train", *CATCH, *begun, "--epochs", "3"]) == 0
    now = snapshots(home)
    assert now.keys() == {*first, "catch_before_3.pkl"}
    assert (now["catch_1.pkl"], now["catch_2.pkl"]) == (first["catch_1.pkl"], first["catch_2.pkl"])
    assert now["catch_before_3.pkl"] == first["catch_3.pkl"] != now["catch_3.pkl"]


def test_a_resume_renames_nothing_that_it_goes_on_from(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main.run(["train", *CATCH])
    assert main.run(["train", *CATCH, "--epochs", "3", "--resume", "true"]) == 0
    assert main.run(["resume", "snapshots/catch_checkpoint", "--epochs", "4"]) == 0
    assert "earlier run" not in capsys.readouterr().err
    assert snapshots(home).keys() == {f"catch_{epoch}.pkl" for epoch in (1, 2, 3, 4)}
    # From the snapshot before the last by a checkpoint: what comes after is the same run, and written again.
    assert main.run(["resume", "snapshots/catch_3.pkl", "--epochs", "4"]) == 0
    assert "Later snapshots of the run, snapshots/catch_4.pkl, will be overwritten" in capsys.readouterr().err
    assert snapshots(home).keys() == {f"catch_{epoch}.pkl" for epoch in (1, 2, 3, 4)}
    # From one that no checkpoint follows on: what came after it is another run.
    before = snapshots(home)
    assert main.run(["resume", "snapshots/catch_1.pkl", "--epochs", "2"]) == 0
    assert "snapshots/catch_2.pkl to catch_4.pkl, are kept as" in capsys.readouterr().err
    now = snapshots(home)
    assert now.keys() == {"catch_1.pkl", "catch_2.pkl", *(f"catch_before_{epoch}.pkl" for epoch in (2, 3, 4))}
    assert now["catch_1.pkl"] == before["catch_1.pkl"]
    assert now["catch_before_4.pkl"] == before["catch_4.pkl"]


def test_a_trained_agent_goes_on_under_a_label(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["train", *CATCH])
    trained = home / "snapshots" / "trained"
    trained.mkdir()
    agent = (home / "snapshots" / "catch_2.pkl").rename(trained / "catch_2.pkl").read_bytes()
    own, results = snapshots(home), (home / "results" / "catch.csv").read_text()
    capsys.readouterr()
    assert main.run(["resume", "snapshots/trained/catch_2.pkl", "--epochs", "3"]) == 0
    log = capsys.readouterr().err
    assert (
        "snapshots/trained/catch_2.pkl remains unchanged: the run continues as snapshots/catch_trained_..."
        in log
    )
    assert [path.name for path in trained.iterdir()] == ["catch_2.pkl"]
    assert (trained / "catch_2.pkl").read_bytes() == agent
    assert snapshots(home).keys() == {*own, "catch_trained_3.pkl"}
    assert (home / "results" / "catch.csv").read_text() == results
    assert epochs(home / "results" / "catch_trained.csv") == ["3"]
    assert main.run(["resume", "snapshots/catch_trained_3.pkl", "--epochs", "4"]) == 0
    assert epochs(home / "results" / "catch_trained.csv") == ["3", "4"]
    assert CheckpointFolder(home / "snapshots" / "catch_trained_checkpoint").newest()


def test_no_run_writes_among_the_trained_agents(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained = home / "snapshots" / "trained"
    trained.mkdir(parents=True)
    assert main.run(["train", *CATCH, "--save_weights_prefix", str(trained / "catch")]) == 2
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .endswith(f"give another --save_weights_prefix than {trained / 'catch'}")
    )
    assert not list(trained.iterdir())


@pytest.mark.parametrize("verb", ["play", "test", "resume", "record", "nvis"])
def test_the_former_place_of_a_trained_agent_leads_to_the_new_one(
    home: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    (home / "snapshots" / "trained").mkdir(parents=True)
    (home / "snapshots" / "trained" / "pong_200.pkl").write_bytes(b"")
    (home / "snapshots" / "pong_1.pkl").write_bytes(b"")
    assert main.run([verb, "snapshots/pong_200.pkl"]) == 2
    assert capsys.readouterr().err.endswith(
        ": snapshots/pong_200.pkl does not exist: did you mean snapshots/trained/pong_200.pkl?\n"
    )
    assert main.run([verb, "snapshots/pong_2.pkl"]) == 2
    assert "snapshots/pong_2.pkl does not exist: snapshots holds pong_1.pkl" in capsys.readouterr().err


def test_only_snapshots_of_the_very_name_are_renamed(tmp_path: Path) -> None:
    others = [
        "pong.pkl", "pong_x_3.pkl", "pong_3_4.pkl", "pong_3.pkl.txt", "xpong_3.pkl", "breakout_3.pkl",
        "pong_before_2.pkl", "pong_before_3_1.pkl", "pong_2.pkl",
    ]  # fmt: skip
    for name in [*others, "pong_3.pkl", "pong_10.pkl"]:
        (tmp_path / name).touch()
    prefix = tmp_path / "pong"
    assert [path.name for path in snapshots_after(prefix, 2)] == ["pong_3.pkl", "pong_10.pkl"]
    set_aside(prefix, 2)  # as `pong_before_4`, after `pong_before`, which has an epoch 2, and `pong_before_3`
    assert {path.name for path in tmp_path.iterdir()} == {
        *others,
        "pong_before_4_3.pkl",
        "pong_before_4_10.pkl",
    }
