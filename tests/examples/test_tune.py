"""The search of examples/tune.py: a study that goes on, trials that fail, and the command that it prints."""

from pathlib import Path
from typing import Any

import pytest

import simple_dqn
from simple_dqn.command_line import read

optuna = pytest.importorskip("optuna", reason="Optuna is not installed")
tune = pytest.importorskip("examples.tune")
CATCH = [
    "catch", "--preset", "simple_dqn", "--screen_width", "36", "--screen_height", "36", "--history_length",
    "2", "--replay_size", "1000", "--random_steps", "50", "--train_steps", "50", "--test_steps", "0",
    "--batch_size", "4", "--threads", "1", "--epochs", "1", "--train_frequency", "4",
]  # fmt: skip


def test_a_study_goes_on_and_marks_a_trial_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMPLE_DQN_HOME", ".")
    train, calls = simple_dqn.train, list[dict[str, Any]]()

    def fail_once(game: str, **settings: Any) -> Any:
        calls.append(settings)
        if len(calls) == 1:
            raise simple_dqn.UserError("diverged")
        return train(game, **settings)

    monkeypatch.setattr(simple_dqn, "train", fail_once)
    for trials in ("2", "2", "3"):
        tune.main([*CATCH, "--trials", trials])
    assert len(calls) == 3
    study = optuna.load_study(study_name="catch", storage="sqlite:///results/tune/catch.db")
    assert [trial.state.name for trial in study.trials] == ["FAIL", "COMPLETE", "COMPLETE"]
    assert study.best_params.keys() == {"learning_rate", "network", "target_steps"}  # one was given by hand
    assert sorted(path.name for path in Path("results/tune/catch").glob("*.csv")) == ["1.csv", "2.csv"]
    assert not list(Path("snapshots").glob("*"))
    settings = read(capsys.readouterr().out.splitlines()[-1].split("--config ")[1])
    assert settings["train_frequency"] == 4
    assert settings["target_steps"] == study.best_params["target_steps"]
