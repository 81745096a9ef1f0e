"""Whole runs through `main`: what they write, and that they repeat; snapshots elsewhere; doctor.sh; seeds."""

import json
import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import psutil
import pytest
import yaml
from ale_py.roms import get_rom_path

import simple_dqn
from atari2600.draws import Draws
from simple_dqn import command_line, doctor, machine, main
from simple_dqn.config import Config, RunConfig, words
from simple_dqn.doctor import CHECKS, Finding, examine
from simple_dqn.environment.interface import GameVector
from simple_dqn.errors import UserError
from simple_dqn.evaluation import ScoreBoard
from simple_dqn.files import command, from_here
from simple_dqn.random_streams import draw_seed, stream
from simple_dqn.snapshot import Snapshot
from simple_dqn.statistics.csv_file import read_run
from simple_dqn.types import Step
from simple_dqn.verbs.play import ONE_GAME, PLAYS_ONLY, open_snapshot, settings_of_agent
from simple_dqn.verbs.snapshot import curve_of
from tests.command_line import CATCH, NEON, PROJECT, Capsys, Logs, Patch, Told, catch, rows, run, watch
from tests.watch.test_record import save

SMALL: dict[str, Any] = {"random_steps": 300, "train_steps": 120, "test_steps": 60, "replay_size": 500,
                         "batch_size": 8, "target_steps": 50}  # fmt: skip


def outcome_of(path: Path, flags: str) -> dict[str, Any]:
    """Return the outcome of a test of `path`, from its JSON; its row is in `test.csv` beside it."""
    files = [f"--json={path.with_name('report.json')}", f"--csv_file={path.with_name('test.csv')}"]
    run("test", str(path), *flags.split(), *files, "--threads", "1", "--random_seed", "7")
    outcome: dict[str, Any] = json.loads(path.with_name("report.json").read_text())
    return outcome


@pytest.fixture
def agent(home: Path) -> Path:
    flags = {"game": "catch", "environment": "catch", "workers": 4, "test_steps": 0, "replay_size": 100}
    return save(home / "catch_3.pkl", **flags)


def test_a_resumed_run_goes_on_with_the_same_threads(home: Path, monkeypatch: Patch) -> None:
    """A schedule of two threads spares a core when their number is chosen."""
    asked: list[tuple[int, int]] = []

    def use(threads: int, _device: object, spare_cores: int) -> int:
        asked.append((threads, spare_cores))
        return 2

    monkeypatch.setattr("simple_dqn.dqn.use_threads", use)
    run("train", *catch(threads=0, workers=4))
    for epochs, schedule in (("2", "concurrent"), ("3", "overlapped")):
        run("resume", "snapshots/catch_1.pkl", "--epochs", epochs, "--schedule", schedule)
    assert asked == [(0, 0), (2, 1), (2, 1)]
    assert "threads" not in Snapshot.load(home / "snapshots" / "catch_1.pkl").flags


def test_the_seed_determines_training_whether_or_not_there_are_tests(home: Path) -> None:
    for label, flags in {"a": {"test_steps": 40}, "b": {}, "c": {"random_seed": 1}}.items():
        run("train", *catch(label, epochs=2, **flags))
    trained = [row for row in rows(home / "results" / "catch_a.csv") if row["phase"] != "test"]
    assert trained == rows(home / "results" / "catch_b.csv")
    a, b, c = (Snapshot.load(home / f"snapshots/catch_{label}_2.pkl").fingerprint for label in "abc")
    assert a == b != c


def test_too_large_a_network_renames_no_snapshot(finished: Path, monkeypatch: Patch, told: Told) -> None:
    before = sorted(finished.rglob("*.pkl"))
    monkeypatch.setattr("simple_dqn.snapshot.MOST_BYTES", 1 << 20)
    assert "lower --screen_width" in told("train", *catch(), code=2).splitlines()[-1]
    assert sorted(finished.rglob("*.pkl")) == before


def test_a_run_beside_the_files_of_another(home: Path, told: Told) -> None:
    pong, snapshot = words({**CATCH, **SMALL}), "snapshots/pong_1.pkl"
    end = " ".join(told("train", "pong", *pong, "--tensorboard", "true").splitlines()[-2:])
    assert all(f"{PROJECT}/{verb}.sh {snapshot} " in end for verb in ("play", "test", "resume"))
    assert list((home / "results" / "pong").glob("events.out.tfevents.*"))
    # Another run begins with the exploration of its epoch.
    run("train", "pong", *pong, "--epochs", "2", "--start_epoch", "1", "--load_weights", snapshot)
    (trained,) = [row for row in rows(home / "results" / "pong.csv") if row["phase"] == "train"]
    assert (trained["epoch"], trained["total_train_steps"]) == ("2", "240")
    assert float(trained["last_exploration_rate"]) == pytest.approx(1 - 0.9 * 239 / 1_000_000)
    # Without a checkpoint, a resume says what is lost.
    shutil.rmtree(home / "snapshots" / "pong_checkpoint")
    assert "are lost" in told("resume", "snapshots/pong_2.pkl", "--epochs", "3")
    names = ("epoch", "phase", "total_train_steps", "weight_updates")  # the learning rate goes on falling
    assert [rows(home / "results" / "pong.csv")[-1][name] for name in names] == ["3", "test", "360", "90"]


def test_test_reports_by_protocol(home: Path, capsys: Capsys) -> None:
    path = save(home / "breakout_3.pkl", game="breakout")
    outcome = outcome_of(path, "--protocol nature --play_games 3 --max_game_frames 2000")
    assert len(outcome["scores"]) == 3
    wanted = {
        "exploration_rate": 0.05, "max_game_frames": 2000, "random_starts": 0, "random_start_frames": 30,
        "rom_md5": "f34f08e5eb96e500e851a80be3277a56", "human_source": "Wang et al. 2016",
    }  # fmt: skip
    assert wanted.items() <= outcome.items()
    assert outcome["human_normalized"] == pytest.approx(100 * (outcome["mean"] - 1.7) / (30.5 - 1.7), abs=2)
    printed = capsys.readouterr().out
    human = f"{outcome['human_normalized']:.1f} % of human (Wang et al. 2016)"
    assert all(words in printed for words in (f"{outcome['mean']:.2f} ±", human, outcome["rom_md5"]))
    assert rows(home / "test.csv")[0]["nr_games"] == "3"
    assert not (home / "results").exists()
    # Gymnasium's ids of Atari games are tested by the same protocol.
    path = save(home / "ALE_Pong-v5_3.pkl", environment="gym", game="ALE/Pong-v5", random_starts=30)
    outcome = outcome_of(path, "--protocol nature --play_games 1 --max_game_frames 100")
    assert {"protocol": "nature", "random_starts": 0, "random_start_frames": 30}.items() <= outcome.items()
    outcome = outcome_of(path, "--protocol nature --play_games 1 --max_game_frames 100 --random_starts 5")
    assert {"protocol": "nature", "random_starts": 5, "random_start_frames": 0}.items() <= outcome.items()


def test_an_interrupted_test_is_shown_but_not_saved(agent: Path, capsys: Capsys, monkeypatch: Patch) -> None:
    add, file = ScoreBoard.add, agent.with_name("report.json")

    def interrupted(self: ScoreBoard, step: Step) -> list[float]:
        if len(self.scores) == ended:
            signal.raise_signal(signal.SIGINT)
        return add(self, step)

    def full(path: Path, **_: Any) -> NoReturn:
        raise UserError(f"cannot write {path}")

    command = ["test", str(agent), "--play_games", "9", "--threads", "1", "--json", str(file)]
    for ended in (4, 0):  # games; a score of none is not shown
        with monkeypatch.context() as patch:
            patch.setattr(ScoreBoard, "add", interrupted)
            assert main.run(command) == 130
        out, err = capsys.readouterr()
        shown = "±" in out, "no game ended" in out, "report.json was not written" in err, file.exists()
        assert shown == (ended > 0, False, True, False)
    monkeypatch.setattr("simple_dqn.evaluation.replacing", full)
    assert main.run(command) == 2
    out, err = capsys.readouterr()
    assert " over 9 games" in out
    assert re.search(r"Games to play: 9 \(--max_game_frames 60\)\n(.*\n)*.*cannot write .*\n\Z", err)


def test_the_games_of_a_test_are_closed_where_it_fails(agent: Path, monkeypatch: Patch, told: Told) -> None:
    def fail(*_: Any) -> NoReturn:
        raise UserError("there is no such GPU")

    closed: list[Any] = []
    watch(GameVector, "close", closed.append, monkeypatch)
    monkeypatch.setattr("simple_dqn.verbs.play.make_network", fail)
    assert "no such GPU" in told("test", str(agent), "--play_games", "1", code=2)
    assert len(closed) == 1


@pytest.mark.parametrize(("workers", "steps"), [(1, 60), (2, 200)])
def test_a_test_says_that_it_waits_for_a_game(workers: int, steps: int, home: Path, told: Told) -> None:
    flags = {**CATCH, **SMALL, "workers": workers, "random_starts": 0, "max_game_frames": 400}
    log = told("train", "pong", *words(flags))
    last = rows(home / "results" / "pong.csv")[-1]
    assert (last["steps"], last["replay_memory_count"]) == (str(steps), str(300 + 120 + workers))
    assert ("No game has ended: waiting for those in progress (--max_game_frames" in log) == (workers > 1)


def test_a_snapshot_in_bfloat16_is_used_in_the_machines_datatype(home: Path, monkeypatch: Patch) -> None:
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


def test_a_test_starts_no_game_that_cannot_count(agent: Path, capsys: Capsys, monkeypatch: Patch) -> None:
    cases = {"--play_games 3 --workers 2": 2, "--test_steps 40": 4, "--play_games 9": 4,
             "--play_games 20 --workers 20": 20, "--play_games 3": 3}  # fmt: skip
    for flags, workers in cases.items():
        outcome, (row,) = outcome_of(agent, flags), rows(agent.with_name("test.csv"))
        assert outcome["workers"] == workers
        # A place that has played its share plays on until the last has, which counts nowhere.
        assert int(row["nr_games"]) == len(outcome["scores"])
        assert float(row["average_reward"]) == pytest.approx(outcome["mean"])
        assert int(row["total_train_steps"]) == 600
    assert simple_dqn.load(agent).evaluate(games=3, seed=7).games == outcome["scores"]
    # An agent of a run without tests is tested for the usual number of steps.
    monkeypatch.setattr("simple_dqn.verbs.play.RunConfig", lambda: RunConfig(test_steps=70))
    run("test", str(agent), "--workers", "1")
    assert ", 70 steps" in capsys.readouterr().out


@pytest.mark.parametrize("phase", ["train", "test", "random"])
def test_profiles(home: Path, capsys: Capsys, phase: str) -> None:
    flags = ["--network=small", "--random_seed=0", *(["--random_steps=60"] if phase != "test" else [])]
    run(f"profile_{phase}", "pong", *flags, f"--{phase}_steps", "80")
    assert "tottime" in capsys.readouterr().out
    assert (home / "results" / f"pong_profile_{phase}.prof").stat().st_size > 1000
    assert not list((home / "results").glob("*.csv"))


NETWORKS: dict[str, dict[str, Any]] = {
    "impala": {"network": "impala", "layer_norm": True, "dueling": True},
    "rainbow": {"noisy": True, "dueling": True, "distributional": "c51"},
    "quantiles": {"distributional": "quantile", "datatype": "bfloat16"},
}


@pytest.mark.parametrize("name", NETWORKS)
def test_onnx_runtime_computes_the_same(name: str, home: Path, capsys: Capsys, told: Told) -> None:
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
    assert "catch_1.onnx exists" in told("snapshot", "export", str(run.snapshots[0]), "--onnx", code=2)


def test_neons_snapshot_as_onnx(home: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    assert main.run(["snapshot", "export", str(NEON), "neon.onnx", "--onnx"]) == 0
    expected = np.load(NEON.with_name("breakout_1_expected.npz"))
    (found,) = onnxruntime.InferenceSession("neon.onnx").run(None, {"states": expected["states"]})
    np.testing.assert_allclose(found, expected["qvalues"], rtol=0, atol=1e-5)


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
    files = {"pong_1": "pong.csv", "pong_best": "pong.csv", "pong_before_1": "pong.1.csv", "breakout_1": None}
    for file, csv in files.items():
        assert curve_of(home / f"snapshots/{file}.pkl", snapshot) == (csv and results / csv)
    (results / "pong.2.csv").write_text((results / "pong.csv").read_text())
    for number, seed in ((1, 5), (2, 6)):
        (results / f"pong.{number}.yaml").write_text(f"settings:\n  random_seed: {seed}\n")
    for seed in (5, 6):
        one = replace(snapshot, flags={**snapshot.flags, "random_seed": seed})
        assert curve_of(home / f"snapshots/pong_before_{seed}_1.pkl", one) == results / f"pong.{seed - 4}.csv"


def test_a_card_is_a_folder_for_a_model_hub(finished: Path, capsys: Capsys, told: Told) -> None:
    assert main.run(["snapshot", "card", "snapshots/catch_1.pkl", "--games", "3"]) == 0
    folder = Path("snapshots/catch_1_card")
    said = capsys.readouterr().out
    hf = Path(sys.executable).with_name("hf")
    assert said.endswith(f"{hf} upload YOUR_NAME/catch_1_card {folder}\n")
    files = {"README.md", "catch_1.pkl", "config.yaml", "curve.png", "replay.mp4"}
    assert {file.name for file in folder.iterdir()} == files
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
    assert "catch_1_card exists: remove it" in told("snapshot", "card", "snapshots/catch_1.pkl", code=2)


@pytest.mark.usefixtures("finished")
def test_the_card_of_a_game_that_nobody_can_draw_has_no_film(monkeypatch: Patch, told: Told) -> None:
    def fail(*_: object) -> NoReturn:
        raise UserError("there is no render_mode rgb_array")

    monkeypatch.setattr("simple_dqn.verbs.play.film", fail)
    Path("snapshots/catch_1.pkl").rename("my: #1.pkl")
    assert "no video: there is no" in told("snapshot", "card", "my: #1.pkl", "card", "--games", "1")
    text = Path("card/README.md").read_text()
    assert yaml.safe_load(text.split("---\n")[1])["model-index"][0]["name"] == "my: #1"
    assert "replay.mp4" not in text


@pytest.mark.parametrize(
    ("called", "suggested"),
    [("", "./play.sh"), ("./train.sh", "./play.sh"), ("train.sh", "./play.sh"),
     ("../a b/train.sh", "'../a b/play.sh'"), ("/home/me/dqn/sweep.sh", "/home/me/dqn/play.sh"),
     ("./link", f"{PROJECT}/play.sh"), (None, f"{PROJECT}/play.sh")],
)  # fmt: skip
def test_a_suggested_command_is_called_as_the_last_or_exists(
    called: str | None, suggested: str, monkeypatch: Patch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to(PROJECT / "train.sh")
    monkeypatch.setattr(os, "environ", {} if called is None else {"SIMPLE_DQN_PROGRAM": called})
    assert (command("play"), command("play", "a b")) == (suggested, f"{suggested} 'a b'")


def test_a_command_is_suggested_in_a_folder_that_was_deleted(monkeypatch: Patch, tmp_path: Path) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("SIMPLE_DQN_PROGRAM", "/dqn/train.sh")
    assert command("play", from_here(tmp_path)) == f"/dqn/play.sh {tmp_path}"


Prepare = Callable[[Patch, Path], object]


def broken_roms(patch: Patch, home: Path) -> None:
    shipped = get_rom_path("pong")
    assert shipped
    copies = shutil.copytree(shipped.parent, home / "copies")
    (copies / "pong.bin").write_bytes(b"not pong")
    patch.setenv("ALE_ROMS_DIR", str(copies))


def pinned(line: str) -> Prepare:
    return lambda _patch, home: (home / "requirements.txt").write_text(f"{line}\n")


def free_disk(count: float) -> Prepare:
    return lambda patch, _home: patch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=count))


def gpus(*found: str, driver: str | None = None) -> Prepare:
    """Let PyTorch find these GPUs; `driver` is the path of `nvidia-smi`."""

    def prepare(patch: Patch, _home: Path) -> None:
        patch.setattr("simple_dqn.device.gpus", lambda: found)
        patch.setattr("shutil.which", lambda _name: driver)

    return prepare


# The check, a change to the machine, its severity, and words of the line that reports it.
CASES: list[tuple[str, Prepare, str, str]] = [
    ("packages", pinned("no-such-package==1.0"), "error", "missing: no-such-package"),
    ("packages", pinned("numpy==0.1"), "warning", "instead of 0.1"),
    ("packages", lambda _, home: (home / "requirements.txt").unlink(), "warning", "to compare with"),
    ("GPU", gpus("H200", "H200"), "ok", "0: H200, 1: H200"),
    ("GPU", gpus(), "warning", "on the CPU"),
    ("GPU", gpus(driver="nvidia-smi"), "warning", "install its GPU build"),
    # As if PyTorch were broken.
    ("GPU", lambda patch, _: patch.setitem(sys.modules, "simple_dqn.device", None), "error", "remove .venv"),
    ("ROMs", lambda *_: None, "ok", "each with the correct MD5"),
    ("ROMs", broken_roms, "error", "install ale-py again"),
    ("disk", free_disk(9e9), "ok", "9 GB are free"),
    ("disk", free_disk(2e9), "warning", "free 3 GB, or lower --replay_size"),
    ("disk", free_disk(9e8), "error", "free some disk space"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "prepare", "level", "words"), CASES, ids=lambda one: str(one)[:20])
def test_each_check_tells_what_is_wrong_and_what_to_do(
    home: Path, monkeypatch: Patch, name: str, prepare: Prepare, level: str, words: str
) -> None:
    (home / "requirements.txt").write_text("# pinned\nnumpy>=1\n")
    prepare(monkeypatch, home)
    finding = examine(CHECKS[name], home)
    assert finding[0] == level, finding
    assert words in finding[1]
    assert "\n" not in finding[1]
    assert {case[0] for case in CASES} == set(CHECKS)


def test_warnings_are_no_failure(home: Path, monkeypatch: Patch, capsys: Capsys, caplog: Logs) -> None:
    def talk(_home: Path) -> Finding:
        logging.getLogger("simple_dqn.anything").error("said")
        return "ok", "fine"

    assert "are free in" in examine(CHECKS["disk"], home / "not" / "there")[1]
    (home / "requirements.txt").write_text("# pinned\nnumpy>=1\n")
    before = sorted(home.rglob("*"))
    assert main.run(["doctor"]) == 0
    assert sorted(home.rglob("*")) == before
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == list(CHECKS)
    warned = {"a": talk, "b": lambda _: ("warning", "so: do")}
    monkeypatch.setattr(doctor, "CHECKS", warned)
    assert main.run(["doctor"]) == 0
    logging.getLogger("simple_dqn.anything").error("heard")
    assert [record.message for record in caplog.records] == ["heard"]  # the log is still meanwhile alone
    monkeypatch.setattr(doctor, "CHECKS", {**warned, "c": lambda _: ("error", "no: fix it")})
    with pytest.raises(SystemExit) as raised:
        main.run(["doctor"])
    assert raised.value.code == 1
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == [["ok", "a", "fine"], ["warning", "b", "so:", "do"]]
    assert lines[-1][:2] == ["error", "c"]


def control_groups(folder: Path, files: dict[str, str]) -> tuple[Path, Path]:
    """Write the group of a process, outer/inner, and `files` of groups as the kernel has them."""
    membership, groups = folder / "cgroup", folder / "groups"
    membership.write_text("0::/outer/inner\n")
    for name, text in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(f"{text}\n")
    return membership, groups


# The limit and the use of memory of each group, and what of it is cache.
@pytest.mark.parametrize(("limits", "allowed"), [
    ({"outer": (500, 300), "outer/inner": (900, 100, 3), "other": (1, 0, 0)}, [227, 810]),
    ({"outer": ("max", 300)}, []),
    ({".": (500, 300)}, [227]),  # a container sees its group at the top
    ({".": (100, 300)}, [0]),
    ({}, []),
])  # fmt: skip
def test_the_memory_of_a_container(tmp_path: Path, limits: dict[str, Any], allowed: list[int]) -> None:
    files = {}
    for group, (limit, usage, *cache) in limits.items():
        stat = f"anon 5\ninactive_file {cache[0] if cache else 20}\nactive_file 7\nshmem 1000"
        for name, text in {"max": limit, "current": usage, "stat": stat}.items():
            files[f"{group}/memory.{name}"] = str(text)
    assert machine.control_group_allowances(*control_groups(tmp_path, files)) == allowed
    assert machine.control_group_allowances(tmp_path / "absent", tmp_path / "nowhere") == []


@pytest.mark.parametrize(("limits", "usable"), [
    ({".": "max 100000"}, 4),
    ({"outer": "250000 100000"}, 2),  # two and a half cores' worth of time
    ({"outer": "300000 100000", "outer/inner": "50000 100000"}, 1),
    ({"other": "100000 100000"}, 4),
])  # fmt: skip
def test_the_cores_of_a_container(limits: Any, usable: int, tmp_path: Path, monkeypatch: Patch) -> None:
    groups = control_groups(tmp_path, {f"{name}/cpu.max": limit for name, limit in limits.items()})
    cores = machine.control_group_cores
    monkeypatch.setattr(machine, "control_group_cores", lambda: cores(*groups))
    monkeypatch.setattr(machine, "core_numbers", lambda: {0, 1, 2, 3})
    assert machine.usable_cores() == usable


def test_the_tightest_limit_holds(monkeypatch: Patch) -> None:
    monkeypatch.setattr(machine, "control_group_allowances", lambda: [7, 3])
    for free, least in ((5, 3), (2, 2)):
        monkeypatch.setattr(psutil, "virtual_memory", lambda n=free: SimpleNamespace(available=n))
        assert machine.available_memory() == least


def test_each_seed_name_and_index_has_its_own_random_stream() -> None:
    places = [(seed, name, index) for seed in (0, 1) for name in ("sampling", "weights") for index in (0, 1)]
    drawn = [tuple(stream(*place).integers(2**32, size=8).tolist()) for place in 2 * places]
    assert drawn[:8] == drawn[8:]
    assert len({*drawn}) == 8
    seeds = {draw_seed() for _ in range(20)}
    assert len(seeds) > 15
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_draws_are_uniform_and_independent() -> None:
    numbers = np.array([[game.random() for _ in range(4000)] for game in map(Draws, range(5))])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.histogram(numbers, 20, (0, 1))[0]
    assert np.abs(counts / 1000 - 1).max() < 0.15  # five standard deviations
    related = np.corrcoef(np.concatenate((numbers[:, 1:], numbers[:, :-1])))
    assert np.abs(related - np.eye(10)).max() < 0.08
    dice = Draws(7)
    assert {dice.integers(6) for _ in range(200)} == set(range(6))
