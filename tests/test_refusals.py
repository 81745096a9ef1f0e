"""Commands that are refused in one line, before anything is started or written, in this process."""

import importlib.util
import logging
import shlex
from pathlib import Path

import pytest

from simple_dqn import main

MINE = """
import gymnasium


class Mine(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (8, 8), "uint8")
    action_space = gymnasium.spaces.Discrete(2)


gymnasium.register("mine", entry_point=Mine)
"""
ROWS = [
    ("snapshot average a.pkl b.pkl", ["average is gone", "--average_updates"]),
    *((f"plot {word}", ["is a folder"]) for word in (".", "''", "x=.", "/")),
    ("sweep catch mine.py --environment catch", ["--environment catch plays catch alone, not mine"]),
    ("sweep pong mine.py", ["pong is of --environment ale and mine is of --environment gym", "one kind"]),
    ("sweep pong --preset quick --compare a= 'b=--preset fast_dqn --target_steps 1'", ["--target_steps"]),
    ("sweep pong --compare a= 'b=--no_such 1'", ["b: unknown flag --no_such"]),
    ("sweep pong tennis --emulator warp --color_averaging false", ["--emulator warp does not play tennis"]),
    ("sweep pong --track wandb", ["--track wandb needs packages that are not installed"]),
    ("sweep pong --target_rule mine", ["mine"]),
    ("sweep compare", ["NAME=CSV,CSV"]),
    ("sweep compare x=", ["'x=' names no seeds"]),
    ("sweep compare x=no.csv", ["cannot read no.csv"]),
    ("sweep Pendulum-v1 --environment gym", ["Pendulum-v1 has no discrete actions"]),
    ("sweep catch pong --environment catch", ["--environment catch plays catch alone, not pong"]),
    (f"train pong --save_weights_prefix {'x' * 230}", ["--save_weights_prefix", "too long", "200"]),
    ("sweep compare .", ["is a folder"]),
    ("doctor --trial_seconds 5", ["--trial_seconds is gone", "./profile_train.sh pong"]),
    ("train pong --track mlflow", ["mlflow is gone", "trackio"]),
]


@pytest.mark.parametrize(("command", "words"), ROWS, ids=lambda part: part if isinstance(part, str) else "")
def test_refused_in_one_line(
    command: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.root, "handlers", [])  # of a command before
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)  # no extra is installed
    (tmp_path / "mine.py").write_text(MINE)
    before = sorted(tmp_path.iterdir())
    assert main.run(shlex.split(command)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert all(word in line for word in words), line
    assert [path for path in sorted(tmp_path.iterdir()) if path.name != "__pycache__"] == before
