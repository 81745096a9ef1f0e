"""What a sweep is to run, and that it stays what it was."""

from dataclasses import replace
from pathlib import Path

import ale_py.roms
import pytest

from simple_dqn.command_line import parser_of_settings
from simple_dqn.config import Config, EnvironmentConfig, Share
from simple_dqn.conversion import yes_or_no
from simple_dqn.environment.roms import known_games
from simple_dqn.errors import UserError
from simple_dqn.human_scores import SCORES
from simple_dqn.sweep.plan import Plan, SweepFiles, find_games, save_plan

PROJECT = Path(__file__).parents[2]


def test_words_that_stand_for_many_games() -> None:
    assert set(find_games(["atari57"], EnvironmentConfig())) == set(SCORES)
    assert len(SCORES) == 57
    assert list(find_games(["all"], EnvironmentConfig())) == known_games()


def test_a_game_is_taken_once_and_a_file_is_named_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rom = ale_py.roms.get_rom_path("breakout")
    assert rom is not None
    (tmp_path / "other.bin").write_bytes(Path(rom).read_bytes())
    monkeypatch.chdir(tmp_path)
    games = find_games(["pong", "Pong", "roms/pong.rom", "other.bin"], EnvironmentConfig())
    assert games == {"pong": "pong", "breakout": str(tmp_path / "other.bin")}


def test_an_unknown_game_names_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean pong"):
        find_games(["breakout", "pnog"], EnvironmentConfig())


def test_games_of_other_kinds() -> None:
    assert find_games(["catch"], EnvironmentConfig(environment="catch")) == {"catch": "catch"}


def test_a_class_of_one_s_own_is_named_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text((PROJECT / "examples" / "flappy_bird.py").read_text())
    monkeypatch.chdir(tmp_path)
    expected = {"flappy_bird": f"{tmp_path / 'mine.py'}:FlappyBird"}
    assert find_games(["mine.py", "./mine.py:FlappyBird"], EnvironmentConfig()) == expected
    with pytest.raises(UserError, match="cannot read"):
        find_games(["none.py"], EnvironmentConfig())


def test_runs_go_through_the_games_seed_by_seed(plan: Plan) -> None:
    assert [run.name for run in plan.runs] == ["pong_seed1", "breakout_seed1", "pong_seed2", "breakout_seed2"]


def test_a_share_of_the_run_is_kept_as_it_was_given(plan: Plan, files: SweepFiles) -> None:
    shared = replace(plan, flags={"exploration_decay_steps": Share(10)})
    assert save_plan(shared, files.plan) == save_plan(shared, files.plan)
    assert "--exploration_decay_steps=10%" in files.arguments(shared, shared.runs[0])


def test_settings_are_trained_side_by_side_with_their_own_flags(plan: Plan, files: SweepFiles) -> None:
    compared = replace(plan, settings={"plain": {}, "other": {"epochs": 3, "double": True}}, seeds=1)
    names = ["pong_plain_seed1", "pong_other_seed1", "breakout_plain_seed1", "breakout_other_seed1"]
    assert [run.name for run in compared.runs] == names
    told = [files.arguments(compared, run)[2:] for run in compared.runs]
    assert ["--epochs=3" in words for words in told] == [False, True, False, True]
    assert ["--double=true" in words for words in told] == [False, True, False, True]


def test_train_is_told_all_that_was_given_and_what_is_the_run_s_own(plan: Plan, files: SweepFiles) -> None:
    given = {"epochs": 2, "double": True, "min_reward": -2.5, "preset": "nature"}
    command = files.arguments(replace(plan, flags=given, cpus_per_run=3), plan.runs[2])
    assert command[:2] == ("train", "pong")
    parser = parser_of_settings("train.sh", "Train.")
    parser.add_presets("quick")
    parser.add_argument("--resume", type=yes_or_no)
    told = parser.parse(command[2:])
    assert told == {
        **given,
        "resume": True,
        "random_seed": 2,
        "threads": 3,
        "csv_file": str(files.csv(plan.runs[2])),
        "save_weights_prefix": str(files.prefix(plan.runs[2])),
    }
    assert Config.from_flags(told).run.epochs == 2


def test_runs_share_no_file(plan: Plan, files: SweepFiles) -> None:
    paths = [path(run) for run in plan.runs for path in (files.csv, files.log, files.prefix)]
    paths += [files.plan, files.results / "summary.csv", files.results / "comparison.csv"]
    assert len(set(paths)) == len(paths)


def test_the_same_plan_is_the_same_sweep_in_whatever_order(plan: Plan, files: SweepFiles) -> None:
    flags = {"epochs": 2, "learning_rate": 0.1, "double": True}
    written = save_plan(replace(plan, flags=flags), files.plan)
    backwards = dict(reversed(flags.items()))
    assert save_plan(replace(plan, flags=backwards), files.plan) == written == files.plan.read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seeds": 3}, "--seeds 2, but this command has --seeds 3"),
        ({"games": {"pong": "pong"}}, "games pong breakout, but this command has games pong"),
        ({"flags": {"epochs": 3}}, "--epochs 2, but this command has --epochs 3"),
        ({"flags": {}}, "--epochs 2, but this command has no --epochs"),
        ({"flags": {"epochs": 2, "double": True}}, "no --double, but this command has --double true"),
        (
            {"settings": {"a": {}, "b": {"double": True}}},
            "no --compare, but this command has --compare a= b=--double=true",
        ),
        ({"cpus_per_run": 2}, "--cpus_per_run 1, but this command has --cpus_per_run 2"),
    ],
)
def test_another_plan_is_refused(
    plan: Plan, files: SweepFiles, change: dict[str, object], words: str
) -> None:
    written = save_plan(plan, files.plan)
    with pytest.raises(UserError, match=words):
        save_plan(replace(plan, **change), files.plan)  # type: ignore[arg-type]
    assert files.plan.read_text() == written


@pytest.mark.parametrize("text", ["", "[]", "{", '{"games": {}}', '{"games": 1, "seeds": 2, "x": 3}'])
def test_a_damaged_plan_is_refused(plan: Plan, files: SweepFiles, text: str) -> None:
    save_plan(plan, files.plan)
    files.plan.write_text(text)
    with pytest.raises(UserError, match="cannot be read as a sweep's: remove it"):
        save_plan(plan, files.plan)


@pytest.mark.parametrize("name", ["", "a/b", ".", ".hidden", "x" * 101])
def test_names_that_are_no_folder_s(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot be a folder's name"):
        SweepFiles.of(tmp_path, name)
