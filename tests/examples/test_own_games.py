"""Code of your own, by `--import`, `FILE.py` or a script: in every verb and process, and its faults."""

import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from simple_dqn import own_code
from simple_dqn.config import Config, EnvironmentConfig, words
from simple_dqn.environment import import_game, make, own_code_of
from simple_dqn.environment.interface import Environment
from simple_dqn.errors import UserError
from simple_dqn.random_streams import stream
from simple_dqn.snapshot import Snapshot
from simple_dqn.verbs.settings import resolve
from tests.command_line import CATCH, PROJECT, Capsys, Patch, Told, nightly, python, run
from tests.environment.test_ale import play

COUNT_DOWN = '''
"""A game that ends after three steps; the reward is ten times the action."""

import gymnasium
import numpy as np


class CountDown(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (8, 10), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def get_action_meanings(self):
        return ["NOOP", "FIRE"]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left, self.gray = 3, self.np_random.integers(256)
        return self.drawn(), {}

    def step(self, action):
        self.left -= 1
        self.gray = (self.gray + self.np_random.integers(9)) % 256
        return self.drawn(), 10 * action, self.left == 0, False, {}

    def drawn(self):
        return np.full((8, 10), self.gray, np.uint8)
'''
REGISTER = '\n\ngymnasium.register("count_down", entry_point=CountDown)\n'
STATE = """
    def get_state(self):
        return {"left": self.left, "gray": self.gray, "list": [[self.left, 1.5]], "array": np.zeros(3)}

    def set_state(self, state):
        self.left, self.gray = state["left"], state["gray"]
"""
SMALL = words({**CATCH, "test_steps": 20, "replay_size": 200})


@pytest.fixture(autouse=True)
def _games(home: Path) -> None:
    (home / "games").mkdir()
    (home / "games" / "count.py").write_text(COUNT_DOWN + REGISTER)
    (home / "games" / "saved.py").write_text(COUNT_DOWN + STATE + REGISTER)  # which can be saved


def open_own(games: int, processes: int = 0, file: str = "games/count.py") -> Environment:
    flags = {**import_game({"game": file}), "screen_width": 10, "screen_height": 8, "frame_skip": 1}
    config = EnvironmentConfig(**flags, processes=processes, random_starts=0)
    return make(config, [stream(3, "environment", place) for place in range(games)], training=True)


@pytest.mark.parametrize("file", [nightly("games/count.py"), "games/saved.py"])
def test_every_verb_plays_it_if_the_file_is_named(home: Path, file: str, capsys: Capsys, told: Told) -> None:
    flags = [*SMALL, "--workers", "2", "--checkpoint_steps", "30"]
    run("train", file, "whole", *flags, "--epochs", "2", "--processes", "2")
    run("train", file, *flags, "--max_game_frames", "2")
    said = told("train", file, "parts", *flags)
    assert "--frame_skip 1, no no-ops at a start, and rewards are not clipped" in said
    assert f"{PROJECT}/resume.sh snapshots/count_down_parts_1.pkl --import {file} --epochs 11" in said
    own_code.IMPORTED.clear()  # as in another process
    gymnasium.registry.pop("count_down")
    snapshot = "snapshots/count_down_parts_1.pkl"
    for verb in ("test", "play", "record", "nvis", "resume"):
        hint = f"'count_down': it was trained with --import {Path(file).name}"
        assert hint in told(verb, snapshot, code=2).splitlines()[-1]
    said = told("resume", snapshot, f"--import={file}", "--epochs", "2")
    assert "snapshots/count_down_parts_checkpoint" in said
    whole, parts = (Snapshot.load(Path(f"snapshots/count_down_{name}_2.pkl")) for name in ("whole", "parts"))
    assert whole.fingerprint == parts.fingerprint
    recorded = (whole.game, whole.flags["imports"], whole.flags["max_reward"])
    assert recorded == ("count_down", Path(file).name, np.inf)
    run("test", snapshot, "--import", file, "--play_games", "4", "--workers", "1")
    assert "count_down: " in capsys.readouterr().out
    run("record", snapshot, "-import", file, "--format", "mp4")
    run("nvis", snapshot, "--import", file)
    run("train", file, *SMALL, "--play_games", "1")


def test_play_opens_an_environment_from_a_file(home: Path, monkeypatch: Patch, told: Told) -> None:
    for name, value in {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "DISPLAY": ":99"}.items():
        monkeypatch.setenv(name, value)
    said = told("play", "games/count.py", "--display", "window", "--play_games", "1")
    assert "Games played: 1; scores: [0.0]" in said


def test_a_limit_of_steps_goes_on_after_a_resume(home: Path) -> None:
    limited = REGISTER.replace("=CountDown", "=CountDown, max_episode_steps=2")
    (home / "limited.py").write_text(COUNT_DOWN + STATE + limited)
    environment = open_own(1, file="limited.py")
    play(environment, 1)
    state, action = environment.get_state(), np.zeros(1, np.int64)
    for _ in range(2):
        assert environment.step(action).truncations[0]
        environment.set_state(state)


SCRIPT = """
if __name__ == "__main__":
    import sys

    import simple_dqn

    small = dict(backend="cpu", threads=1, random_seed=0, epochs=1, screen_width=36, screen_height=36)
    few = dict(small, random_steps=80, train_steps=64, test_steps=0, replay_size=400, target_steps=32)
    few.update(workers=8, processes=2, train_frequency=4)
    run = simple_dqn.train("count_down", "quick", label="quick", **few)
    assert simple_dqn.load(run.snapshots[-1]).evaluate(games=1).mean >= 0
    simple_dqn.train("count_down", "strong", label="strong", **small, train_steps=1024, processes=1)
"""


@pytest.mark.parametrize("entry", ["CountDown", 'f"{__name__}:CountDown"'])
def test_an_environment_of_a_script_is_trained_by_any_preset(home: Path, entry: str) -> None:
    register = REGISTER.replace("entry_point=CountDown", f"entry_point={entry}")
    (home / "script.py").write_text(COUNT_DOWN + register + SCRIPT)
    done = python("script.py")
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(list((home / "snapshots").glob("*_1.pkl"))) == 2


def test_two_files_of_one_name_are_two_games(home: Path) -> None:
    games = (("a", 10), ("b", 20))
    for name, points in games:
        (home / name).mkdir()
        text = COUNT_DOWN.replace("10 *", f"{points} *") + REGISTER.replace("count_down", name)
        text = text.replace("=CountDown", '=f"{__name__}:CountDown"')
        (home / name / "game.py").write_text(text)
    own_code.import_code(["a/game.py", "b/game.py"])
    for name, points in games:
        with open_own(1, file=f"{name}/game.py") as environment:
            assert max(step.rewards.max() for step in play(environment, 8)) == points


def test_what_is_written_can_be_read_whatever_the_game_is_called(home: Path, told: Told) -> None:
    for name, good in (("Brücke-v0", True), ("Long-" + 90 * "x", True), (101 * "x", False)):
        (home / "game.py").write_text(COUNT_DOWN + REGISTER.replace("count_down", name))
        said = told("train", "game.py", *SMALL, code=0 if good else 2)
        found = [*home.glob("snapshots/*.pkl")]
        if good:
            assert Snapshot.load(found[0]).game == name
            found[0].unlink()
        else:
            assert "the name of its game is too long" in said.splitlines()[-1]
            assert not found
        own_code.IMPORTED.clear()


def test_a_wide_picture_is_filmed(home: Path) -> None:
    (home / "wide.py").write_text(COUNT_DOWN.replace("(8, 10)", "(8, 3000)") + REGISTER)
    run("train", "wide.py", *SMALL)
    run("record", "snapshots/count_down_1.pkl", "--import", "wide.py", "--play_games", "1")
    assert (home / "videos" / "count_down_1.mov").stat().st_size > 0


@pytest.mark.parametrize(("game", "more", "environment", "name"), [
    ("games/count.py", {}, "gym", "count_down"), ("pong", {}, "ale", "pong"),
    ("roms/pong.rom", {}, "ale", "roms/pong.rom"), ("catch", {}, "catch", "catch"),
    ("CartPole-v1", {}, "gym", "CartPole-v1"), ("ALE/Pong-v5", {}, "gym", "ALE/Pong-v5"),
    ("ale_py:ALE/Pong-v5", {}, "gym", "ALE/Pong-v5"), ("no_such_game", {}, None, "no_such_game"),
    ("catch", {"environment": "ale"}, "ale", "catch"),
])  # fmt: skip
def test_a_name_means_a_file_then_a_rom_then_catch_then_an_id(
    home: Path, game: str, more: dict[str, str], environment: str | None, name: str
) -> None:
    if "/" not in game:
        (home / game).mkdir()  # a folder is no game
    found = import_game({"game": game, **more})
    assert (found.get("environment"), found["game"]) == (environment, name)


def test_atari_games_keep_their_defaults_whichever_way_they_are_reached() -> None:
    for game, frames in (("pong", 4), ("ALE/Pong-v5", 4), ("catch", 1), ("CartPole-v1", 1)):
        config = resolve(import_game({"game": game}))
        assert config.environment.frame_skip == frames
        assert config.network.max_reward == (1 if frames == 4 else np.inf)
    config = resolve(import_game({"game": "CartPole-v1", "frame_skip": 2, "max_reward": 5.0}))
    assert (config.environment.frame_skip, config.network.max_reward) == (2, 5.0)


def test_it_may_import_what_lies_beside_it(home: Path) -> None:
    (home / "games" / "rewards_of_count.py").write_text("EACH = 3\n")
    (home / "games" / "colorsys.py").write_text("raise RuntimeError('this hides what everybody imports')\n")
    imports = "import colorsys\nfrom rewards_of_count import EACH\n"
    text = imports + COUNT_DOWN.replace("10 * action", "EACH * action") + REGISTER
    (home / "games" / "with_another.py").write_text(text)
    for processes in (0, 2):
        with open_own(2, processes, "games/with_another.py") as environment:
            assert not environment.can_save
            assert max(step.rewards.max() for step in play(environment, 8)) == 3


def test_a_process_plays_what_is_registered_here_and_not_what_its_import_registers(home: Path) -> None:
    with open_own(1) as environment:
        assert not any(step.truncations.any() for step in play(environment, 8))
    gymnasium.registry["count_down"].max_episode_steps = 2
    for processes in (0, 1):
        with open_own(1, processes) as environment:
            assert any(step.truncations.any() for step in play(environment, 8))


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
def test_a_file_that_was_changed_is_run_again(home: Path) -> None:
    file = home / "games" / "count.py"
    for points in (10, 200):
        file.write_text(COUNT_DOWN.replace("10 *", f"{points} *") + REGISTER)
        for processes in (0, 1):
            with open_own(1, processes) as environment:
                assert max(step.rewards.max() for step in play(environment, 8)) == points


def test_what_cannot_be_sent_to_a_process_is_named() -> None:
    gymnasium.register("count_down", entry_point=lambda: None, kwargs={"file": sys.stderr})  # type: ignore
    with pytest.raises(UserError, match="sending count_down to a process failed"):
        own_code_of(EnvironmentConfig(environment="gym", game="count_down"))


def test_only_the_user_s_words_run_a_file(home: Path, told: Told) -> None:
    """Neither a snapshot nor a file of settings imports what it names."""
    trap, sprung, path = home / "trap.py", home / "sprung", home / "trap_1.pkl"
    trap.write_text(f"open({str(sprung)!r}, 'w')\n" + COUNT_DOWN + REGISTER)
    weights, flags = {"x": np.zeros(3, np.float32)}, Config().shared_flags()
    for changes in (
        {"environment": "trap.py:CountDown"},
        {"environment": "gym", "imports": str(trap)},
        {"environment": "gym", "game": "trap:count_down"},
        {"environment": "gym", "imports": "trap", "load_weights": "trap.py"},
    ):
        Snapshot("count_down", 1, 2, 10, {**flags, **changes}, weights).save(path)
        for verb in ("test", "play", "record", "nvis", "resume"):
            told(verb, str(path), code=2)
    for text in ("game: trap.py", "game: trap:count_down\n  environment: gym", "imports: trap.py\n  game: x"):
        (home / "x.yaml").write_text(f"settings:\n  {text}\n")
        told("train", "--config", "x.yaml", code=2)
    assert not sprung.exists()
