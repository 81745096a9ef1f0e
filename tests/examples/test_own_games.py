"""Games of one's own, `FILE.py:CLASS`: in every verb, in processes, and what can be wrong with them."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simple_dqn import main
from simple_dqn.config import Config, EnvironmentConfig
from simple_dqn.environment import Environment, Frame, game_name, make
from simple_dqn.errors import UserError
from simple_dqn.random_streams import stream
from simple_dqn.snapshot import CheckpointFolder, Snapshot
from simple_dqn.types import Step

SOURCE = Path(__file__).parents[2] / "src"
COUNT_DOWN = '''
"""A game that ends after three steps; the reward is the action."""

from simple_dqn.environment import SimpleGame


class CountDown(SimpleGame):
    action_names = ("NOOP", "FIRE")
    screen_shape = (8, 10)

    def start(self):
        self.left = 3
        self.grey = int(self.random.integers(256))

    def act(self, action):
        self.left -= 1
        return action, self.left == 0

    def draw(self, screen):
        assert not screen.any(), "the screen was not black"
        screen[: self.left] = self.grey
'''
WHOLE = '''
"""An environment that plays all its games itself: Catch under another name."""

from simple_dqn.environment.catch import open_game
from simple_dqn.environment.vector import GameVector


class Whole(GameVector):
    def __init__(self, config, streams, training, watcher):
        games = [open_game(config, stream, training, watcher) for stream in streams]
        super().__init__(games, (config.screen_height, config.screen_width))
        self.name = "whole"
'''
SMALL = [
    "--preset", "simple_dqn", "--random_steps", "60", "--train_steps", "40", "--test_steps", "20",
    "--replay_size", "200", "--screen_width", "36", "--screen_height", "36", "--batch_size", "4",
    "--target_steps", "20", "--backend", "cpu", "--random_seed", "0", "--threads", "1",
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project's folder, with a game of one's own in `games/`."""
    home = tmp_path / "project"
    (home / "games").mkdir(parents=True)
    (home / "games" / "count.py").write_text(COUNT_DOWN)
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(home))
    monkeypatch.chdir(home)
    return home


def play(environment: Environment, steps: int) -> list[Step]:
    chosen = np.random.default_rng(1).integers(environment.actions, size=(steps, environment.games))
    return [environment.reset(), *map(environment.step, chosen)]


def open_own(
    home: Path, games: int, processes: int = 0, name: str = "games/count.py", **flags: Any
) -> Environment:
    config = EnvironmentConfig(
        environment=name, processes=processes, screen_width=10, screen_height=8, **flags
    )
    return make(config, [stream(3, "environment", place) for place in range(games)], training=True)


def test_a_simple_game_is_played_as_it_says(home: Path) -> None:
    environment = open_own(home, 2)
    first, *steps = play(environment, 8)
    assert environment.name == "count_down"
    assert environment.action_names == ("NOOP", "FIRE")
    assert (first.screens[:, :3] == first.screens[:, :1, :1]).all()
    assert not first.screens[:, 3:].any()
    assert first.screens[:, 0, 0].any()
    for number, step in enumerate(steps, 1):
        assert (step.resets == (number % 4 == 3)).all()
        assert (step.terminals == step.resets).all()
        assert (step.starts == (number % 4 == 0)).all()
        assert (step.rewards == np.where(step.starts, 0, step.actions)).all()
        left = 3 - number % 4
        assert not step.screens[:, left:].any()


def test_its_screen_comes_to_the_size_that_is_asked_for(home: Path) -> None:
    environment = make(
        EnvironmentConfig(environment="games/count.py"), [stream(3, "environment")], training=True
    )
    screens = environment.reset().screens
    assert screens.shape == (1, 84, 84)
    assert len(np.unique(screens[0, :30])) == 1


def test_processes_play_the_same_as_one(home: Path) -> None:
    alone, shared = open_own(home, 3), open_own(home, 3, processes=2)
    for one, other in zip(play(alone, 6), play(shared, 6), strict=True):
        np.testing.assert_array_equal(one.screens, other.screens)
        np.testing.assert_array_equal(one.rewards, other.rewards)
        np.testing.assert_array_equal(one.resets, other.resets)
    shared.close()


def test_its_random_stream_is_saved(home: Path) -> None:
    environment = open_own(home, 2)
    play(environment, 5)
    state = environment.get_state()
    screens = environment.reset().screens
    play(environment, 5)
    environment.set_state(state)
    np.testing.assert_array_equal(environment.reset().screens, screens)


def test_time_is_up_after_max_game_frames(home: Path) -> None:
    environment = open_own(home, 1, frame_skip=4, max_game_frames=8)
    steps = play(environment, 3)
    assert [bool(step.truncations[0]) for step in steps] == [False, False, True, False]
    assert [bool(step.resets[0]) for step in steps] == [False, False, True, False]
    assert not any(step.terminals.any() for step in steps)


def test_who_watches_sees_each_screen_for_frame_skip_frames(home: Path) -> None:
    frames: list[Frame] = []
    config = EnvironmentConfig(environment="games/count.py", frame_skip=3)
    environment = make(config, [stream(3, "environment", i) for i in range(2)], True, frames.append)
    play(environment, 2)
    assert len(frames) == 9
    assert all(frame.picture.shape == (8, 10, 3) for frame in frames)


def test_a_whole_environment_plays_its_games(home: Path) -> None:
    (home / "whole.py").write_text(WHOLE)
    catch = EnvironmentConfig(environment="catch", game="catch")
    streams = [[stream(3, "environment", i) for i in range(2)] for _ in range(2)]
    own = make(EnvironmentConfig(environment="whole.py:Whole"), streams[0], True)
    for one, other in zip(play(own, 9), play(make(catch, streams[1], True), 9), strict=True):
        np.testing.assert_array_equal(one.screens, other.screens)


def run(*arguments: str) -> None:
    assert main.run(arguments) == 0


def test_every_verb_knows_the_game(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("train", "games/count.py", "long", *SMALL, "--epochs", "2", "--workers", "2", "--processes", "2")
    run("train", "anything", "short", "--environment", "games/count.py:CountDown", *SMALL, "--epochs", "1",
        "--workers", "2")  # fmt: skip
    run("resume", "snapshots/count_down_short_1.pkl", "--epochs", "2")
    long, short = (
        Snapshot.load(home / "snapshots" / f"count_down_{name}_2.pkl") for name in ("long", "short")
    )
    assert long.flags["environment"] == short.flags["environment"] == "games/count.py:CountDown"
    assert all(np.array_equal(long.weights[name], short.weights[name]) for name in long.weights)
    snapshot = "snapshots/count_down_long_2.pkl"
    run("test", snapshot, "--play_games", "4", "--workers", "1", "--processes", "0")
    assert "count_down: " in capsys.readouterr().out
    run("record", snapshot, "--format", "mp4", "--max_game_frames", "8")
    assert (home / "videos" / "count_down_long_2.mp4").is_file()
    run("train", "games/count.py", *SMALL, "--play_games", "1")


def test_a_person_plays_it(home: Path) -> None:
    words = ["play", "games/count.py", "--display", "window", "--play_games", "1"]
    hidden = {
        "SDL_VIDEODRIVER": "dummy",
        "SDL_AUDIODRIVER": "dummy",
        "DISPLAY": ":99",
        "PYTHONPATH": str(SOURCE),
    }
    command = [sys.executable, "-P", "-m", "simple_dqn.main", *words]
    done = subprocess.run(command, env=os.environ | hidden, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Games played: 1; scores: [0.0]" in done.stderr


def test_the_name_and_the_file_are_kept_as_seen_from_the_project(home: Path) -> None:
    run("train", "./games/../games/count.py", *SMALL, "--epochs", "1")
    saved = CheckpointFolder(home / "snapshots" / "count_down_checkpoint").newest()
    assert saved
    assert saved.run["flags"]["environment"] == "games/count.py:CountDown"
    assert game_name(EnvironmentConfig(environment="games/count.py")) == "count_down"


def test_a_snapshot_does_not_choose_what_is_run(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trap, sprung = f"open({str(tmp_path / 'sprung')!r}, 'w')\n" + COUNT_DOWN, tmp_path / "sprung"
    (home / "snapshots").mkdir()
    (home / ".venv").mkdir()
    (home / "out").symlink_to(tmp_path)
    for place in (tmp_path / "trap.py", home / "snapshots" / "trap.py", home / ".venv" / "trap.py"):
        place.write_text(trap)
    weights = {"x": np.zeros(3, np.float32)}
    path = home / "snapshots" / "count_down_1.pkl"
    for file in (
        str(tmp_path / "trap.py"),
        "../trap.py",
        "snapshots/trap.py",
        ".venv/trap.py",
        "out/trap.py",
        "no.py",
    ):
        flags = {**Config().shared_flags(), "environment": f"{file}:CountDown"}
        Snapshot("count_down", 1, 2, 10, flags, weights).save(path)
        for verb in ("test", "play", "record", "nvis", "resume"):
            assert main.run([verb, str(path)]) == 2
            assert "--environment FOLDER/" in capsys.readouterr().err
    assert not sprung.exists()


def test_a_file_elsewhere_is_named_again(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text(COUNT_DOWN)
    run("train", str(elsewhere), *SMALL, "--epochs", "1")
    snapshot = "snapshots/count_down_1.pkl"
    assert Snapshot.load(home / snapshot).flags["environment"] == "elsewhere.py:CountDown"
    assert main.run(["test", snapshot]) == 2
    assert "it was trained on elsewhere.py:CountDown" in capsys.readouterr().err
    run("test", snapshot, "--play_games", "1", "--environment", str(elsewhere))
    run("resume", snapshot, "--epochs", "2", "--environment", "../elsewhere.py")


def test_a_run_goes_on_where_its_file_was_moved(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("train", "games/count.py", *SMALL, "--epochs", "1")
    (home / "games" / "count.py").rename(home / "games" / "moved.py")
    for snapshot in ("snapshots/count_down_checkpoint", "snapshots/count_down_1.pkl"):
        assert main.run(["resume", snapshot, "--epochs", "2"]) == 2
        assert "--environment FOLDER/count.py:CountDown" in capsys.readouterr().err
    run("resume", "snapshots/count_down_1.pkl", "--epochs", "2", "--environment", "games/moved.py")
    assert "Continuing from snapshots/count_down_checkpoint" in capsys.readouterr().err
    run("resume", "snapshots/count_down_2.pkl", "--epochs", "3")
    (home / "games" / "other.py").write_text(COUNT_DOWN.replace("CountDown", "Other"))
    words = ["--epochs", "4", "--environment", "games/other.py"]
    assert main.run(["resume", "snapshots/count_down_3.pkl", *words]) == 2
    assert "--environment games/moved.py:CountDown" in capsys.readouterr().err


def test_it_may_import_what_lies_beside_it(home: Path) -> None:
    (home / "games" / "rewards_of_count.py").write_text("EACH = 3\n")
    (home / "games" / "colorsys.py").write_text("raise RuntimeError('this hides what everybody imports')\n")
    imports = "\n\nimport colorsys\nfrom rewards_of_count import EACH\n"
    importing = COUNT_DOWN.replace("return action", "return EACH * action") + imports
    (home / "games" / "with_another.py").write_text(importing)
    for processes in (0, 2):
        environment = open_own(home, 2, processes, "games/with_another.py:CountDown")
        assert max(step.rewards.max() for step in play(environment, 8)) == 3
        environment.close()


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("float('nan'), False", "the reward is nan"),
        ("-float('inf'), False", "the reward is -inf"),
        ("1e300, False", r"the reward is 1e\+300"),
        ("None, False", "the reward is None"),
        ("'3', False", "the reward is '3'"),
        ("1j, False", "the reward is 1j"),
        ("0, 'x'", "over is 'x': make it True or False"),
        ("0, __import__('numpy').zeros(2)", r"over is array"),
        ("0", r"it returned 0: make it return reward, over"),
        ("0, False, {}", r"it returned \(0, False, \{\}\)"),
    ],
)
def test_an_answer_that_is_wrong_is_refused_at_its_step(
    home: Path, processes: int, answer: str, words: str
) -> None:
    right = "return action, self.left == 0"
    broken = f"return ({answer}) if self.left < 2 else (0, False)"
    (home / "pays.py").write_text(COUNT_DOWN.replace(right, broken))
    with (
        closing(open_own(home, 2, processes, "pays.py:CountDown")) as environment,
        pytest.raises(UserError, match=rf"CountDown.act, step 2 of a game: {words}"),
    ):
        play(environment, 2)


START, ACT, DRAW = "self.left = 3", "self.left -= 1", "screen[: self.left] = self.grey"
FAILS = [
    (
        "def start(self)",
        "def __init__(self):\n        1 / 0\n\n    def start(self)",
        r"CountDown\(\) failed: Zero",
    ),
    (
        "def start(self)",
        "def __init__(self, size): ...\n\n    def start(self)",
        r"CountDown\(\) failed: TypeError",
    ),
    (START, "1 / 0", "CountDown.start, step 0 of a game failed: ZeroDivisionError"),
    (ACT, "1 / 0", "CountDown.act, step 1 of a game failed: ZeroDivisionError"),
    (ACT, "raise SystemExit(3)", "CountDown.act, step 1 of a game failed: SystemExit: 3"),
    (DRAW, "1 / 0", "CountDown.draw, step 0 of a game failed: ZeroDivisionError"),
    ("def draw(self, screen)", "def draw(self)", "CountDown.draw, step 0 of a game failed: TypeError"),
    (DRAW, "screen[0] = range(3)", "CountDown.draw, step 0 of a game failed: ValueError"),
]
SHAPES = ["(0, 0)", "(8.0, 10.0)", "(-8, 10)", "(10**6, 10**6)", "(8,)", "(8, 10, 3)", "5", "None"]
NAMES = ["5", "'NOOP'", "(1, 2)", "{'NOOP': 1}"]


@pytest.mark.parametrize("processes", [0, 1])
@pytest.mark.parametrize(("right", "wrong", "words"), FAILS)
def test_what_fails_in_it_is_one_line_with_its_place(
    home: Path, processes: int, right: str, wrong: str, words: str
) -> None:
    (home / "fails.py").write_text(COUNT_DOWN.replace(right, wrong))
    with (
        pytest.raises(UserError, match=rf"{words}.*fails.py, line \d+\): fix it"),
        closing(open_own(home, 1, processes, "fails.py:CountDown")) as environment,
    ):
        play(environment, 1)


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [("(8, 10)", shape, "CountDown.screen_shape is ") for shape in SHAPES]
    + [('("NOOP", "FIRE")', names, "CountDown.action_names is ") for names in NAMES],
)
def test_its_screen_and_its_actions_are_checked(
    home: Path, right: str, wrong: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "wrong.py").write_text(COUNT_DOWN.replace(right, wrong))
    assert main.run(["train", "wrong.py", *SMALL]) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(("method", "words"), [("__init__", r"Whole\(\)"), ("step", "Whole.step")])
def test_so_is_what_fails_in_a_whole_environment(home: Path, method: str, words: str) -> None:
    (home / "whole.py").write_text(f"{WHOLE}\n    def {method}(self, *_):\n        1 / 0\n")
    with pytest.raises(UserError, match=rf"{words} failed: ZeroDivisionError.*whole.py, line \d+"):
        play(open_own(home, 2, name="whole.py"), 1)


def test_no_reward_that_is_no_number_comes_from_a_whole_environment(home: Path) -> None:
    code = "step = super().step(actions)\n        step.rewards[1] = float('nan')\n        return step\n"
    (home / "whole.py").write_text(f"{WHOLE}\n    def step(self, actions):\n        {code}")
    environment = open_own(home, 2, name="whole.py")
    environment.reset()
    with pytest.raises(UserError, match="Whole paid a reward of nan"):
        environment.step(np.zeros(2, np.int64))


def test_a_reward_that_is_no_number_is_never_stored(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "pays.py").write_text(COUNT_DOWN.replace("return action", "return float('nan')"))
    assert main.run(["train", "pays.py", *SMALL]) == 2
    assert "CountDown.act, step 1 of a game: the reward is nan" in capsys.readouterr().err.splitlines()[-1]
    assert not list(home.rglob("*.npz"))


BROKEN = {
    "class Half(": "from simple_dqn.environment import SimpleGame\n\n\nclass Half(SimpleGame:\n    pass\n",
    "raises": "import no_such_library\n",
    "exits": "raise SystemExit(3)\n",
    "lacks": "from simple_dqn.environment import SimpleGame as G\nclass Half(G):\n def start(self): pass\n",
    "nameless": COUNT_DOWN.replace('action_names = ("NOOP", "FIRE")', ""),
    "empty": COUNT_DOWN.replace('("NOOP", "FIRE")', "()"),
    "none": "class Half:\n    pass\n",
    "two": COUNT_DOWN + "\n\nclass Other(CountDown):\n    pass\n",
}  # fmt: skip
ROWS = [
    ("class Half(", "", ["line 4", "fix it"]),
    ("raises", "", ["line 1", "no_such_library", "fix it"]),
    ("exits", "", ["line 1", "SystemExit: 3", "fix it"]),
    ("lacks", "", ["Half", "act, draw"]),
    ("nameless", "", ["CountDown", "lacks action_names"]),
    ("none", "", ["no game", "SimpleGame"]),
    ("none", ":Half", ["Half", "not a game", "SimpleGame"]),
    ("none", ":Whole", ["no class Whole"]),
    ("empty", "", ["CountDown", "lacks action_names"]),
    ("two", "", ["CountDown, Other", "name one"]),
    ("two", ":Third", ["no class Third", "CountDown, Other"]),
    ("missing", "", ["cannot read", "missing"]),
]


@pytest.mark.parametrize("by_flag", [False, True])
@pytest.mark.parametrize(("kind", "name", "words"), ROWS, ids=lambda part: str(part)[:20])
def test_what_is_wrong_is_told_in_a_line(
    home: Path, kind: str, name: str, words: list[str], by_flag: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / ("missing.py" if kind == "missing" else "broken.py")
    if kind != "missing":
        file.write_text(BROKEN[kind])
    game = f"{file.name}{name}"
    before = sorted(home.rglob("*"))
    assert main.run(["train", *(["x", "--environment", game] if by_flag else [game]), *SMALL]) == 2
    complaint = capsys.readouterr().err
    assert len(complaint.splitlines()) == 1
    assert all(word in complaint for word in words), complaint
    assert [path for path in sorted(home.rglob("*")) if "__pycache__" not in path.parts] == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["x", "--environment", "cath"], ["cath", "ale, gym, catch, FILE.py:CLASS"]),
        (["x", "--environment", "count.py:1st"], ["count.py:1st"]),
        (["games/count.py", "--environment", "ale"], ["games/count.py", "leave out one"]),
        (["games/count.py", "--repeat_action_probability", "0.5"], ["--repeat_action_probability"]),
        (["whole.py", "--processes", "1"], ["--processes 1", "SimpleGame"]),
    ],
)
def test_flags_that_do_not_go_with_it(
    home: Path, arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "whole.py").write_text(WHOLE)
    assert main.run(["train", *arguments, *SMALL]) == 2
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert all(word in complaint for word in words), complaint
