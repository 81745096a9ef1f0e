"""Whole runs through `main`: what they write, and that they repeat."""

import json
import signal
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import simple_dqn
from simple_dqn import main
from simple_dqn.config import Config, RunConfig, words
from simple_dqn.errors import UserError
from simple_dqn.evaluation import ScoreBoard
from simple_dqn.snapshot import Snapshot
from simple_dqn.types import Step
from simple_dqn.verbs.play import ONE_GAME, PLAYS_ONLY, settings_of_agent
from tests.command_line import CATCH, Capsys, Patch, catch, rows
from tests.watch.test_record import save

SMALL: dict[str, Any] = {"random_steps": 300, "train_steps": 120, "test_steps": 60, "replay_size": 500,
                         "batch_size": 8, "target_steps": 50}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: Patch) -> Path:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    return tmp_path


def run(*arguments: str) -> None:
    assert main.run(arguments) == 0


def outcome_of(path: Path, flags: str) -> dict[str, Any]:
    """Return the outcome of a test of `path`, from its JSON; its row is in `test.csv` beside it."""
    files = [f"--json={path.with_name('report.json')}", f"--csv_file={path.with_name('test.csv')}"]
    run("test", str(path), *flags.split(), *files, "--threads", "1", "--random_seed", "7")
    outcome: dict[str, Any] = json.loads(path.with_name("report.json").read_text())
    return outcome


@pytest.fixture
def agent(home: Path) -> Path:
    return save(home / "catch_3.pkl", game="catch", environment="catch", workers=4, test_steps=0)


def same_weights(a: Path, b: Path) -> bool:
    one, other = Snapshot.load(a).weights, Snapshot.load(b).weights
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_train_writes_what_it_promises(home: Path) -> None:
    """A game of Catch takes 7 steps and one to start the next: 23 rounds end the third of each place."""
    run("train", *catch("long", **SMALL, workers=3, epochs=3))
    path, weights = home / "results" / "catch_long.csv", home / "snapshots"
    assert [(row["epoch"], row["phase"]) for row in rows(path)] == [
        ("0", "random"),
        *((epoch, phase) for epoch in "123" for phase in ("train", "test")),
    ]  # fmt: skip
    assert not same_weights(weights / "catch_long_1.pkl", weights / "catch_long_3.pkl")
    last = rows(path)[-1]
    assert (last["steps"], last["nr_games"], last["total_train_steps"]) == ("69", "8", "360")
    assert (last["weight_updates"], last["replay_memory_count"]) == ("90", "498")


def test_a_resumed_run_goes_on_with_the_same_threads(home: Path, monkeypatch: Patch) -> None:
    asked: list[int] = []

    def use(threads: int, *_: object) -> int:
        asked.append(threads)
        return 2

    monkeypatch.setattr("simple_dqn.dqn.use_threads", use)
    run("train", *catch(threads=0))
    run("resume", str(home / "snapshots" / "catch_1.pkl"), "--epochs", "2")
    assert asked == [0, 2]
    assert "threads" not in Snapshot.load(home / "snapshots" / "catch_1.pkl").flags


def test_the_same_seed_trains_the_same_with_tests_or_without_and_another_another(home: Path) -> None:
    for label, flags in {"a": {"test_steps": 40}, "b": {}, "c": {"random_seed": 1}}.items():
        run("train", *catch(label, epochs=2, **flags))
    trained = [row for row in rows(home / "results" / "catch_a.csv") if row["phase"] != "test"]
    assert trained == rows(home / "results" / "catch_b.csv")
    a, b, c = (home / "snapshots" / f"catch_{label}_2.pkl" for label in "abc")
    assert same_weights(a, b)
    assert not same_weights(a, c)


def test_a_run_beside_the_files_of_another(home: Path, capsys: Capsys) -> None:
    pong = words({**CATCH, **SMALL})
    run("train", "pong", *pong, "--tensorboard", "true")
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
    run("train", "pong", *pong, "--epochs", "2", "--start_epoch", "1", "--load_weights", weights)
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


def test_test_reports_by_protocol(home: Path, capsys: Capsys) -> None:
    path = save(home / "breakout_3.pkl", game="breakout")
    outcome = outcome_of(path, "--protocol nature --play_games 3 --max_game_frames 2000")
    assert len(outcome["scores"]) == 3
    assert outcome["mean"] == pytest.approx(np.mean(outcome["scores"]))
    assert outcome["standard_deviation"] == pytest.approx(np.std(outcome["scores"]))
    assert (outcome["exploration_rate"], outcome["max_game_frames"]) == (0.05, 2000)
    assert (outcome["random_starts"], outcome["random_start_frames"]) == (0, 30)
    assert outcome["rom_md5"] == "f34f08e5eb96e500e851a80be3277a56"
    assert outcome["human_normalised"] == pytest.approx(100 * (outcome["mean"] - 1.7) / (30.5 - 1.7), abs=2)
    assert outcome["human_source"] == "Wang et al. 2016"
    printed = capsys.readouterr().out
    human = f"{outcome['human_normalised']:.1f} % of human (Wang et al. 2016)"
    assert all(words in printed for words in (f"{outcome['mean']:.2f} ±", human, outcome["rom_md5"]))
    assert rows(home / "test.csv")[0]["nr_games"] == "3"
    assert not (home / "results").exists()
    # Gymnasium's ids of Atari games are tested by the same protocol.
    path = save(home / "ALE_Pong-v5_3.pkl", environment="gym", game="ALE/Pong-v5", random_starts=30)
    outcome = outcome_of(path, "--protocol nature --play_games 1 --max_game_frames 100")
    assert (outcome["protocol"], outcome["random_starts"], outcome["random_start_frames"]) == (
        "nature",
        0,
        30,
    )


def test_half_a_test_is_told_and_not_kept_and_a_json_that_cannot_be_written_costs_no_outcome(
    agent: Path, capsys: Capsys, monkeypatch: Patch
) -> None:
    add, file = ScoreBoard.add, agent.with_name("report.json")

    def interrupted(self: ScoreBoard, step: Step) -> list[float]:
        scores = add(self, step)
        if len(self.scores) == 4:
            signal.raise_signal(signal.SIGINT)
        return scores

    def full(path: Path) -> NoReturn:
        raise UserError(f"cannot write {path}")

    command = ["test", str(agent), "--play_games", "9", "--threads", "1", "--json", str(file)]
    with monkeypatch.context() as patch:
        patch.setattr(ScoreBoard, "add", interrupted)
        assert main.run(command) == 130
    assert "±" in capsys.readouterr().out
    assert not file.exists()
    monkeypatch.setattr("simple_dqn.evaluation.replacing", full)
    assert main.run(command) == 2
    out, err = capsys.readouterr()
    assert " over 9 games" in out
    assert "cannot write" in err.splitlines()[-1]


def test_a_snapshot_learnt_in_bfloat16_is_used_in_what_the_machine_computes_in(
    home: Path, monkeypatch: Patch
) -> None:
    flags = Config.from_flags({"game": "pong", "datatype": "bfloat16"}).shared_flags()
    saved, path = Snapshot("pong", 1, 6, 100, flags, {"x": np.zeros(3, np.float32)}), home / "pong_1.pkl"
    for fixed in (PLAYS_ONLY, ONE_GAME):
        for given, datatype in (({}, "auto"), ({"datatype": "bfloat16"}, "bfloat16")):
            assert settings_of_agent(path, saved, given, fixed).backend.datatype == datatype
    configs: list[Config] = []

    def stop(config: Config, *_: object) -> None:
        configs.append(config)
        raise UserError("far enough")

    monkeypatch.setattr("simple_dqn.verbs.train.make_run", stop)
    saved.save(path)
    assert main.run(["resume", str(path)]) == 2  # from weights alone; a checkpoint keeps its datatype
    assert [one.backend.datatype for one in configs] == ["auto"]


def test_no_game_is_played_in_vain(agent: Path) -> None:
    cases = {"--play_games 3 --workers 2": 2, "--test_steps 40": 4, "--play_games 9": 4, "--play_games 3": 3}
    for flags, workers in cases.items():
        outcome, (row,) = outcome_of(agent, flags), rows(agent.with_name("test.csv"))
        assert outcome["workers"] == workers
        # A place that has played its share plays on until the last has, which counts nowhere.
        assert int(row["nr_games"]) == len(outcome["scores"])
        assert float(row["average_reward"]) == pytest.approx(outcome["mean"])
    assert simple_dqn.load(agent).evaluate(games=3, seed=7).games == outcome["scores"]


def test_a_run_without_tests_is_tested_for_the_usual_number_of_steps(
    agent: Path, capsys: Capsys, monkeypatch: Patch
) -> None:
    monkeypatch.setattr("simple_dqn.verbs.play.RunConfig", lambda: RunConfig(test_steps=70))
    run("test", str(agent), "--workers", "1")
    assert ", 70 steps" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["profile_train", "profile_test", "profile_random"])
def test_profiles(home: Path, capsys: Capsys, verb: str) -> None:
    steps = {"profile_train": "train_steps", "profile_test": "test_steps", "profile_random": "random_steps"}
    filling = () if verb == "profile_test" else ("--random_steps", "60")
    run(verb, "pong", "--network", "small", "--random_seed", "0", *filling, f"--{steps[verb]}", "80")
    assert "tottime" in capsys.readouterr().out
    assert (home / "results" / f"pong_{verb}.prof").stat().st_size > 1000
    assert not list((home / "results").glob("*.csv"))
