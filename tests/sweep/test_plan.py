"""What a sweep is to run, and that it stays what it was; its settings as a file."""

import json
import os
from pathlib import Path
from typing import Any

import ale_py.roms
import pytest

from simple_dqn import main, sweep
from simple_dqn.command_line import read
from simple_dqn.config import Config, EnvironmentConfig
from simple_dqn.environment.atari import known_games
from simple_dqn.errors import UserError
from simple_dqn.evaluation import SCORES
from simple_dqn.sweep.comparison import ATARI5
from simple_dqn.sweep.pool import SweepRun
from tests.command_line import read as read_command

PROJECT = Path(__file__).parents[2]


def test_games_are_taken_once_and_files_are_named_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(sweep.find_games(["atari57"], EnvironmentConfig())) == set(SCORES)
    assert list(sweep.find_games(["all"], EnvironmentConfig())) == known_games()
    rom = ale_py.roms.get_rom_path("breakout")
    assert rom is not None
    (tmp_path / "other.bin").write_bytes(Path(rom).read_bytes())
    (tmp_path / "mine.py").write_text((PROJECT / "examples" / "flappy_bird.py").read_text())
    monkeypatch.chdir(tmp_path)
    games = sweep.find_games(["pong", "Pong", "roms/pong.rom", "other.bin"], EnvironmentConfig())
    assert games == {"pong": "pong", "breakout": str(tmp_path / "other.bin")}
    assert sweep.find_games(["catch"], EnvironmentConfig(environment="catch")) == {"catch": "catch"}
    expected = {"flappy_bird": str(tmp_path / "mine.py")}
    assert sweep.find_games(["mine.py", "./mine.py"], EnvironmentConfig()) == expected
    for wrong, complaint in ((["breakout", "pnog"], "did you mean pong"), (["none.py"], "cannot read")):
        with pytest.raises(UserError, match=complaint):
            sweep.find_games(wrong, EnvironmentConfig())


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[SweepRun]]:
    """Return the runs of each sweep, none of which is carried out."""
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    sweeps: list[list[SweepRun]] = []
    monkeypatch.setattr(sweep, "run_all", lambda runs, *_: sweeps.append(runs))
    return sweeps


SWEEP = ["sweep", "pong", "breakout", "--seeds", "2", "--epochs", "2", "--name", "both"]
COMPARED = ["--compare", "plain=", "other=--epochs 3 --double --exploration_decay_steps 10%"]


def test_runs_go_through_the_games_and_settings_seed_by_seed(
    begun: list[list[SweepRun]], tmp_path: Path
) -> None:
    assert main.run([*SWEEP, *COMPARED, "--min_reward", "-2.5", "--preset", "nature"]) == 0
    (runs,) = begun
    assert [run.name for run in runs[:5]] == [
        "pong_plain_seed1", "pong_other_seed1", "breakout_plain_seed1", "breakout_other_seed1",
        "pong_plain_seed2",
    ]  # fmt: skip
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


def test_a_suite_says_first_how_long_it_takes(
    begun: list[list[SweepRun]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simple_dqn.sweep.pool.core_numbers", lambda: set(os.sched_getaffinity(0)))
    small = "--screen_width 36 --screen_height 36 --network small --random_steps 40 --workers 2 --epochs 7"
    flags = [*small.split(), "--train_steps", "1000", "--test_steps", "500", "--schedule", "serial"]
    monkeypatch.setattr(sweep, "SHORT", 100)
    assert main.run(["sweep", "--suite", "atari5", "--seeds", "3", *flags]) == 0
    assert [run.game for run in begun[0][:5]] == [*ATARI5]
    line = next(line for line in capsys.readouterr().err.splitlines() if "steps per second" in line)
    assert line.startswith("15 runs of 10,500 steps")
    assert line.endswith("hours")
    assert main.run(["sweep"]) == 2
    assert "--suite" in capsys.readouterr().err


def test_another_or_a_damaged_plan_is_refused(
    begun: list[list[SweepRun]], capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("simple_dqn.sweep.pool.core_numbers", lambda: {0, 1})
    assert main.run(SWEEP) == 0
    path = tmp_path / "results" / "sweep" / "both" / "sweep.json"
    written = path.read_bytes()
    same = [*SWEEP[:3], "--name", "both", *SWEEP[3:7]]
    for change, code in (
        ([], 0), (["--gpus_per_run", "0"], 0), (["--seeds", "3"], 2), (["--cpus_per_run", "2"], 2),
        (["--compare", "a=", "b=--double true"], 2),
    ):  # fmt: skip
        assert main.run([*same, *change]) == code
        assert code == 0 or "give another --name" in capsys.readouterr().err.splitlines()[-1]
        assert path.read_bytes() == written
    path.write_bytes(b"\xff")
    assert main.run(SWEEP) == 2
    assert "or give another --name" in capsys.readouterr().err.splitlines()[-1]
    path.write_bytes(written)
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path.rename(tmp_path.with_name("moved"))))
    assert main.run(SWEEP) == 0


def test_each_setting_is_printed_as_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*words: str) -> list[dict[str, Any]]:
        assert main.run(["sweep", "pong", *words, "--print_config"]) == 0
        found = []
        for text in capsys.readouterr().out.split("---\n"):
            (tmp_path / "printed.yaml").write_text(text)
            found.append(read(str(tmp_path / "printed.yaml")))
        return found

    settings = ["--compare", "plain=", "other=--double true --preset nature"]
    found = printed("breakout", "--n_step", "3", *settings)
    assert [(one["preset"], one["n_step"], one["target_rule"], one["game"]) for one in found] == [
        ("quick", 3, "max", "pong"), ("nature", 3, "double", "pong"),
    ]  # fmt: skip
    # A sweep begins with the settings of a run, in a file, which lie over a preset.
    path = tmp_path / "run.yaml"
    path.write_text("settings:\n  n_step: 7\n  random_seed: 7\n")
    (one,) = printed("--config", str(path), "--preset", "nature")
    wanted = {"preset": "nature", "n_step": 7, "random_seed": None, "batch_size": 32, "backend": "cpu"}
    assert wanted.items() <= one.items()
    assert main.run(["sweep", "pong", "--config", str(path), "--compare", "a=--preset nature"]) == 2
    assert "--config" in capsys.readouterr().err


def test_settings_of_all_runs_are_settings() -> None:
    assert set(sweep.UNSHARED) <= set(Config().flags())
