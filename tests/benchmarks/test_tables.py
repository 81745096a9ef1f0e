"""`./bench.sh training`, `learning` and `networks`, tiny, with stand-ins for peers; and the profiler."""

import csv
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import common
import comparison
import learning
import measurement
import numpy as np
import psutil
import pytest
import replay
import torch
import training
from common import FailedError
from comparison import Entry
from measurement import Flags, measure
from networks import __main__ as command
from networks import proof, report
from networks.contender import Contender as Worker
from networks.contender import ContenderError
from networks.frameworks.plain_numpy import NumpyQNetwork
from networks.frameworks.pytorch import PyTorchEager
from networks.frameworks.simple_dqn import SimpleDqn
from networks.interface import Framework, UnsupportedError
from networks.measuring import Plan, Row
from networks.measuring import measure as measure_all
from networks.proof import Answers, difference, q_answers, reference
from networks.work import LAYER_FLOPS, Task, draw_target, draw_weights
from peers import EXPLORATION_RATE, FILL_STEPS, MARK_STEPS, PEERS, ROLLOUT, WARM_UP_STEPS, Work, rate_of_marks
from profiler import Profiler

from simple_dqn.errors import UserError
from simple_dqn.statistics.csv_file import RunData, read_run
from simple_dqn.types import Minibatch
from tests.command_line import PROJECT, Capsys, Patch

pytestmark = pytest.mark.nightly
PATHS = os.pathsep.join(str(PROJECT / part) for part in ("src", "benchmarks"))  # as bench.sh sets them
TINY: Flags = {"game": "catch", "screen_width": 36, "screen_height": 36, "threads": 1}


@pytest.fixture(autouse=True)
def _paths(home: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("PYTHONPATH", PATHS)


@pytest.mark.parametrize(("words", "complaint"), [
    (["tower"], "invalid choice: 'tower'"),
    (["--rounds", "1.5"], "'1.5' is not a whole number"),
    (["--wat"], "unknown flag --wat"),
    (["--game", "nosuch"], "no game called 'nosuch'"),
    (["--flags", "[1]"], "is not a JSON object"),
    (["--flags", '{"workrs": 2}'], "did you mean --workers?"),
    (["--flags", '{"concurrent": true, "workers": 3}'], "give 804"),
    (["peers", "--cleanrl", "/no/such/file"], "/no/such/file is not a file"),
    (["compare"], "no rows are named"),
    (["compare", "--rows", "a=--workrs 2"], "did you mean --workers?"),
    (["compare", "--rows", "a=", "a=--workers 2"], "two settings of --rows have the same name"),
    (["compare", "--rows", "a=", "b=--schedule concurrent --workers 3"], "give 804"),
])  # fmt: skip
def test_bad_words_are_one_line(words: list[str], complaint: str, capsys: Capsys, monkeypatch: Patch) -> None:
    monkeypatch.setattr(sys, "argv", ["training", *words])
    assert common.console("training", training.main) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert complaint in err


@pytest.mark.parametrize(("table", "first"), [("add", ["1", "16"]), ("sample", ["400", "500"])])
def test_a_table_of_the_memory(table: str, first: list[str], capsys: Capsys, monkeypatch: Patch) -> None:
    monkeypatch.setattr(replay, "SIZES", (400,))
    replay.main([table, "--largest", "500"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[-len(first) :]] == first


def test_a_table_is_a_program(tmp_path: Path) -> None:
    command = [str(PROJECT / "bench.sh"), "learning", "none.csv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "cannot read none.csv: No such file" in done.stderr


def test_reward_is_reached_or_not() -> None:
    assert measurement.time_to_reward({**TINY, "random_steps": 300}, reward=-1.0, limit=60)["seconds"] > 0
    assert measurement.time_to_reward({**TINY, "random_steps": 300}, reward=1.1, limit=0.5)["seconds"] is None


def test_the_mean_of_the_last_games(monkeypatch: Patch) -> None:
    monkeypatch.setattr(measurement, "LAST_GAMES", 3)
    listener, means = measurement.LastGames(), []
    for scores in ([1, 2], [], [3], [4], [5, 6, 7, 8]):
        listener.on_steps(2, scores, 0.1)
        means.append(listener.mean)
    assert means == [None, None, 2, 3, 7]


def test_flags_of_every_row_go_together() -> None:
    for flags in (
        *({**training.RECIPE, "game": "pong", **flags} for _, flags in training.SPEED_UPS),
        *({**training.RECIPES["catch"], "game": "catch", **flags} for _, flags in training.SPEED_UPS),
        *({"game": "pong", **flags} for table in comparison.OURS.values() for flags in table.values()),
        *({"game": "pong", **training.GPU_FLAGS, **flags} for _, flags in training.GPU_CASES),
        *({"game": "pong", **measurement.STRONG, "workers": workers} for workers in (64, 512, 4096)),
    ):
        config = measurement.settings(flags)
        assert config.with_flags(flags) == config


def test_a_training_in_a_process_of_its_own(capfd: Capsys) -> None:
    small = '{"screen_width": 36, "screen_height": 36, "threads": 1}'
    training.main(["--game", "catch", "--datatypes", "float32", "--seconds", "0.2", "--flags", small])
    assert re.search(r"Where the time went: [1-9]\d* steps in", capfd.readouterr().out)


def measured(program: str, order: Any = 0, **others: Any) -> Any:
    return measure([sys.executable, "-c", program], order, seconds=1, **others)


def test_measurements_answer_refuse_fail_or_are_ended(monkeypatch: Patch) -> None:
    answer = "import json, sys; print('a word before'); print(json.dumps({'got': json.loads(sys.argv[1])}))"
    assert measured(answer, ["x", 1]) == {"got": ["x", 1]}
    with pytest.raises(UserError, match=r"^no such game$"):
        measured("import sys; print('no such game', file=sys.stderr); sys.exit(2)")
    with pytest.raises(FailedError, match=r"^ValueError: oh$") as failure:
        measured("raise ValueError('oh')")
    assert "Traceback" in failure.value.details
    with pytest.raises(FailedError, match="exit code -9"):
        measured("import os; os.kill(os.getpid(), 9)")
    monkeypatch.setattr("measurement.SLACK_SECONDS", 0)
    with pytest.raises(FailedError, match=r"^no answer in 1 s$"):
        measured("import time; time.sleep(600)")
    # A GPU is hidden where the work is for the CPU.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    for gpu, seen in ((True, "0"), (False, "")):
        program = "import json, os; print(json.dumps(os.environ['CUDA_VISIBLE_DEVICES']))"
        assert measured(program, gpu=gpu) == seen


# Stands in for CleanRL's script: it writes down where it runs and with which flags, and prints its lines.
TRAINS = """
import json, os, pathlib, sys, time
called = json.dumps([os.getpid(), os.getcwd(), sys.argv[1:], os.environ["CUDA_VISIBLE_DEVICES"]])
pathlib.Path(__file__).with_name("called.json").write_text(called)
while True:
    print("global_step=7, episodic_return=[-21.]")
    print("SPS: 3")
    time.sleep(0.01)
"""


def test_marks_give_the_rate_after_the_warm_up() -> None:
    warming = [float(mark) for mark in range(WARM_UP_STEPS // MARK_STEPS)]  # a second each
    times = iter(warming + [warming[-1] + 0.25 * mark for mark in range(1, 20)])
    marks = iter([7.0 + 0.5 * mark for mark in range(20)])
    lines = [line for _ in range(100) for line in ("SPS: 999", "global_step=1, episodic_return=2", "")]
    assert rate_of_marks(lines, 2.0, MARK_STEPS, lambda: next(times)) == MARK_STEPS / 0.25
    # A rollout is longer than the warm-up, so the first one is the warm-up.
    assert rate_of_marks(lines, 2.0, ROLLOUT, lambda: next(marks)) == ROLLOUT / 0.5


def test_cleanrl_gets_the_same_work_and_is_ended(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    script = tmp_path / "dqn_atari.py"
    script.write_text(TRAINS)
    assert PEERS["cleanrl"].measure(Work("space_invaders", 1, 0.05, str(script))) > 0
    process, folder, words, gpus = json.loads((tmp_path / "called.json").read_text())
    flags = dict(zip(words[::2], words[1::2], strict=True))
    assert flags["--env-id"] == "SpaceInvadersNoFrameskip-v4"
    assert (flags["--learning-starts"], flags["--batch-size"]) == (str(FILL_STEPS), "32")
    assert flags["--start-e"] == flags["--end-e"] == str(EXPLORATION_RATE)
    assert gpus == "", "it sees the GPU that is hidden from it"
    assert not Path(folder).exists(), "what it wrote lies about"
    assert not psutil.pid_exists(process), "it still trains"
    assert PEERS["cleanrl_pqn"].measure(Work("space_invaders", 8, 0.05, str(script))) > 0
    _, _, words, _ = json.loads((tmp_path / "called.json").read_text())
    flags = dict(zip(words[::2], words[1::2], strict=True))
    assert (flags["--env-id"], flags["--num-envs"]) == ("SpaceInvaders-v5", "8")
    script.write_text("raise ValueError('oh')")
    with pytest.raises(SystemExit, match=r"^ValueError: oh$"):
        PEERS["cleanrl"].measure(Work("pong", 1, 600, str(script)))


def test_peers_that_are_missing_are_rows(capsys: Capsys, monkeypatch: Patch) -> None:
    monkeypatch.setattr(comparison, "OURS", {"peers": {}, "pqn": {}})
    for peer in PEERS.values():
        training.main([peer.table, "--rounds", "1", "--seconds", "0.05"])
        lines = capsys.readouterr().out.splitlines()
        for games in peer.games:
            name = f"{peer.title}, {games} game{'s' * (games > 1)}"
            (row,) = [line.removeprefix(name).strip() for line in lines if line.startswith(name)]
            assert row == f"not installed: ./bench.sh training {peer.table} --install"


def test_settings_are_compared_with_the_first_row(capsys: Capsys, monkeypatch: Patch) -> None:
    trained: list[dict[str, Any]] = []

    def train(_: Any, flags: dict[str, Any]) -> dict[str, float]:
        trained.append(flags)
        return {"rate": 100.0 * flags["threads"]}

    monkeypatch.setattr(comparison, "train", train)
    training.main(["compare", "--rounds", "2", "--rows", "a=--preset strong --threads 2", "b=--threads 3"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[-2:]]
    assert rows == [["a", "200", "200–200", "1.00"], ["b", "300", "300–300", "1.50"]]
    assert trained == [{**measurement.of_preset("strong"), "threads": 2}, {"threads": 3}] * 2


def test_ratios_are_to_the_best_of_each_peer() -> None:
    entries = [
        Entry("slow", dict, "tianshou"), Entry("quick", dict, "tianshou"),
        Entry("gone", dict, "stable_baselines3"), Entry("we", dict),
    ]  # fmt: skip
    rates = {"slow": [10.0], "quick": [30.0, 20.0, 10.0], "gone": [], "we": [50.0, 70.0]}
    peers = ("stable_baselines3", "tianshou", "cleanrl")
    assert comparison.rows(entries, rates, {"gone": "no such thing"}, peers) == [
        ["slow", "10", "10–10", "–", "0.50", "–"],
        ["quick", "20", "10–30", "–", "1.00", "–"],
        ["gone", "no such thing"],
        ["we", "60", "50–70", "–", "3.00", "–"],
    ]


def run_of(folder: Path, *rows: str) -> RunData:
    """Return the run with `rows`: epoch, phase, number of games and their mean."""
    path = folder / "pong.csv"
    lines = ["epoch,phase,nr_games,average_reward,total_time,total_train_steps,weight_updates"]
    for row in rows:
        epoch = int(row.split(",")[0])
        lines.append(f"{row},{60 * epoch},{1000 * epoch},{500 * epoch}")
    path.write_text("\n".join(lines) + "\n")
    return read_run(path, "pong")


def test_the_mean_is_that_of_the_latest_epochs_with_enough_games(tmp_path: Path) -> None:
    rows = ["1,train,100,-21", "2,train,30,16", "2,test,30,20", "3,train,20,19", "4,train,20,20"]
    run = run_of(tmp_path, *rows)
    progress = learning.after_each_epoch(run, 40)
    assert [(one.games, one.mean) for one in progress] == [
        (100, -21),
        (130, pytest.approx((100 * -21 + 30 * 16) / 130)),
        (50, pytest.approx((30 * 16 + 20 * 19) / 50)),
        (40, 19.5),
    ]
    assert learning.first(progress, 18) == learning.Progress(4.0, 4000, 2000, 19.5, 40)
    assert learning.first(progress[:-1], 18) is None
    assert learning.after_each_epoch(run_of(tmp_path, "1,train,0,", "2,train,39,21"), 40) == []


def test_the_time_of_a_run_is_a_row(tmp_path: Path, capsys: Capsys) -> None:
    run_of(tmp_path, "1,train,100,-21", "2,train,40,19.5")
    learning.main([str(tmp_path / "pong.csv")])
    assert capsys.readouterr().out.split()[-6:] == ["pong", "2.0", "2,000", "1,000", "19.5", "(40)"]


def test_shares_of_each_thread_add_up_to_the_wall_time() -> None:
    passed: list[float] = []
    profiler = Profiler(lambda: sum(passed))
    network = SimpleNamespace(predict=passed.append, update=passed.append)
    games = SimpleNamespace(step=passed.append, reset=passed.append)
    profiler.watch(network, games)
    network.update(100)  # outside of a phase
    assert not profiler.phases
    with profiler.phase("train") as profile:
        for _ in range(4):
            network.predict(1)
            network.update(2)
            games.reset(1)  # which is not measured
            profile.steps += 3
        actor = threading.Thread(target=games.step, args=(4,), name="actor_0")
        actor.start()
        actor.join()
    assert (profile.wall, profile.steps) == (20, 12)
    assert profile.shares()["MainThread"] == pytest.approx({"act": 0.2, "update": 0.4, "other": 0.4})
    assert profile.shares()["actor_0"] == pytest.approx({"emulate": 0.2, "other": 0.8})
    assert profile.lines()[0] == "Where the time went: 12 steps in 20.0 s, 1 a second"
    assert [line.split()[0] for line in profile.lines()[2:]] == ["main", "actor"]


WEIGHTS, TARGET = draw_weights(proof.WEIGHTS_SEED), draw_target(proof.TARGET_SEED)
PREDICT = Task(training=False, batch=1)


@pytest.fixture(scope="module")
def expected() -> Answers:
    return reference()


@pytest.mark.parametrize("datatype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", [PyTorchEager, SimpleDqn])
def test_q_networks_are_the_reference(kind: type[Framework], datatype: str, expected: Answers) -> None:
    given = q_answers(kind("cpu", torch.get_num_threads()).q_network(WEIGHTS, TARGET, datatype))
    assert difference(given, expected, datatype, "cpu") == ""


class Forgetful(NumpyQNetwork):
    def train(self, minibatch: Minibatch) -> float:
        weights = {name: values.copy() for name, values in self.online.weights.items()}
        loss = super().train(minibatch)
        self.online.weights = weights
        return loss


def test_other_updates_and_outputs_are_wrong(expected: Answers) -> None:
    forgetful = q_answers(Forgetful(WEIGHTS, TARGET))
    wrong_target = q_answers(NumpyQNetwork(WEIGHTS, WEIGHTS))
    mirrored, rounded = (
        replace(expected, outputs=outputs)
        for outputs in (expected.outputs[:, ::-1], expected.outputs * 1.001)
    )
    for given, datatype, backend, words in (
        (forgetful, "bfloat16", "cpu", "wrong: the loss"),
        (wrong_target, "float32", "cpu", "the loss"),
        (mirrored, "bfloat16", "cpu", "wrong: outputs are off"),
        (replace(expected, outputs=expected.outputs * np.nan), "bfloat16", "cpu", "wrong: outputs are off"),
        (replace(expected, outputs=expected.outputs[:4]), "bfloat16", "cpu", "wrong: outputs have the shape"),
        (rounded, "float32", "cpu", "wrong: outputs are off"),
    ):
        assert words in difference(given, expected, datatype, backend)
    for datatype in ("float32", "bfloat16"):  # a GPU convolves float32 in TF32
        assert difference(rounded, expected, datatype, "gpu") == ""


def test_operations_are_counted_as_by_hand() -> None:
    layers = [20 * 20 * 32 * 256, 9 * 9 * 64 * 512, 7 * 7 * 64 * 576, 3136 * 512, 512 * 6]
    assert [2 * products for products in layers] == LAYER_FLOPS
    assert Task(False, 8).flops == 8 * 2 * sum(layers)
    assert Task(True, 32).flops == 32 * (8 * sum(layers) - 2 * layers[0])


@pytest.fixture
def numpy_contender() -> Iterator[Worker]:
    contender = Worker("numpy", "cpu", 1)
    yield contender
    contender.close()


def test_a_failure_or_a_death_leaves_the_others_running(numpy_contender: Worker) -> None:
    for order, words in (({"datatype": "bfloat16"}, "no bfloat16"), ({}, "failed: KeyError")):
        with pytest.raises(UnsupportedError, match=words):
            numpy_contender.ask({"do": "prove", **order})
    assert numpy_contender.ask({"do": "warm_up", "seconds": 0.0, **asdict(PREDICT)})["seconds"] > 0
    dead = Worker("numpy", "cpu", 1)
    dead._process.kill()
    dead._process.wait()
    rows = {name: Row(name, "numpy", "cpu") for name in ("dead", "alive")}
    measure_all({"dead": dead, "alive": numpy_contender}, rows, Plan([PREDICT], 2, 0.0, 0.0))
    dead.close()
    assert rows["dead"].reason
    assert [len(rows[name].cells[PREDICT].seconds) for name in ("dead", "alive")] == [0, 2]


def test_a_framework_with_wrong_results_is_not_timed(numpy_contender: Worker, monkeypatch: Patch) -> None:
    monkeypatch.setattr("networks.proof.WEIGHTS_SEED", 99)  # of the reference; the worker has its own
    rows = {"numpy": Row("numpy", "numpy", "cpu")}
    measure_all({"numpy": numpy_contender}, rows, Plan([PREDICT], 1, 0.0, 0.0))
    assert rows["numpy"].cells[PREDICT].reason.startswith("wrong")
    assert not rows["numpy"].cells[PREDICT].seconds


def test_the_reason_for_a_missing_framework_is_reported() -> None:
    for name, reason in (("pytorch_cuda_graphs", "need a GPU"), ("jax", "bench.sh networks jax --install")):
        with pytest.raises(ContenderError, match=reason):
            Worker(name, "cpu", 1)


def test_one_run_of_the_command(tmp_path: Path, monkeypatch: Patch) -> None:
    document = tmp_path / "networks.md"
    document.write_text(f"{report.BEGIN}\n{report.END}\n")
    monkeypatch.setattr(command, "QUICK_TASKS", [PREDICT])
    monkeypatch.setattr(command, "peaks", lambda _threads: {"cpu": {"float32": 1e9, "bfloat16": 1e9}})
    words = ["numpy", "pytorch_cuda_graphs", "--quick", "--rounds", "1", "--threads", "1"]
    command.main([*words, "--csv_file", str(tmp_path / "n.csv"), "--docs", str(document)])
    measured, refused = csv.DictReader((tmp_path / "n.csv").read_text().splitlines())
    assert float(measured["least_us"]) > 0
    assert "need a GPU" in refused["reason"]
    assert "| plain numpy |" in document.read_text()
