"""Whole runs through `main`: what they write, that they repeat, and that they go on where they stopped."""

import csv
import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from simple_dqn import main
from simple_dqn.config import Config, RunConfig
from simple_dqn.errors import UserError
from simple_dqn.snapshot import Snapshot
from simple_dqn.verbs.common import ONE_GAME, PLAYS_ONLY, settings_of_agent
from simple_dqn.verbs.settings import resolve
from tests.watch.test_record import save

SMALL = [
    "--preset", "simple_dqn", "--network", "small",
    "--random_steps", "300", "--train_steps", "120", "--test_steps", "60", "--replay_size", "500",
    "--screen_width", "36", "--screen_height", "36", "--batch_size", "8", "--target_steps", "50",
    "--backend", "cpu", "--random_seed", "0",
]  # fmt: skip
TIMES = ("total_time", "epoch_time", "steps_per_second")
HEADER = (
    "epoch,phase,steps,nr_games,average_reward,min_game_reward,max_game_reward,last_exploration_rate,"
    "total_train_steps,replay_memory_count,meanq,meancost,weight_updates,total_time,epoch_time,steps_per_second"
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    return tmp_path


def rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV, without its times."""
    with path.open() as file:
        return [{k: v for k, v in row.items() if k not in TIMES} for row in csv.DictReader(file)]


def run(*arguments: str) -> None:
    assert main.run(arguments) == 0


def same_weights(a: Path, b: Path) -> bool:
    one, other = Snapshot.load(a).weights, Snapshot.load(b).weights
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


GAMES = [("pong", []), ("catch", ["--environment", "catch", "--workers", "3"])]


@pytest.mark.parametrize(("game", "flags"), GAMES, ids=["pong", "catch"])
def test_train_writes_what_it_promises_and_resume_goes_on_exactly(
    home: Path, game: str, flags: list[str]
) -> None:
    run("train", f"roms/{game}.rom" if game == "pong" else game, "long", *SMALL, *flags, "--epochs", "3")
    run("train", game, "short", *SMALL, *flags, "--epochs", "1")
    run("resume", str(home / "snapshots" / f"{game}_short_1.pkl"), "--epochs", "2")
    run("resume", str(home / "snapshots" / f"{game}_short_2.pkl"), "--epochs", "3")

    long, short = home / "results" / f"{game}_long.csv", home / "results" / f"{game}_short.csv"
    assert long.read_text().splitlines()[0] == HEADER
    assert [(row["epoch"], row["phase"]) for row in rows(long)] == [
        ("0", "random"),
        *((epoch, phase) for epoch in "123" for phase in ("train", "test")),
    ]  # fmt: skip
    assert rows(short) == rows(long)
    for epoch in (1, 2, 3):
        one, other = (home / "snapshots" / f"{game}_{label}_{epoch}.pkl" for label in ("long", "short"))
        assert same_weights(one, other)
    assert not same_weights(
        home / "snapshots" / f"{game}_long_1.pkl", home / "snapshots" / f"{game}_long_3.pkl"
    )
    last = rows(long)[-1]
    assert last["total_train_steps"] == "360"
    assert last["weight_updates"] == "90"
    workers = int(flags[flags.index("--workers") + 1]) if flags else 1
    assert last["replay_memory_count"] == str(500 // workers * workers)


def test_a_resumed_run_goes_on_with_the_same_threads(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def use(threads: int, *_: object) -> int:
        asked.append(threads)
        return 2

    monkeypatch.setattr("simple_dqn.dqn.use_threads", use)
    run("train", "catch", "--environment", "catch", *SMALL, "--test_steps", "0", "--epochs", "1")
    run("resume", str(home / "snapshots" / "catch_1.pkl"), "--epochs", "2")
    assert asked == [0, 2]
    assert "threads" not in Snapshot.load(home / "snapshots" / "catch_1.pkl").flags


def test_the_same_seed_trains_the_same_with_tests_or_without_and_another_another(home: Path) -> None:
    for label, flags in (("a", []), ("b", ["--test_steps", "0"]), ("c", ["--random_seed", "1"])):
        run("train", "catch", label, "--environment", "catch", *SMALL, "--epochs", "2", *flags)
    trained = [row for row in rows(home / "results" / "catch_a.csv") if row["phase"] != "test"]
    assert trained == rows(home / "results" / "catch_b.csv")
    a, b, c = (home / "snapshots" / f"catch_{label}_2.pkl" for label in "abc")
    assert same_weights(a, b)
    assert not same_weights(a, c)


def test_a_run_beside_the_files_of_another(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("train", "pong", *SMALL, "--epochs", "1", "--tensorboard", "true")
    lines = [line.partition(",")[2].partition(" ")[2] for line in capsys.readouterr().err.splitlines()]
    snapshot = home / "snapshots" / "pong_1.pkl"
    assert lines[-3:] == [
        "All done",
        f"Next: ./play.sh {snapshot} shows it playing, ./test.sh {snapshot} measures it,",
        f"and ./resume.sh {snapshot} --epochs 11 trains it further",
    ]
    assert list((home / "results" / "pong").glob("events.out.tfevents.*"))
    first, weights = (home / "results" / "pong.csv").read_text(), str(home / "snapshots" / "pong_1.pkl")
    # Another run begins with the exploration of its epoch, and keeps the CSV.
    run("train", "pong", *SMALL, "--epochs", "2", "--start_epoch", "1", "--load_weights", weights)
    assert (home / "results" / "pong.1.csv").read_text() == first
    (trained,) = [row for row in rows(home / "results" / "pong.csv") if row["phase"] == "train"]
    assert (trained["epoch"], trained["total_train_steps"]) == ("2", "240")
    assert float(trained["last_exploration_rate"]) == pytest.approx(1 - 0.9 * 239 / 1_000_000)
    # Without a checkpoint, a resume says what is lost.
    for file in (home / "snapshots" / "pong_checkpoint").iterdir():
        file.unlink()
    capsys.readouterr()
    run("resume", str(home / "snapshots" / "pong_2.pkl"), "--epochs", "3")
    assert "are lost" in capsys.readouterr().err
    last = rows(home / "results" / "pong.csv")[-1]
    assert (last["epoch"], last["phase"], last["total_train_steps"]) == ("3", "test", "360")
    assert last["weight_updates"] == "90"  # so that the learning rate goes on falling


def test_ctrl_c_ends_the_phase_cleanly(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def stop_in_training() -> None:
        """Wait for two checkpoints after the end of random play, of which one is in training."""
        file, seen, first = home / "results" / "pong.csv", set[Path](), set[Path]()
        while len(seen - first) < 2:
            if file.exists() and "random" in file.read_text():
                seen |= set(home.glob("snapshots/pong_checkpoint/run_*"))
                first = first or set(seen)
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=stop_in_training).start()
    endless = ["--train_steps", "1000000", "--checkpoint_minutes", "0.001"]
    assert main.run(["train", "pong", *SMALL, *endless]) == 130
    next_command = f"Next: ./resume.sh {home / 'snapshots' / 'pong_checkpoint'} continues the run"
    assert next_command in capsys.readouterr().err
    last = rows(home / "results" / "pong.csv")[-1]
    assert last["phase"] == "train"
    snapshot = Snapshot.load(home / "snapshots" / "pong_1.pkl")
    assert str(snapshot.total_train_steps) == last["total_train_steps"] == last["steps"]
    run("resume", str(home / "snapshots" / "pong_1.pkl"), "--epochs", "2", "--train_steps", "40")
    resumed = rows(home / "results" / "pong.csv")[-2]
    assert int(resumed["total_train_steps"]) == max(snapshot.total_train_steps, 40) + 40


def test_test_reports_by_protocol(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, report = save(home / "breakout_3.pkl", game="breakout"), home / "report.json"
    files = ["--json", str(report), "--csv_file", str(home / "test.csv")]
    flags = ["--protocol", "nature", "--play_games", "3", "--max_game_frames", "2000", *files]
    run("test", str(path), *flags)
    outcome = json.loads(report.read_text())
    assert len(outcome["scores"]) == 3
    assert outcome["mean"] == pytest.approx(np.mean(outcome["scores"]))
    assert outcome["standard_deviation"] == pytest.approx(np.std(outcome["scores"]))
    assert outcome["exploration_rate"] == 0.05
    assert outcome["max_game_frames"] == 2000
    assert (outcome["random_starts"], outcome["random_start_frames"]) == (0, 30)
    assert outcome["rom_md5"] == "f34f08e5eb96e500e851a80be3277a56"
    assert outcome["human_normalised"] == pytest.approx(100 * (outcome["mean"] - 1.7) / (30.5 - 1.7), abs=2)
    printed = capsys.readouterr().out
    assert f"{outcome['mean']:.2f} ±" in printed
    assert f"{outcome['human_normalised']:.1f} % of human (Wang et al. 2016)" in printed
    assert outcome["human_source"] == "Wang et al. 2016"
    assert "f34f08e5eb96e500e851a80be3277a56" in printed
    assert rows(home / "test.csv")[0]["nr_games"] == "3"
    assert not (home / "results").exists()


def test_machado_s_protocol_is_for_networks_of_fewer_actions_too(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for label, minimal in (("few", True), ("all", False)):
        path = save(home / f"breakout_{label}_3.pkl", game="breakout", minimal_action_set=minimal)
        short = ["--play_games", "1", "--max_game_frames", "80", "--json", str(home / f"{label}.json")]
        run("test", str(path), "--protocol", "machado", *short)
    few, every = (json.loads((home / f"{label}.json").read_text()) for label in ("few", "all"))
    assert few["action_names"] == ["NOOP", "FIRE", "RIGHT", "LEFT"]
    assert (few["minimal_action_set"], every["minimal_action_set"]) == (True, False)
    assert len(every["action_names"]) == 18
    assert "--minimal_action_set true, not false" in few["unlike_protocol"]
    assert not [line for line in every["unlike_protocol"] if "action" in line]
    printed = capsys.readouterr().out
    assert "ε 0.01, 4 actions\n" in printed
    assert "\n  not as in machado: " in printed
    assert "ε 0.01, 18 actions\n" in printed


def test_a_test_between_epochs_ends_with_the_games_that_it_counts(home: Path) -> None:
    """A game of Catch takes 7 steps and one to start the next: 23 rounds end the third of each place."""
    run("train", "catch", "--environment", "catch", *SMALL, "--workers", "3", "--epochs", "1")
    last = rows(home / "results" / "catch.csv")[-1]
    assert (last["phase"], last["steps"], last["nr_games"]) == ("test", "69", "8")


def test_half_a_test_is_told_and_not_kept(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, report = save(home / "catch_3.pkl", environment="catch", game="catch"), home / "report.json"
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert main.run(["test", str(path), "--test_steps", "100000000", "--json", str(report)]) == 130
    assert "±" in capsys.readouterr().out
    assert not report.exists()


def test_a_snapshot_learnt_in_bfloat16_is_used_in_what_the_machine_computes_in(home: Path) -> None:
    flags = Config.from_flags({"game": "pong", "datatype": "bfloat16"}).shared_flags()
    agent = Path("pong_1.pkl"), Snapshot("pong", 1, 6, 0, flags, {})
    for fixed in (PLAYS_ONLY, ONE_GAME):
        assert settings_of_agent(*agent, {}, fixed).backend.datatype == "auto"
        assert settings_of_agent(*agent, {"datatype": "bfloat16"}, fixed).backend.datatype == "bfloat16"


def test_a_resume_from_weights_alone_chooses_the_datatype_and_from_a_checkpoint_keeps_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs: list[Config] = []

    def stop(config: Config, *_: object) -> None:
        configs.append(config)
        raise UserError("far enough")

    monkeypatch.setattr("simple_dqn.verbs.resume.make_run", stop)
    flags = Config.from_flags({"game": "pong", "datatype": "bfloat16"}).shared_flags()
    path = home / "snapshots" / "pong_1.pkl"
    path.parent.mkdir()
    Snapshot("pong", 1, 6, 100, flags, {"x": np.zeros(3, np.float32)}).save(path)
    assert main.run(["resume", str(path)]) == 2
    assert [one.backend.datatype for one in configs] == ["auto"]
    assert resolve({}, flags).backend.datatype == "bfloat16"


def test_gymnasiums_atari_ids_are_tested_by_protocol(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / "scores.json"
    words = ["--protocol", "nature", "--play_games", "1", "--max_game_frames", "100", "--threads", "1"]
    path = save(home / "ALE_Pong-v5_3.pkl", environment="gym", game="ALE/Pong-v5", random_starts=30)
    run("test", str(path), *words, "--json", str(file))
    outcome = json.loads(file.read_text())
    rules = (outcome["protocol"], outcome["random_starts"], outcome["random_start_frames"])
    assert rules == ("nature", 0, 30)
    path = save(home / "CartPole-v1_3.pkl", environment="gym", game="CartPole-v1", random_starts=0)
    assert main.run(["test", str(path), *words]) == 2
    assert "--protocol nature is for Atari games" in capsys.readouterr().err


def test_a_json_that_cannot_be_written_costs_no_outcome(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(home / "catch_3.pkl", environment="catch", game="catch")
    (home / "file").touch()
    words = ["--play_games", "2", "--threads", "1", "--json", str(home / "file" / "scores.json")]
    assert main.run(["test", str(path), *words]) == 2
    out, err = capsys.readouterr()
    assert " over 2 games" in out
    assert "cannot write" in err.splitlines()[-1]


def test_no_game_is_played_in_vain(home: Path) -> None:
    path = save(home / "catch_3.pkl", environment="catch", game="catch", workers=4)
    cases = {"--play_games 3": 3, "--play_games 9": 4, "--play_games 3 --workers 2": 2, "--test_steps 40": 4}
    for words, workers in cases.items():
        run("test", str(path), *words.split(), "--threads", "1", "--json", str(home / "scores.json"))
        assert json.loads((home / "scores.json").read_text())["workers"] == workers


def test_a_run_without_tests_is_tested_for_the_usual_number_of_steps(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(home / "catch_3.pkl", environment="catch", game="catch", test_steps=0)
    monkeypatch.setattr("simple_dqn.verbs.play.RunConfig", lambda: RunConfig(test_steps=70))
    run("test", str(path))
    assert ", 70 steps" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["profile_train", "profile_test", "profile_random"])
def test_profiles(home: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    steps = {"profile_train": "train_steps", "profile_test": "test_steps", "profile_random": "random_steps"}
    filling = () if verb == "profile_test" else ("--random_steps", "60")
    run(verb, "pong", *SMALL[2:4], *SMALL[-2:], *filling, f"--{steps[verb]}", "80")
    assert "tottime" in capsys.readouterr().out
    assert (home / "results" / f"pong_{verb}.prof").stat().st_size > 1000
    assert not list((home / "results").glob("*.csv"))
