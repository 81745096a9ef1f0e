"""The search: trials that train, the pruner, a study that goes on, and what is refused."""

import importlib.util
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from simple_dqn import rules, tune
from simple_dqn.agent import Agent, DivergedError
from simple_dqn.errors import UserError
from simple_dqn.settings_file import read
from simple_dqn.verbs.settings import settings_for
from simple_dqn.verbs.train import read as read_train

CATCH = [
    "catch", "--environment", "catch", "--preset", "simple_dqn", "--screen_width", "36",
    "--screen_height", "36", "--history_length", "2", "--replay_size", "1000", "--random_steps", "100",
    "--train_steps", "100",
    "--test_steps", "50", "--batch_size", "4", "--threads", "1", "--epochs", "2", "--train_frequency", "4",
]  # fmt: skip


optuna = pytest.importorskip("optuna", reason="the extra `tune` is not installed")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of results, which is a temporary one."""
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    return tmp_path / "results" / "tune"


def search(*words: str) -> None:
    tune.main([*CATCH, *words], "./tune.sh")


def test_a_study_goes_on_until_it_has_its_trials(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--average_updates", "10%"]  # a schedule may be a share of the run
    search("--trials", "2", *flags)
    names = [f"trial_{number}.{kind}" for number in range(3) for kind in ("csv", "yaml")]
    assert (
        sorted(path.name for path in (folder / "catch").iterdir()) == names[:4]
    )  # no weights, no checkpoints
    before = (folder / "catch" / "trial_1.csv").read_bytes()
    search("--trials", "3", *flags)
    search("--trials", "3", *flags)
    assert sorted(path.name for path in (folder / "catch").iterdir()) == names
    assert (folder / "catch" / "trial_1.csv").read_bytes() == before
    settings = read(capsys.readouterr().out.splitlines()[-1].split("--config ")[1])
    assert (settings["train_frequency"], settings["random_seed"]) == (4, 1)  # the flag by hand wins
    assert settings["network"] in ("small", "nature")
    study = optuna.load_study(study_name="catch", storage=f"sqlite:///{folder}/catch.db")
    assert study.best_params.keys() == {"learning_rate", "network", "target_steps", "exploration_decay_steps"}
    with pytest.raises(UserError, match="repeat these flags, or give another --name"):
        search("--trials", "3")


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Return the epochs of each training; these only report rewards, the n-th training reward -n."""
    seen: list[list[int]] = []

    def train(game: str, on_phase_end: Callable[[dict[str, Any]], None], **settings: Any) -> None:
        seen.append([])
        reward = -len(seen)
        for epoch in range(1, settings["epochs"] + 1):
            seen[-1].append(epoch)
            for phase in ("train", "test"):
                score = 99 if phase == "train" else reward
                on_phase_end({"phase": phase, "epoch": epoch, "average_reward": score})

    monkeypatch.setattr(tune, "train", train)
    return seen


def test_a_trial_below_the_median_is_pruned(
    trainings: list[list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    search("--trials", "6", "--epochs", "5")
    # The first four are the median; no trial is pruned in its first two epochs.
    assert trainings == [[1, 2, 3, 4, 5]] * 4 + [[1, 2, 3]] * 2
    assert "Best of 6 trials: 0, reward -1, " in capsys.readouterr().out


def test_a_search_without_a_score_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    trainings = list[str]()
    monkeypatch.setattr(tune, "train", lambda game, **_settings: trainings.append(game))
    for _ in range(2):  # when it is asked for again, too
        with pytest.raises(UserError, match="none of 2 trials has a score"):
            search("--trials", "2", "--test_steps", "0")
    assert len(trainings) == 2


def test_a_trial_that_fails_is_marked_and_the_study_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    errors = iter(
        [DivergedError("after update 1 the loss holds NaN"), ValueError("a fault\nof a library"), None]
    )

    def check(self: Agent) -> None:
        if error := next(errors, None):
            raise error

    monkeypatch.setattr(Agent, "check", check)
    search("--trials", "3", "--log_level", "INFO")
    study = optuna.load_study(study_name="catch", storage=f"sqlite:///{folder}/catch.db")
    assert [trial.state.name for trial in study.trials] == ["FAIL", "FAIL", "COMPLETE"]
    shown = capfd.readouterr()
    lines = [line for line in shown.out.splitlines() if line.startswith("Trial ")]
    assert lines[0].startswith("Trial 0: after update 1 the loss holds NaN: lower --learning_rate, {")
    assert lines[1].startswith("Trial 1: a fault of a library, {")
    assert "Best of 3 trials: 2, " in shown.out
    # No advice names a snapshot or a checkpoint: trials have none.
    assert "Traceback" not in shown.err
    assert "snapshots" not in shown.out + shown.err
    assert not list((folder.parents[1] / "snapshots").iterdir())


SPACES = [
    ([], {"learning_rate", "train_frequency", "network", "target_steps", "exploration_decay_steps"}),
    (["--preset", "fast_dqn"], {"learning_rate", "network", "train_frequency", "exploration_decay_steps"}),
    (["--preset", "strong"], {"learning_rate", "network", "exploration_decay_steps"}),
    (["--preset", "rainbow"], {"learning_rate", "network", "train_frequency", "target_steps"}),
    (["--preset", "quick", "--workers", "2", "--overlap", "--train_frequency", "2"],
     {"learning_rate", "network", "target_steps", "exploration_decay_steps"}),
    (["--load_weights", "x.pkl", "--learning_rate", "0.1"],
     {"train_frequency", "target_steps", "exploration_decay_steps"}),
]  # fmt: skip


@pytest.mark.parametrize(("words", "names"), SPACES)
def test_what_the_settings_exclude_is_not_searched(words: list[str], names: set[str]) -> None:
    given = {"epochs": 10, **read_train(["pong", *words], "./train.sh")}
    config = settings_for("train", given)
    found = tune.space(config, given)
    assert found.keys() == names
    # No combination of the values contradicts itself, and so no trial fails by it.
    for values in product(*found.values()):
        rules.check(config.with_flags(dict(zip(found, values, strict=True))))


def test_a_trial_that_is_interrupted_does_not_count(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], trainings: list[list[int]]
) -> None:
    with monkeypatch.context() as context:
        context.setattr(tune, "train", lambda *_args, **_settings: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            search("--trials", "2")
    search("--trials", "2")
    assert len(trainings) == 2
    assert "Traceback" not in capfd.readouterr().err


def test_what_cannot_be_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    for flags, complaint in (
        (["--trials", "0"], "0 is too small"),
        (["--csv_file", "x.csv"], "--csv_file is not for a search"),
        (["--n_step", "3", "--max_reward", "-0.5"], "--n_step 3"),
        (["--name", "../other"], "cannot be part of a file's name"),
    ):
        with pytest.raises(UserError, match=complaint):
            search(*flags)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(UserError, match=r"\.venv/bin/python -m pip install optuna==5\.0\.0"):
        search()
