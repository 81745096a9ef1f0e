"""Commands that are refused in one line, before anything is started or written, in this process."""

import shlex
from pathlib import Path

import pytest

from simple_dqn import main

ROWS = [
    ("snapshot average a.pkl b.pkl", ["average is gone", "--average_updates"]),
    *((f"plot {word}", ["is a folder"]) for word in (".", "''", "x=.", "/")),
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
    assert main.run(shlex.split(command)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert all(word in line for word in words), line
    assert not list(tmp_path.iterdir())
