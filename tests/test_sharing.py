"""`snapshot export` and `snapshot card`: a snapshot for other programs, and for other people."""

import importlib.util
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import simple_dqn
from simple_dqn import command_line, main
from simple_dqn.config import Config
from simple_dqn.errors import EXTRAS
from simple_dqn.snapshot import Snapshot
from simple_dqn.statistics.csv_file import read_run
from simple_dqn.verbs.play import open_snapshot
from simple_dqn.verbs.snapshot import curve_of
from tests.command_line import CATCH, Capsys, Patch

PROJECT = Path(__file__).parents[1]
NEON = PROJECT / "tests" / "data" / "breakout_1.pkl"
NETWORKS: dict[str, dict[str, Any]] = {
    "impala": {"network": "impala", "layer_norm": True, "dueling": True},
    "rainbow": {"noisy": True, "dueling": True, "distributional": "c51"},
    "quantiles": {"distributional": "quantile", "datatype": "bfloat16"},
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: Patch) -> Path:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", NETWORKS)
def test_onnx_runtime_computes_the_same_q_values(name: str, home: Path, capsys: Capsys) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    run = simple_dqn.train("catch", **{**CATCH, **NETWORKS[name]})
    assert main.run(["snapshot", "export", str(run.snapshots[0]), "--onnx"]) == 0
    assert "uint8 [B, 4, 36, 36]" in capsys.readouterr().out
    session = onnxruntime.InferenceSession(home / "snapshots" / "catch_1.onnx")
    assert session.get_modelmeta().custom_metadata_map["actions"] == "LEFT NOOP RIGHT"
    agent = simple_dqn.load(run.snapshots[0], backend="cpu", datatype="float32")
    states = np.random.default_rng(7).integers(256, size=(7, 4, 36, 36), dtype=np.uint8)
    (found,) = session.run(["q_values"], {"states": states})
    wanted = agent.q_values(states)
    assert found.dtype == np.float32
    assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()
    assert main.run(["snapshot", "export", str(run.snapshots[0]), "--onnx"]) == 2
    assert "catch_1.onnx exists" in capsys.readouterr().err


def test_neons_snapshot_as_onnx(home: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    assert main.run(["snapshot", "export", str(NEON), "neon.onnx", "--onnx"]) == 0
    expected = np.load(NEON.with_name("breakout_1_expected.npz"))
    (found,) = onnxruntime.InferenceSession("neon.onnx").run(None, {"states": expected["states"]})
    np.testing.assert_allclose(found, expected["qvalues"], rtol=0, atol=1e-5)


def test_the_command_that_installs_onnx(monkeypatch: Patch, capsys: Capsys, home: Path) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if "onnx" in name else find(name))
    assert main.run(["snapshot", "export", str(NEON), "neon.onnx", "--onnx"]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("simple-dqn")]
    assert f".venv/bin/python -m pip install {' '.join(EXTRAS['onnx'])}" in line
    assert not list(home.iterdir())


def test_the_curve_is_that_of_the_snapshots_run(home: Path, monkeypatch: Patch) -> None:
    """One game may have CSVs of several runs."""
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(PROJECT))
    for path in sorted((PROJECT / "snapshots" / "trained").glob("*.pkl")):
        snapshot = open_snapshot(path)
        curve = curve_of(path, snapshot)
        assert curve, path
        assert snapshot.total_train_steps in read_run(curve, "run").columns["total_train_steps"]
    assert curve_of(path, replace(snapshot, total_train_steps=1)) is None
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(home))
    results = home / "results"
    results.mkdir()
    for name in ("pong.1.csv", "pong.csv", "pong_double.csv"):
        (results / name).write_text("epoch,phase,total_train_steps\n1,train,250\n")
    snapshot = Snapshot("pong", 1, 6, 250, Config().shared_flags(), {})
    for file, csv in (("pong_1", "pong.csv"), ("pong_before_1", "pong.1.csv"), ("breakout_1", None)):
        assert curve_of(home / f"snapshots/{file}.pkl", snapshot) == (csv and results / csv)


def test_a_card_is_a_folder_for_a_model_hub(finished: Path, capsys: Capsys) -> None:
    assert main.run(["snapshot", "card", "snapshots/catch_1.pkl", "--games", "3"]) == 0
    folder = Path("snapshots/catch_1_card")
    told = capsys.readouterr().out
    assert told.endswith(f"hf upload YOUR_NAME/catch_1_card {folder}\n")
    assert {file.name for file in folder.iterdir()} == {
        "README.md", "catch_1.pkl", "config.yaml", "curve.png", "replay.mp4",
    }  # fmt: skip
    _, front, text = (folder / "README.md").read_text().split("---\n", 2)
    (model,) = yaml.safe_load(front)["model-index"]
    (result,) = model["results"]
    assert result["dataset"]["name"] == "catch"
    score = re.search(r"catch: (\S+) ± (\S+) over 3 games", text)
    assert score
    assert result["metrics"][0]["value"] == f"{score[1]} +/- {score[2]}"
    agent = simple_dqn.load(folder / "catch_1.pkl")
    assert agent.q_values(np.zeros((1, 4, 36, 36), np.uint8)).shape == (1, 3)
    recorded = command_line.read(str(folder / "config.yaml"))
    assert recorded["game"] == "catch"
    assert recorded["batch_size"] == 4
    assert str(finished) not in (folder / "config.yaml").read_text()
    assert main.run(["snapshot", "card", "snapshots/catch_1.pkl"]) == 2
    assert "catch_1_card exists: remove it" in capsys.readouterr().err
