import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simple_dqn import main
from simple_dqn.config import Config
from simple_dqn.demonstrations import Demonstrations, Recorder
from simple_dqn.errors import UserError
from simple_dqn.replay_memory import ReplayMemory
from simple_dqn.snapshot import CheckpointFolder, archive
from simple_dqn.types import Step

CONFIG = Config.from_flags(
    {"game": "catch", "environment": "catch", "screen_width": 9, "screen_height": 8, "replay_size": 100}
)


def make_step(number: int, *, starts: bool = False, terminal: bool = False) -> Step:
    """Return a step of one game that can be told from all others."""
    return replace(
        Step.start(np.full((1, 8, 9), number, np.uint8)),
        actions=np.array([number % 3]),
        rewards=np.array([number], np.float32),
        terminals=np.array([terminal]),
        resets=np.array([terminal]),
        starts=np.array([starts]),
    )


def record(path: Path, steps: list[tuple[Step, bool]]) -> Config:
    """Record `steps`, of which a person made those with True; return the settings to learn from them."""
    recorder = Recorder(path, "catch", CONFIG)
    for step, human in steps:
        recorder.add(step, human)
    recorder.save()
    return CONFIG.with_flags({"demonstrations": str(path)})


def filled(config: Config, games: int = 1) -> ReplayMemory:
    config = config.with_flags({"workers": games})
    memory = ReplayMemory(config.memory, games, (8, 9), 0.99, np.random.default_rng(0))
    Demonstrations(config).fill(memory, games)
    return memory


def test_what_a_person_did_is_in_the_memory_as_if_it_had_been_played_there(tmp_path: Path) -> None:
    steps = [make_step(i, starts=i in (0, 9), terminal=i == 8) for i in range(20)]
    config = record(tmp_path / "demo.npz", [(step, i > 0) for i, step in enumerate(steps)])
    expected = ReplayMemory(config.memory, 1, (8, 9), 0.99, np.random.default_rng(0))
    for step in steps:
        expected.add(step)
    memory = filled(config)
    assert memory.count == 20
    one, other = memory.sample(200), expected.sample(200)
    for name in ("prestates", "actions", "rewards", "poststates", "terminals"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


@pytest.mark.parametrize("settings", [{"prioritized": True}, {"replay_compression": "lz4"}], ids=str)
def test_whatever_the_memory_they_are_drawn_from_it(tmp_path: Path, settings: dict[str, object]) -> None:
    config = record(tmp_path / "demo.npz", [(make_step(i), True) for i in range(20)])
    batch = filled(config.with_flags(settings)).sample(200)
    assert set(batch.rewards[:, 0].astype(int).tolist()) == set(range(1, 20))


def test_several_games_get_a_piece_each_that_begins_as_an_episode(tmp_path: Path) -> None:
    config = record(tmp_path / "demo.npz", [(make_step(i), True) for i in range(1, 24)])
    memory = filled(config, games=3)
    assert memory.count == 21  # 23 in 3 pieces of 7
    batch = memory.sample(500)
    transitions = {
        (int(r), int(s[0, 0])) for r, s in zip(batch.rewards[:, 0], batch.poststates[:, -1], strict=True)
    }
    assert transitions == {(i, i) for i in range(1, 22) if (i - 1) % 7}
    for state, reward in zip(batch.poststates, batch.rewards[:, 0].astype(int), strict=True):
        place = (reward - 1) % 7
        seen = [max(reward - back, 0) if back <= place else 0 for back in (3, 2, 1, 0)]
        assert state[:, 0, 0].tolist() == seen


def test_only_what_the_person_did_is_kept_and_each_take_over_begins_an_episode(tmp_path: Path) -> None:
    humans = [False, False, True, True, True, False, False, True, True, True]
    config = record(tmp_path / "demo.npz", [(make_step(i), human) for i, human in enumerate(humans)])
    batch = filled(config).sample(300)
    assert set(batch.rewards[:, 0].astype(int).tolist()) == {2, 3, 4, 7, 8, 9}
    rewards = batch.rewards[:, 0].tolist()
    states = {r: s[:, 0, 0].tolist() for r, s in zip(rewards, batch.prestates, strict=True)}
    assert states[2] == [0, 0, 0, 1]
    assert states[4] == [0, 1, 2, 3]
    assert states[8] == [0, 0, 6, 7]


def test_their_returns_end_where_the_person_left_off(tmp_path: Path) -> None:
    humans = [False, True, True, True, False, True, True, True]
    config = record(tmp_path / "demo.npz", [(make_step(i), human) for i, human in enumerate(humans)])
    memory = filled(config.with_flags({"n_step": 3}))
    for number in range(20, 23):
        memory.add(make_step(number, starts=number == 20))
    batch = memory.sample(300)
    rewards = {tuple(row) for row in batch.rewards.astype(int).tolist()}
    assert rewards == {(1, 2, 3), (2, 3, 0), (3, 0, 0), (5, 6, 7), (6, 7, 0), (7, 0, 0)}


@pytest.mark.parametrize("settings", [{"prioritized": True}, {"replay_compression": "lz4"}], ids=str)
def test_they_stay_whatever_comes_after(tmp_path: Path, settings: dict[str, object]) -> None:
    config = record(tmp_path / "demo.npz", [(make_step(i), True) for i in range(20)])
    memory = filled(config.with_flags({"replay_size": 40, **settings}))
    for number in range(20, 220):
        memory.add(make_step(number, starts=number == 20))
    assert memory.contents().screens[:20, 0, 0, 0].tolist() == list(range(20))
    drawn = set(memory.sample(500).rewards[:, 0].astype(int).tolist())
    assert drawn == {*range(1, 20), *range(204, 220)}


def test_nothing_played_leaves_no_file(tmp_path: Path) -> None:
    record(tmp_path / "demo.npz", [(make_step(0), False)])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"demonstrations": "nowhere.npz"}, "does not exist"),
        ({"environment": "ale", "game": "pong"}, "recorded in catch, not in pong"),
        ({"frame_skip": 3}, "recorded with other settings: give --frame_skip 4$"),
        ({"color_averaging": False}, "give --color_averaging true"),
        ({"screen_width": 10}, "give --screen_width 9"),
        ({"screen_width": 10, "screen_height": 10}, "give --screen_width 9 --screen_height 8"),
        ({"minimal_action_set": False}, "give --minimal_action_set true"),
        ({"workers": 4}, "too few for 4 game(s)"),
        ({"n_step": 16}, "holds 19 steps, too few for 1 game(s)"),
        ({"replay_size": 37}, "holds 19 steps, which .* half of it: give a --replay_size of 38"),
        ({"replay_size": 35, "workers": 2}, "holds 18 steps, .* --replay_size of 36 or more"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, flags: dict[str, object], words: str) -> None:
    config = record(tmp_path / "demo.npz", [(make_step(i), True) for i in range(19)])
    with pytest.raises(UserError, match="(?s)" + words.replace("(", r"\(").replace(")", r"\)")):
        Demonstrations(config.with_flags(flags))


def test_other_files_are_refused(tmp_path: Path) -> None:
    archive.write(tmp_path / "a.npz", {"format": "else"})
    (tmp_path / "b.npz").write_bytes(b"not a zip")
    for name in "ab":
        with pytest.raises(UserError):
            Demonstrations(CONFIG.with_flags({"demonstrations": str(tmp_path / f"{name}.npz")}))


def test_what_was_recorded_before_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "demo.npz").write_text("an hour's play")
    with pytest.raises(UserError, match="exists already"):
        Recorder(tmp_path / "demo.npz", "catch", CONFIG)
    assert (tmp_path / "demo.npz").read_text() == "an hour's play"


def test_a_place_that_cannot_be_written_is_told_before_the_game(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write"):
        Recorder(tmp_path / "file" / "demo.npz", "catch", CONFIG)


def train_from(home: Path, *flags: str) -> list[int]:
    """Train a little from 50 demonstrations; return the numbers on the screens that the memory held last."""
    small = [
        "--preset", "simple_dqn", "--environment", "catch", "--screen_width", "36", "--screen_height", "36",
        "--random_steps", "20", "--train_steps", "20", "--test_steps", "0",
    ]  # fmt: skip
    config = Config.from_flags(
        {"environment": "catch", "game": "catch", "screen_width": 36, "screen_height": 36}
    )
    recorder = Recorder(home / "demo.npz", "catch", config)
    for number in range(50):
        recorder.add(replace(make_step(number), screens=np.full((1, 36, 36), number, np.uint8)), True)
    recorder.save()
    assert main.run(["train", "catch", *small, *flags, "--demonstrations", str(home / "demo.npz")]) == 0
    return held_screens(home)


def held_screens(home: Path) -> list[int]:
    """Return the numbers on the screens that the memory held at the last checkpoint."""
    saved = CheckpointFolder(home / "snapshots" / "catch_checkpoint").newest()
    assert saved is not None
    screens = np.concatenate([experience.screens for experience in saved.experience()])
    return [int(number) for number in screens[:, 0, 0, 0]]


def test_training_starts_from_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    screens = train_from(tmp_path, "--epochs", "1", "--replay_size", "500")
    assert len(screens) == 50 + 1 + 20 + 20
    assert screens[:50] == list(range(50))


def test_training_never_overwrites_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    screens = train_from(
        tmp_path, "--epochs", "8", "--replay_size", "100"
    )  # half of it goes round three times
    assert len(screens) == 100
    assert screens[:50] == list(range(50))


def test_a_restored_memory_takes_up_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    train_from(tmp_path, "--epochs", "1", "--replay_size", "500")
    shown = str(tmp_path / "demo.npz")
    for run in ("catch_1.pkl", "catch_checkpoint"):
        resume = ["resume", str(tmp_path / "snapshots" / run), "--epochs", "2", "--demonstrations", shown]
        assert main.run(resume) == 2
        assert "leave out the flag" in capsys.readouterr().err


def test_a_memory_that_is_filled_anew_begins_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    train_from(tmp_path, "--epochs", "1", "--replay_size", "500")
    shutil.rmtree(tmp_path / "snapshots" / "catch_checkpoint")
    snapshot, shown = str(tmp_path / "snapshots" / "catch_1.pkl"), str(tmp_path / "demo.npz")
    assert main.run(["resume", snapshot, "--epochs", "2", "--demonstrations", shown]) == 0
    assert held_screens(tmp_path)[:50] == list(range(50))


def test_what_to_give_is_spelled_as_it_was(tmp_path: Path) -> None:
    own = CONFIG.with_flags({"environment": "games/Mine.py:Catch"})
    recorder = Recorder(tmp_path / "demo.npz", "catch", own)
    recorder.add(make_step(0))
    recorder.save()
    with pytest.raises(UserError, match=r"give --environment games/Mine\.py:Catch$"):
        Demonstrations(CONFIG.with_flags({"demonstrations": str(tmp_path / "demo.npz")}))


def test_an_agent_s_moves_are_recorded_from_all_its_games(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    small = [
        "--preset", "simple_dqn", "--environment", "catch", "--screen_width", "36", "--screen_height", "36",
        "--random_steps", "20", "--train_steps", "20", "--test_steps", "0", "--epochs", "1",
    ]  # fmt: skip
    assert main.run(["train", "catch", *small]) == 0
    test = ["test", "snapshots/catch_1.pkl", "--workers", "3", "--play_games", "6", "--random_seed", "1"]
    assert main.run(test) == 0
    report = capsys.readouterr().out
    assert main.run([*test, "--record_play", "agent.npz"]) == 0
    assert capsys.readouterr().out == report
    steps = archive.read(tmp_path / "agent.npz")["steps"]
    assert steps["starts"].sum() == 6
    assert steps["starts"][:: len(steps["starts"]) // 3].all()  # each game's steps come together
    assert steps["resets"].sum() == 6
    assert set(steps["rewards"].tolist()) <= {-1, 0, 1}
    assert main.run(["train", "catch", "shown", *small, "--demonstrations", "agent.npz"]) == 0
    assert main.run([*test, "--record_play", "agent.npz"]) == 2
    assert "exists already" in capsys.readouterr().err
