"""Sweeps: what they are to run, the pools that carry out jobs, and measures against plain Python."""

import csv
import io
import json
import os
import random
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import ale_py.roms
import matplotlib.image
import numpy as np
import psutil
import pytest
from matplotlib.figure import Figure

from simple_dqn import main, sweep
from simple_dqn.command_line import read
from simple_dqn.config import Config, EnvironmentConfig
from simple_dqn.environment.atari import known_games
from simple_dqn.errors import UserError
from simple_dqn.evaluation import SCORES
from simple_dqn.snapshot.saver import checkpoint_folder
from simple_dqn.sweep import pool
from simple_dqn.sweep.comparison import ATARI5, Comparison, Estimate, Report, estimate, scored
from simple_dqn.sweep.pool import ENDED_WELL, Job, SweepRun, carry_out, local_pool, run_all
from tests.command_line import PROJECT, Capsys, Patch, Told, start_python
from tests.command_line import read as read_command

Make = Callable[..., SweepRun]


def test_games_are_taken_once_and_files_are_named_in_full(tmp_path: Path, monkeypatch: Patch) -> None:
    assert set(sweep.find_games(["atari57"], EnvironmentConfig())) == set(SCORES)
    assert list(sweep.find_games(["all"], EnvironmentConfig())) == known_games()
    (tmp_path / "other.bin").write_bytes(Path(str(ale_py.roms.get_rom_path("breakout"))).read_bytes())
    (tmp_path / "mine.py").write_text((PROJECT / "examples" / "flappy_bird.py").read_text())
    monkeypatch.chdir(tmp_path)
    games = sweep.find_games(["pong", "Pong", "roms/pong.rom", "other.bin"], EnvironmentConfig())
    assert games == {"pong": "pong", "breakout": str(tmp_path / "other.bin")}
    assert sweep.find_games(["catch"], EnvironmentConfig(environment="catch")) == {"catch": "catch"}
    expected = {"flappy_bird": str(tmp_path / "mine.py")}
    assert sweep.find_games(["mine.py", "./mine.py"], EnvironmentConfig()) == expected
    with pytest.raises(UserError, match="cannot read"):
        sweep.find_games(["none.py"], EnvironmentConfig())


@pytest.fixture
def begun(home: Path, monkeypatch: Patch) -> list[list[SweepRun]]:
    sweeps: list[list[SweepRun]] = []
    monkeypatch.setattr(sweep, "run_all", lambda runs, *_: sweeps.append(runs))
    return sweeps


SWEEP = ["sweep", "pong", "breakout", "--seeds", "2", "--epochs", "2", "--name", "both"]
COMPARED = ["--compare", "plain=", "other=--epochs 3 --double --exploration_decay_steps 10%"]


def test_runs_go_through_games_and_settings_by_seed(begun: list[list[SweepRun]], tmp_path: Path) -> None:
    assert main.run([*SWEEP, *COMPARED, "--min_reward", "-2.5", "--preset", "nature"]) == 0
    (runs,) = begun
    names = [f"{game}_{setting}_seed1" for game in ("pong", "breakout") for setting in ("plain", "other")]
    assert [run.name for run in runs[:5]] == [*names, "pong_plain_seed2"]
    assert {*sweep.UNSHARED} <= {*Config().flags()}
    results, snapshots = (tmp_path / folder / "sweep" / "both" for folder in ("results", "snapshots"))
    other = {"epochs": "3", "double": "True", "exploration_decay_steps": "10%"}
    for run, own in ((runs[4], {"epochs": "2"}), (runs[5], other)):
        arguments, log = run.job
        assert arguments[:2] == ("train", "pong")
        given = read_command("train", arguments[1:]).given
        found = {name: str(value) for name, value in given.items() if name not in ("game", "label", "config")}
        assert found == {
            "backend": "cpu", "min_reward": "-2.5", "preset": "nature", "resume": "True", "random_seed": "2",
            "threads": "1", "csv_file": str(results / f"{run.name}.csv"),
            "save_weights_prefix": str(snapshots / run.name), **own,
        }  # fmt: skip
        assert log == str(results / f"{run.name}.log")
        assert json.loads((results / "sweep.json").read_text())[run.name] == list(arguments[:-2])
    assert len({path for run in runs for path in (run.csv, run.log, run.prefix)}) == 3 * len(runs)


def test_flags_and_files_reach_the_runs(begun: list[list[SweepRun]], told: Told, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("environment: catch\ngame: catch\nepochs: 3\n")
    told("sweep", "pong", "--tensorboard", "true", "--config", str(tmp_path / "x.yaml"))
    ((run,),) = begun
    arguments = run.job[0]
    assert {"--tensorboard=true", "--epochs=3"} <= {*arguments}
    assert not [word for word in arguments if word.startswith("--environment")]
    rule = PROJECT / "examples" / "combined_replay.py"
    told("sweep", "pong", "--import", str(rule), "--sampler", "combined", "--name", "own")
    assert {f"--import={rule}", "--sampler=combined"} <= {*begun[1][0].job[0]}
    for word, shared in (("hf://me/it", "hf://me/it"), ("it.pkl", str(Path("it.pkl").absolute()))):
        assert sweep._shared({"load_weights": word}) == {"load_weights": shared}


def test_a_sweep_is_named_after_a_game_without_its_module(
    begun: list[list[SweepRun]], told: Told, home: Path
) -> None:
    told("sweep", "gymnasium:CartPole-v1")
    ((run,),) = begun
    assert run.csv == home / "results" / "sweep" / "CartPole-v1" / "CartPole-v1_seed1.csv"
    assert run.job[0][:3] == ("train", "gymnasium:CartPole-v1", "--import=gymnasium")


def test_a_suite_says_how_long_it_takes(begun: list[list[SweepRun]], told: Told, monkeypatch: Patch) -> None:
    monkeypatch.setattr(pool, "core_numbers", lambda: set(os.sched_getaffinity(0)))
    small = "--screen_width 36 --screen_height 36 --network small --random_steps 40 --workers 2 --epochs 7000"
    flags = [*small.split(), "--train_steps", "1000", "--test_steps", "500", "--schedule", "serial"]
    flags += ["--keep", "best"]  # which needs tests; the short training has none
    monkeypatch.setattr(sweep, "SHORT", 100)
    said = told("sweep", "--suite", "atari5", "--seeds", "3", *flags).splitlines()
    assert [run.game for run in begun[0][:5]] == [*ATARI5]
    line = next(line for line in said if "steps per second" in line)
    assert line.startswith("15 runs of 10,500,000 steps")
    assert line.endswith("hours")
    found = re.findall(r"([\d,.]+) (?:at a time|steps per|hours)", line)
    places, speed, hours = (float(word.replace(",", "")) for word in found)
    assert hours == pytest.approx(15 * 10_500_000 / places / speed / 3600, rel=0.01, abs=0.06)
    for run in begun[0][:14]:
        Path(run.job[1]).write_bytes(ENDED_WELL)
    said = told("sweep", "--suite", "atari5", "--seeds", "3", *flags).splitlines()
    assert [line for line in said if line.startswith("1 run of")]


@pytest.mark.usefixtures("begun")
def test_another_plan_is_refused(told: Told, home: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(pool, "core_numbers", lambda: {0, 1})
    told(*SWEEP)
    path = home / "results" / "sweep" / "both" / "sweep.json"
    told(*SWEEP, "--preset", "nature")  # no run has begun
    told(*SWEEP)
    path.with_name("pong_seed1.log").touch()
    written = path.read_bytes()
    same = [*SWEEP[:3], "--name", "both", *SWEEP[3:7]]
    for change, code in (
        ([], 0), (["--gpus_per_run", "0"], 0), (["--seeds", "3"], 2), (["--cpus_per_run", "2"], 2),
        (["--compare", "a=", "b=--double true"], 2),
    ):  # fmt: skip
        said = told(*same, *change, code=code)
        assert code == 0 or "give another --name" in said.splitlines()[-1]
        assert path.read_bytes() == written
    path.write_bytes(b"\xff")
    assert "or give another --name" in told(*SWEEP, code=2).splitlines()[-1]
    path.write_bytes(written)
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(home.rename(home.with_name("moved"))))
    told(*SWEEP)


def test_each_setting_is_printed_as_a_file(tmp_path: Path, capsys: Capsys, told: Told) -> None:
    def printed(*words: str) -> list[dict[str, Any]]:
        assert main.run(["sweep", "pong", *words, "--print_config"]) == 0
        found = []
        for text in capsys.readouterr().out.split("---\n"):
            (tmp_path / "printed.yaml").write_text(text)
            found.append(read(str(tmp_path / "printed.yaml")))
        return found

    settings = ["--compare", "plain=", "other=--double true --preset nature"]
    found = printed("breakout", "--n_step", "3", *settings)
    chosen = [(one["preset"], one["n_step"], one["target_rule"], one["game"]) for one in found]
    assert chosen == [("quick", 3, "max", "pong"), ("nature", 3, "double", "pong")]
    found = printed("--target_rule", "double", "--compare", "plain=", "other=--munchausen true")
    assert [one["target_rule"] for one in found] == ["double", "munchausen"]
    # A sweep begins with the settings of a run, in a file, which lie over a preset.
    path = tmp_path / "run.yaml"
    path.write_text("settings:\n  n_step: 7\n  random_seed: 7\n")
    (one,) = printed("--config", str(path), "--preset", "nature")
    wanted = {"preset": "nature", "n_step": 7, "random_seed": None, "batch_size": 32, "backend": "cpu"}
    assert wanted.items() <= one.items()
    assert "--config" in told("sweep", "pong", "--config", str(path), *settings, code=2)


@pytest.fixture
def endless(tmp_path: Path) -> Job:
    files = [f"--save_weights_prefix={tmp_path / 'catch'}", f"--csv_file={tmp_path / 'catch.csv'}"]
    small = ["--replay_size=1000", "--screen_width=36", "--screen_height=36", "--backend=cpu", "--threads=1"]
    words = ("train", "catch", "--preset=simple_dqn", "--environment=catch", *small, *files)
    return words, str(tmp_path / "catch.log")


def is_under_way(job: Job) -> bool:
    """Return whether a training says something, by which it has come further than its imports."""
    return Path(job[1]).exists() and "Random seed is" in Path(job[1]).read_text()


def test_a_job_that_fails_has_its_last_line_as_the_reason(tmp_path: Path) -> None:
    log = tmp_path / "pong.log"
    log.write_text("all was well\n")
    assert carry_out(("train", "pnog"), str(log)).startswith("ended with 2: train: there is no file pnog")
    assert carry_out(("train", "pong", "--print_config=true"), str(log)) == ""
    assert log.read_text().startswith("all was well\n")
    assert log.read_bytes().endswith(ENDED_WELL)
    assert "Traceback" not in log.read_text()
    assert "has no folder" in carry_out(("train",), str(tmp_path / "none" / "x.log"))


def test_a_training_has_its_cores_and_does_not_outlive_its_parent(endless: Job) -> None:
    core = max(os.sched_getaffinity(0))
    program = f"from simple_dqn.sweep.pool import carry_out; carry_out(*{endless!r}, [{core}])"
    parent = start_python("-P", "-c", program)
    while not is_under_way(endless):
        assert parent.poll() is None
        time.sleep(0.05)
    (training,) = psutil.Process(parent.pid).children()
    assert training.cpu_affinity() == [core]
    assert psutil.Process(parent.pid).cpu_affinity() == psutil.Process().cpu_affinity()
    parent.kill()
    parent.wait()
    assert not psutil.wait_procs([training], timeout=60)[1]


def test_an_interrupted_wait_ends_the_training(endless: Job) -> None:
    class Interrupting(Event):
        def wait(self, _timeout: float | None = None) -> bool:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(*endless, stopped=Interrupting())
    assert not psutil.wait_procs(psutil.Process().children(), timeout=60)[1]


def test_a_job_for_each_place(make_run: Make, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(pool, "core_numbers", lambda: {3, 5, 7, 8, 9})
    places: list[tuple[object, ...]] = []
    running: list[int] = []

    def note(_words: object, _log: str, cores: list[int], device: str, _stopped: Event) -> str:
        running.append(1)
        assert len(running) <= 2
        time.sleep(0.05)
        running.pop()
        places.append((*cores, device))
        return ""

    monkeypatch.setattr(pool, "carry_out", note)
    runs = [make_run("pong", seed, state="waiting") for seed in range(9)]
    with local_pool(2, 0) as (count, work):
        run_all(runs, count, work, lambda: None)
    assert (count, len(places), set(places)) == (2, 9, {(3, 5, ""), (7, 8, "")})
    assert {run.state for run in runs} == {"done"}
    # GPUs are shared; without room there is no place.
    for visible, cpus, share, most in (
        ("0,1", 1, 0.5, 4), ("0,1", 1, 0.3, 5), ("0,1", 1, 1, 2), ("", 1, 0.5, 0), ("", 9, 0, 0),
    ):  # fmt: skip
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        with local_pool(cpus, share) as (count, _):
            assert count == most
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pool.visible_gpus() == []
    listed = "GPU 0: A Laptop GPU (UUID: x)\nGPU 1: B (UUID: y)"
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho '{listed}'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert pool.visible_gpus() == ["0", "1"]


def test_an_interrupt_kills_the_jobs(endless: Job, make_run: Make) -> None:
    runs = [make_run("catch", seed, state="waiting") for seed in (1, 2)]
    for run in runs:
        run.job = endless

    def interrupt() -> None:
        if is_under_way(endless):
            raise KeyboardInterrupt

    with local_pool(len(os.sched_getaffinity(0)), 0) as (places, work), pytest.raises(KeyboardInterrupt):
        run_all(runs, places, work, interrupt)
    assert [(run.state, run.reason) for run in runs] == 2 * [("waiting", "")]


def test_a_run_that_fails_is_given_up(make_run: Make, monkeypatch: Patch) -> None:
    """One with new checkpoints between its failures is not given up."""
    monkeypatch.setattr(pool, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(pool, "POLL_SECONDS", 0.01)
    runs = [make_run("pong", seed, state="waiting") for seed in (1, 2, 3, 4)]
    folder, attempts = checkpoint_folder(runs[3].prefix), list[str]()
    folder.mkdir(parents=True)
    for run in runs:
        run.job = (("train", run.name), str(run.log))

    def work(job: Job, _stopped: Event) -> str:
        attempts.append(name := job[0][1])
        if name == "pong_seed1":
            return "no ROM"
        if name == "pong_seed2":
            raise RuntimeError("the machine is lost\nand more")
        if name == "pong_seed4":
            (folder / f"run_{attempts.count(name):06d}.npz").touch()
            return "" if attempts.count(name) > 3 * pool.MAX_FAILURES else "killed"
        Path(job[1]).write_bytes(ENDED_WELL)
        return ""

    run_all(runs, 2, work, lambda: None)
    assert [(run.state, run.reason) for run in runs] == [
        ("failed", "no ROM"), ("failed", "RuntimeError: the machine is lost"), ("done", ""), ("done", ""),
    ]  # fmt: skip
    assert [attempts.count(run.name) for run in runs] == [3, 3, 1, 10]
    assert SweepRun("pong", "", 3, runs[0].log.parent, runs[0].prefix.parent).state == "done"
    run_all(runs, 2, lambda *_: pytest.fail("started"), lambda: None)  # neither the failed nor the done


@pytest.mark.usefixtures("home")
def test_a_sweep_whose_runs_failed_is_a_failure(told: Told, monkeypatch: Patch) -> None:
    def fail(runs: list[SweepRun], *_: object) -> None:
        runs[1].state, runs[1].reason = "failed", "no ROM"

    monkeypatch.setattr(sweep, "run_all", fail)
    assert "1 of 2 runs failed, such as pong_seed2: no ROM" in told("sweep", "pong", "--seeds", "2", code=2)


Games = list[list[float]]


def plain_interquartile_mean(games: Games) -> float:
    left = sorted(score for runs in games for score in runs)
    for _ in range(len(left) // 4):
        left.remove(min(left))
        left.remove(max(left))
    return statistics.fmean(left)


PLAIN: dict[str, Callable[[Games], float]] = {
    "interquartile mean": plain_interquartile_mean,
    "mean": lambda games: statistics.fmean(statistics.fmean(runs) for runs in games),
}


def arrays(games: Games) -> list[np.ndarray]:
    return [np.array(runs, np.float64) for runs in games]


@pytest.mark.parametrize("name", PLAIN)
def test_measures_and_intervals_are_the_plain_ones(name: str) -> None:
    """The interval is from the 2.5 to the 97.5 percent point of resamples drawn game by game."""
    rng, draw = random.Random(0), random.Random(1)
    games = [[rng.gauss(10 * game, 5 + game) for _ in range(4 + game % 3)] for game in range(5)]
    found = estimate(name, arrays(games), resamples=20_000)
    assert found.value == pytest.approx(PLAIN[name](games))
    values = sorted(PLAIN[name]([draw.choices(one, k=len(one)) for one in games]) for _ in range(20_000))
    low, high = values[500], values[19_500]
    assert high > low
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.04 * (high - low))
    assert found == estimate(name, arrays(games), resamples=20_000)
    # Runs that are alike within each game leave nothing to chance, however the games differ.
    same = estimate(name, arrays([[1.0] * 3, [50.0] * 2, [900.0] * 4]))
    assert same.low == same.value == same.high
    assert estimate("mean", arrays([[1.0], [2.0, 3.0]])) == Estimate(1.75)  # of one run there is no interval


def points(game: str, percent: float) -> float:
    one = SCORES[game]
    return one["random"] + (one["human"] - one["random"]) * percent / 100


def measured(comparison: Comparison) -> dict[tuple[str, str], float]:
    return {(setting, name): one.value for setting, name, one in comparison.estimates}


def test_runs_are_compared_at_the_latest_epoch_that_all_have_reached(make_run: Make) -> None:
    found = Comparison([
        make_run("pong", 1, test=[10, 20, 900]),
        make_run("pong", 2, state="running", train=[1, 1, 1], test=[30, 40]),
        make_run("pong", 3, state="waiting"),
        make_run("pong", 4, state="failed", test=[900]),
    ])  # fmt: skip
    assert (found.span, found.unit, len(found.members)) == ("test epoch 2", "game points", 2)
    assert (measured(found)["", "mean"], found.left_out) == ((20 + 40) / 2, 2)
    none = Comparison([make_run("pong", 5, state="waiting")])
    assert (none.members, none.left_out) == ([], 1)
    assert "No run can be compared" in str(none)
    untested = [make_run("pong", 2, train=[900]), make_run("pong", 3, train=[900], test=[None])]
    found = Comparison([make_run("pong", train=[5], test=[50]), *untested])
    assert (found.phase, measured(found)["", "mean"], found.left_out) == ("test", 50, 2)
    assert measured(Comparison(untested))["", "mean"] == 900
    # A game without one, and a game that one setting lacks, is left out.
    runs = [make_run("pong", test=[points("pong", 50)]), make_run("breakout", test=[points("breakout", 150)])]
    found = Comparison([*runs, make_run("catch", test=[1])])
    assert measured(found)["", "mean"] == pytest.approx(100)
    assert (found.games, found.left_out) == (["breakout", "pong"], 1)
    assert "in % of human (Wang et al. 2016)" in str(found)
    more = [make_run("pong", setting="b", test=[2]), make_run("catch", setting="b", test=[1])]
    lacking = Comparison([*runs, *more])
    assert (lacking.games, lacking.left_out) == (["pong"], 2)


def test_the_median_of_57_games_is_estimated_from_atari_5(make_run: Make) -> None:
    # Less than random play counts as 0.
    percents = {"battle_zone": 100, "double_dunk": 50, "name_this_game": 400, "phoenix": 20, "qbert": -30}
    assert [*percents] == [*ATARI5]
    runs = [make_run(game, setting="one", test=[points(game, one)]) for game, one in percents.items()]
    assert Comparison(runs).medians == {"one": pytest.approx(70.6636, rel=1e-5)}
    assert "median of 57 games about 70.7" in str(Comparison(runs))
    assert not Comparison(runs[1:]).medians


@pytest.mark.parametrize(("epochs", "first"), [(1, 1), (10, 10), (11, 10), (50, 46)])
def test_the_score_is_that_of_the_last_tenth_of_epochs(make_run: Make, epochs: int, first: int) -> None:
    curve = [float(epoch**2) for epoch in range(1, epochs + 1)]
    run = make_run("pong", test=curve)
    assert run.data is not None
    phase, span, (score,) = scored([run.data])
    assert (phase, span) == ("test", range(first, epochs + 1))
    assert score == pytest.approx(statistics.fmean(curve[first - 1 :]))


@pytest.fixture
def two(make_run: Make) -> list[SweepRun]:
    """Two settings of Pong with three seeds each, of which the second is always better."""
    return [
        make_run("pong", seed, setting, test=[base + seed, 2 * base + seed])
        for setting, base in (("plain", 0), ("double", 10))
        for seed in (1, 2, 3)
    ]


def test_csvs_are_compared(two: list[SweepRun], tmp_path: Path, capsys: Capsys, told: Told) -> None:
    def command() -> list[str]:
        files = {
            name: ",".join(str(one.csv) for one in two if one.setting == name) for name in ("plain", "double")
        }
        return ["sweep", "compare", *(f"{name}={csvs}" for name, csvs in files.items())]

    png = tmp_path / "figure.png"
    assert main.run([*command(), "--png_file", str(png)]) == 0
    assert capsys.readouterr().out == f"{Comparison(two)}\n"
    assert matplotlib.image.imread(png).shape == (720, 1280, 4)
    for one in two:  # under names that tell no game
        one.csv = one.csv.rename(tmp_path / f"{one.setting}{one.seed}.csv")
    assert main.run(command()) == 0
    out = capsys.readouterr().out
    assert "6 runs of another game" in out
    assert "double: mean 22.0 (21." in out
    for one in two:  # the settings that each run writes beside its CSV tell Gymnasium's id
        settings = f"settings:\n  environment: gym\n  game: mine/Walk-v{1 + one.seed % 2}\n"
        one.csv.with_suffix(".yaml").write_text(settings)
    assert main.run(command()) == 0
    assert "6 runs of mine_Walk-v1, mine_Walk-v2" in capsys.readouterr().out
    for reward, code in (("", 2), ("5", 0)):
        (tmp_path / "odd.csv").write_text(f"epoch,phase,average_reward\n4e18,train,{reward}\n")
        said = told("sweep", "compare", f"odd={tmp_path / 'odd.csv'}", code=code)
        assert ("No run can be compared; Left out (1): runs" in said) == bool(code)


def test_the_figure_has_the_curves_of_each_game_and_the_measures(two: list[SweepRun], make_run: Make) -> None:
    found = measured(Comparison(two))
    assert (found["plain", "mean"], found["double", "mean"]) == (2, 22)
    figure = Figure(layout="constrained")
    Comparison(two).draw(figure)
    curves, measures = figure.axes
    assert curves.get_title() == "Pong"
    lines = [np.array(line.get_data()).tolist() for line in curves.lines]
    assert lines == [[[40, 80], [2, 2]], [[40, 80], [12, 22]]]  # plain, double
    assert curves.collections[1].get_datalim(curves.transData).intervaly.tolist() == [11, 23]  # the range
    assert [text.get_text() for text in measures.get_yticklabels()] == ["interquartile mean", "mean"]
    intervals = [(line.get_label(), len(line.get_path())) for line in measures.lines]
    assert intervals == [("plain", 3)] * 2 + [("double", 3)] * 2
    games = [*SCORES][:8]  # all before Pong
    others = [make_run(game, 1, setting, test=[20, 30]) for game in games for setting in ("plain", "double")]
    figure.clear()
    Comparison([*two, *others]).draw(figure)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [*(game.replace("_", " ").title() for game in games), "Scores: test epoch 2"]


def test_the_files_are_renewed_when_a_run_ends(two: list[SweepRun], make_run: Make, tmp_path: Path) -> None:
    stream, folder = io.StringIO(), tmp_path / "results"
    two[0].state = "running"
    report = Report([*two, make_run("breakout", 2, state="waiting")], folder, stream)
    report.update()
    assert len(stream.getvalue().splitlines()) == 8
    assert not (folder / "comparison.csv").exists()
    two[0].state = "done"
    report.update()
    report.update()  # nothing has changed
    assert stream.getvalue().splitlines()[8:] == [
        "pong_plain_seed1: done, epoch 2, score 1", "6 of 7 runs are done",
    ]  # fmt: skip
    with (folder / "comparison.csv").open(newline="") as file:
        comparison = list(csv.DictReader(file))
    assert ",".join(comparison[0]) == ("setting,measure,value,low,high,unit,runs,scored,left_out")
    assert [row["value"] for row in comparison if row["measure"] == "mean"] == ["2.0", "22.0"]
    assert matplotlib.image.imread(folder / "comparison.png").shape == (720, 1280, 4)


COLUMNS = "epoch,phase,total_train_steps,average_reward,steps_per_second,total_time,meanq,nr_games,meancost\n"


@pytest.fixture
def make_run(tmp_path: Path) -> Make:
    def make(
        game: str, seed: int = 1, setting: str = "", state: str = "done",
        **phases: list[float | None],
    ) -> SweepRun:  # fmt: skip
        run = SweepRun(game, setting, seed, tmp_path / "results", tmp_path / "snapshots")
        run.csv.parent.mkdir(exist_ok=True)
        lines = [
            f"{epoch},{phase},{40 * epoch},{'' if points is None else points},50,{240 * epoch},1,2,\n"
            for phase, curve in phases.items()
            for epoch, points in enumerate(curve, 1)
        ]
        if lines:
            run.csv.write_text(COLUMNS + "".join(sorted(lines, key=lambda line: int(line.split(",")[0]))))
        run.state = state
        run.look()
        return run

    return make
