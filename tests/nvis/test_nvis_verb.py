"""`nvis` through `main`: what it writes, and what it says where it cannot."""

from pathlib import Path

import numpy as np
import pytest

from simple_dqn import main
from simple_dqn.config import BackendConfig, Config, NetworkConfig
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.snapshot import Snapshot

QUICK = ["--backend", "cpu", "--random_seed", "3"]
TRAINED_WITH = {
    "environment": "catch", "screen_width": 36, "screen_height": 36, "history_length": 2,
    "workers": 4, "processes": 2, "synchronize": True, "concurrent": True, "target_steps": 40,
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a snapshot of four games of Catch side by side."""
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    network = DeepQNetwork(
        3, 2, (36, 36), NetworkConfig(), BackendConfig(backend="cpu", threads=1), np.random.default_rng(0)
    )
    flags = Config.from_flags(TRAINED_WITH).shared_flags()
    Snapshot("catch", 9, 3, 1000, flags, network.get_weights()).save(tmp_path / "catch_9.pkl")
    return tmp_path


def test_the_page_is_written_where_results_are(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["nvis", "catch_9.pkl", *QUICK]) == 0
    page = home / "results" / "catch.html"
    assert str(page) in capsys.readouterr().out
    html = page.read_text(encoding="utf-8")
    assert "Snapshot catch_9.pkl, of epoch 9" in html
    assert "One game of 7 steps" in html
    assert html.count("the 4 filters with the strongest activations") == 3
    assert [path.name for path in (home / "results").iterdir()] == ["catch.html"]


def test_the_page_is_called_as_the_run_is_and_can_be_chosen(home: Path) -> None:
    (home / "catch_9.pkl").rename(home / "catch_long_9.pkl")
    assert main.run(["nvis", "catch_long_9.pkl", *QUICK]) == 0
    assert [path.name for path in (home / "results").iterdir()] == ["catch_long.html"]
    arguments = ["--visualization_file", "elsewhere/page.html", "--visualization_filters", "2"]
    assert main.run(["nvis", "catch_long_9.pkl", *QUICK, *arguments]) == 0
    assert "the 2 filters with" in (home / "elsewhere" / "page.html").read_text(encoding="utf-8")
    assert len([*(home / "results").iterdir()]) == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["missing.pkl"], "missing.pkl"),
        (["catch_9.pkl", "--visualization_filters", "0"], "too small"),
        (["catch_9.pkl", "--visualization_file", "folder"], "is a folder"),
        (["catch_9.pkl", "--visualization_file", "catch_9.pkl/page.html"], "cannot write"),
        (["catch_9.pkl", "--visualization_filter", "1"], "did you mean --visualization_filters"),
        (["catch_9.pkl", "--environment", "ale", "--game", "pong"], "unknown flag --game"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    (home / "folder").mkdir()
    before = sorted(home.rglob("*"))
    assert main.run(["nvis", *arguments, "--log_level", "ERROR", *QUICK]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line
    assert sorted(home.rglob("*")) == before


def test_a_snapshot_of_another_game_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = Snapshot.load(home / "catch_9.pkl")
    Snapshot("pong", 9, 3, 1000, snapshot.flags, snapshot.weights).save(home / "pong_9.pkl")
    assert main.run(["nvis", "pong_9.pkl", "--log_level", "ERROR", *QUICK]) == 2
    assert "was trained on pong, not on catch" in capsys.readouterr().err
    assert not (home / "results").exists()
