"""Atari games against a plain emulator, with their sound, states and ROMs; and Catch, the toy game."""

import hashlib
import logging
import math
import shutil
import wave
from functools import partial
from pathlib import Path
from typing import Any

import ale_py.roms
import cv2
import gymnasium
import numpy as np
import pytest
from ale_py import Action, ALEInterface, LoggerMode
from ale_py.roms import get_rom_path
from numpy.typing import NDArray

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import as_played, make
from simple_dqn.environment.atari import find_rom, game_of, known_games, locate
from simple_dqn.environment.interface import NO_ACTION, Environment, Frame, Watcher, draws_of
from simple_dqn.errors import UserError
from simple_dqn.random_streams import stream
from simple_dqn.snapshot import MALFORMED
from simple_dqn.types import Actions, Step, on_host
from tests.command_line import Capsys, Logs, Patch


def games(
    count: int = 1, *, seed: int = 0, training: bool = True, watcher: Watcher | None = None,
    device: Any = None, **settings: Any,
) -> Environment:  # fmt: skip
    config = EnvironmentConfig(**{"color_averaging": False, **settings})
    streams = [stream(seed, "environment", i) for i in range(count)]
    return make(config, streams, training, watcher, device)


def play(environment: Environment, steps: int, seed: int = 5) -> list[Step]:
    actions = np.random.default_rng(seed).integers(environment.actions, size=(steps, 64))
    return [environment.reset(), *(environment.step(row[: environment.games]) for row in actions)]


def assert_same(some: list[Step], others: list[Step]) -> None:
    for one, other in zip(some, others, strict=True):
        for field in Step.__slots__:
            a, b = on_host(getattr(one, field)), on_host(getattr(other, field))
            assert a.dtype == b.dtype
            assert np.array_equal(a, b), field


def plain_emulator(game: str, *, averaging: bool = False, sound: bool = False) -> ALEInterface:
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt("frame_skip", 1)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setBool("color_averaging", averaging)
    ale.setBool("sound_obs", sound)
    ale.loadROM(str(get_rom_path(game)))
    ale.reset_game()
    return ale


def plain_steps(
    actions: Actions, *, game: str, training: bool = True, seed: int = 0, **settings: Any
) -> list[Step]:
    """Return the steps of one game by `actions` [steps], frame by frame from the rules, of native size."""
    config = EnvironmentConfig(game=game, **{"color_averaging": False, **settings})
    ale = plain_emulator(game, averaging=config.color_averaging)
    draws = draws_of(stream(seed, "environment", 0))
    actions_of_game = ale.getMinimalActionSet() if config.minimal_action_set else ale.getLegalActionSet()
    codes = {NO_ACTION: Action.NOOP, **dict(enumerate(actions_of_game))}
    held, frames, played = Action.NOOP, [ale.getScreenGrayscale()], 0
    steps, lives, lives_end = list[Step](), 0, training and config.terminal_on_life_loss

    def over() -> bool:
        limit = config.max_game_frames or math.inf
        return bool(ale.game_over() or played >= limit)

    def hold(action: Action, count: int) -> int:
        nonlocal held, played
        reward = 0
        for left in reversed(range(count)):
            if not config.repeat_action_probability or draws.random() >= config.repeat_action_probability:
                held = action  # otherwise that of the frame before is repeated (Machado et al. 2018)
            reward, played = reward + ale.act(held), played + 1
            frames.append(ale.getScreenGrayscale())
            if left and over():  # a step that is cut short shows its last frame alone
                frames[:] = frames[-1:]
                break
        return reward

    def start_anew() -> None:
        nonlocal held, played
        ale.reset_game()
        held, frames[:], played = Action.NOOP, [ale.getScreenGrayscale()], 0

    for action in [0, *actions]:
        starts, reward, terminal = not steps or bool(steps[-1].resets[0]), 0, False
        if starts:
            if steps:  # `plain_emulator` has begun the first
                start_anew()
            for _ in range(draws.integers(max(config.random_starts, config.random_start_frames) + 1)):
                hold(Action.NOOP, 1 if config.random_start_frames else config.frame_skip)
                if over():
                    start_anew()
        else:
            reward = hold(codes[action], config.frame_skip)
            terminal = ale.game_over() or (lives_end and ale.lives() < lives)
        lives, resets = ale.lives(), not starts and over()
        maximum = config.frame_maximum and not config.color_averaging
        screen = np.max(frames[-2:] if maximum else frames[-1:], axis=0)
        flags = np.array([[terminal], [resets and not terminal], [resets], [starts]])
        taken, paid = np.array([0 if starts else action]), np.array([reward], np.float32)
        steps.append(Step(screen[np.newaxis], taken, paid, *flags))
    return steps


def gym(name: str, **settings: Any) -> dict[str, Any]:
    """Return the settings of a game that Gymnasium has by the id `name`."""
    return {"played_as": {"environment": "gym", "game": name}, **settings}


NATIVE: dict[str, Any] = {"screen_width": 160, "screen_height": 210}
breakout = partial(games, game="breakout", screen_width=32, screen_height=32)
# Game, steps, what happens in them, and settings; there are no no-ops unless they are asked for.
RULES: list[tuple[str, int, str, dict[str, Any]]] = [
    ("breakout", 400, "terminals resets", {}),  # a lost life ends an episode in training only
    ("breakout", 400, "terminals resets", {"training": False}),
    ("breakout", 400, "terminals resets", {"terminal_on_life_loss": False}),
    ("pong", 40, "truncations", {"max_game_frames": 42}),
    ("name_this_game", 80, "truncations", {"max_game_frames": 150}),  # ALE's own 134 before it do not count
    ("seaquest", 100, "", {"frame_skip": 1}),
    ("adventure", 40, "", {"screen_height": 250}),  # whose picture is taller
    ("breakout", 60, "truncations",  # a new game does not begin with the last action of the old one
     {"random_start_frames": 5, "max_game_frames": 20, "repeat_action_probability": 0.5}),
    ("pong", 12, "truncations", {"random_starts": 30, "max_game_frames": 8}),  # most no-ops outlast a game
    ("space_invaders", 9, "", {"random_starts": 300, "seed": 14}),  # a life lost while idle ends no episode
    ("ms_pacman", 130, "resets", gym("ALE/MsPacman-v5", random_starts=5, max_game_frames=440)),
    ("pong", 130, "truncations", gym("PongNoFrameskip-v4", random_starts=30, max_game_frames=440)),
    # No action of Backgammon is a no-op.
    ("backgammon", 130, "", gym("ALE/Backgammon-v5", random_starts=30, frame_skip=3)),
    ("space_invaders", 130, "rewards",
     gym("ALE/SpaceInvaders-v5", color_averaging=True, minimal_action_set=False, training=False)),
    ("space_invaders", 130, "rewards",
     gym("ALE/SpaceInvaders-v5", frame_maximum=False, frame_skip=3, random_start_frames=30)),
    ("space_invaders", 130, "rewards",
     gym("ALE/SpaceInvaders-v5", repeat_action_probability=0.5, processes=1)),
]  # fmt: skip


@pytest.mark.parametrize(("game", "steps", "events", "settings"), RULES, ids=str)
def test_steps_are_those_of_the_rules(game: str, steps: int, events: str, settings: dict[str, Any]) -> None:
    settings = {"random_starts": 0, **settings}
    played_as = {"game": game} | settings.pop("played_as", {})
    environment = games(**{**NATIVE, **settings, **played_as})
    played = play(environment, steps)
    # The step after the end of a game starts another, and ignores its action.
    actions = np.random.default_rng(5).integers(environment.actions, size=(steps, 64))[:, 0]
    assert_same(played, plain_steps(actions, game=game, **settings))
    assert all(any(getattr(step, event)[0] for step in played) for event in events.split())


def test_no_action_presses_no_button() -> None:
    environment = games(game="backgammon", **NATIVE, random_starts=0)
    steps = [environment.reset(), *(environment.step(np.array([NO_ACTION])) for _ in range(60))]
    assert_same(steps, plain_steps(np.full(60, NO_ACTION), game="backgammon", random_starts=0))


def test_a_life_lost_at_the_limit_is_terminal_and_not_truncated() -> None:
    settings: dict[str, Any] = {"frame_skip": 1, "random_starts": 0}
    steps = play(breakout(**settings, max_game_frames=0), 500)
    end = next(t for t, step in enumerate(steps) if step.terminals[0])
    at_limit = play(breakout(**settings, max_game_frames=end), end)[-1]
    assert (at_limit.terminals[0], at_limit.truncations[0], at_limit.resets[0]) == (True, False, True)


STEPS = 30
attack: Any = partial(games, game="demon_attack", random_starts=0, training=False)


def test_every_frame_of_the_first_game_is_heard_and_seen(tmp_path: Path, capfd: Capsys) -> None:
    path, folder, frames = tmp_path / "game.wav", tmp_path / "videos" / "game", list[Frame]()
    settings = {"record_sound_filename": str(path), "record_screen_path": str(folder)}
    recorded = attack(2, watcher=frames.append, **settings)
    steps = play(recorded, STEPS)
    recorded.close()
    assert_same(steps, play(attack(2), STEPS))
    assert capfd.readouterr() == ("", "")
    assert sorted(path.name for path in folder.iterdir()) == [f"{i:06}.png" for i in range(STEPS * 4)]
    ale = plain_emulator("demon_attack", sound=True)
    actions, expected = ale.getMinimalActionSet(), b""
    assert len(frames) == STEPS * 4
    for number, frame in enumerate(frames):
        picture = cv2.imread(str(folder / f"{number:06}.png"))
        assert picture is not None
        # ALE's own pictures are of the moment before the frame's action, and of the screen's true width.
        assert np.array_equal(picture[:, ::2, ::-1], ale.getScreenRGB())
        ale.act(actions[steps[1 + number // 4].actions[0]])
        expected += ale.getAudio().tobytes()
        assert np.array_equal(frame.picture, ale.getScreenRGB())
        assert (frame.sound.tobytes(), frame.lives) == (ale.getAudio().tobytes(), ale.lives())
    assert frames[0].picture is not frames[1].picture
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 1, 512 * 60)
        assert file.readframes(10**9) == expected
    assert len(set(expected)) > 1, "all is silent"


def test_a_window_is_opened_if_ale_can(monkeypatch: Patch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    play(attack(2, display_screen=True), STEPS)
    monkeypatch.setattr("ale_py.SDL_SUPPORT", False)
    with pytest.raises(UserError, match="without SDL"):
        attack(display_screen=True)


@pytest.mark.parametrize("settings", [
    {"game": "pong", "processes": 1}, {"environment": "catch"}, {"environment": "gym", "game": "ALE/Pong-v5"},
    {"environment": "gym", "game": "CartPole-v1", "observation": "vector", "processes": 1},
], ids=str)  # fmt: skip
def test_watching_changes_nothing(settings: dict[str, Any]) -> None:
    frames: list[Frame] = []
    watched = games(watcher=frames.append, **settings)
    assert_same(play(watched, 9), play(games(**settings), 9))
    assert frames
    assert all(frame.picture.shape[2] == 3 and frame.picture.dtype == np.uint8 for frame in frames)


def test_sound_ends_where_its_file_is_full(tmp_path: Path, monkeypatch: Patch, caplog: Logs) -> None:
    monkeypatch.setattr("simple_dqn.environment.atari.MOST_SOUND", 4096)
    environment = games(game="pong", random_starts=0, record_sound_filename=str(tmp_path / "x.wav"))
    play(environment, 10)
    environment.close()
    assert "sound ends here" in caplog.text
    with wave.open(str(tmp_path / "x.wav")) as file:
        assert file.getnframes() == 4096 + 512


seaquest = partial(games, 2, game="seaquest", random_starts=5, screen_width=32, screen_height=32)


# Settings, and the numbers of processes that a state comes from and goes to.
@pytest.mark.parametrize(("settings", "processes"), [
    ({"color_averaging": True}, (0, 0)), ({"repeat_action_probability": 0.9}, (2, 0)),  # matters for long
    ({"frame_skip": 1}, (0, 0)), ({"frame_maximum": False}, (0, 0)),
    ({"environment": "gym", "game": "ALE/Seaquest-v5"}, (0, 0)), ({"environment": "catch"}, (0, 2)),
    ({"game": "qbert"}, (0, 0)), ({"game": "tetris"}, (0, 0)),  # ALE does not save that a frame is unfinished
], ids=str)  # fmt: skip
def test_exact_in_the_middle_of_games(settings: dict[str, Any], processes: tuple[int, int]) -> None:
    settings = {"max_game_frames": 80 * settings.get("frame_skip", 4), **settings}
    undisturbed = seaquest(**settings)
    actions = np.random.default_rng(0).integers(undisturbed.actions, size=(100, 2))
    expected = [undisturbed.reset(), *(undisturbed.step(row) for row in actions)][1:]
    end = next(t for t, step in enumerate(expected) if step.resets.any()) + 1
    before, after = (partial(seaquest, processes=count, **settings) for count in processes)
    with before() as environment:
        environment.reset()
        for t in range(end + 2):
            # At the very start, a few steps in, and around the end of a game.
            state = environment.get_state() if t in {0, 1, 17, end - 1, end, end + 1} else None
            assert_same([environment.step(actions[t])], [expected[t]])  # which does not change the state
            if state:
                with after(seed=1) as resumed:
                    resumed.set_state(state)
                    assert repr(resumed.get_state()) == repr(state)
                    for later in range(t, t + 10):
                        assert_same([resumed.step(actions[later])], [expected[later]])


@pytest.mark.parametrize("settings", [{}, {"color_averaging": True}], ids=str)
def test_exact_between_any_two_frames(settings: dict[str, Any]) -> None:
    """The first frame after ALE restores a state of Yars' Revenge may show a missile elsewhere."""
    environment, resumed = (
        games(game="yars_revenge", frame_skip=1, random_starts=0, **NATIVE, **settings) for _ in range(2)
    )
    environment.reset()
    for action in np.random.default_rng(0).integers(environment.actions, size=(150, 1)):
        resumed.set_state(environment.get_state())
        assert_same([resumed.step(action)], [environment.step(action)])


@pytest.mark.parametrize(("part", "value", "error"), [
    ("calls", np.array([99], np.int8), ValueError), ("calls", np.array([-5], np.int8), ValueError),
    ("held", 18, ValueError), ("held", -1.5, ValueError), ("anchor", 7, AttributeError),
    ("anchor", np.zeros(0, np.uint8), SystemError), ("anchor", np.zeros(100, np.uint8), SystemError),
])  # fmt: skip
def test_an_edited_state_is_refused(part: str, value: Any, error: type[Exception]) -> None:
    environment = games(game="pong")
    environment.reset()
    state = environment.get_state()
    game = state["games"]["0"]
    (game if part == "held" else game["emulator"])[part] = value
    assert issubclass(error, MALFORMED)
    with pytest.raises(error):
        environment.set_state(state)


@pytest.fixture(autouse=True)
def _forget_roms_found_before() -> None:
    find_rom.cache_clear()


def shipped(name: str) -> Path:
    return Path(str(ale_py.roms.get_rom_path(name)))


def test_known_games_are_those_that_ale_plays() -> None:
    playable = [n for n in ale_py.roms.get_all_rom_ids() if ALEInterface.isSupportedROM(str(shipped(n)))]
    assert known_games() == sorted(playable)
    assert len(known_games()) == 104


@pytest.mark.parametrize("name", ["pong", "roms/pong.rom", "/nowhere/Pong.bin"])
def test_a_name_or_stem_is_a_shipped_rom(name: str, caplog: Logs, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pong").mkdir()  # a folder is no ROM file
    with caplog.at_level(logging.INFO):
        assert find_rom(name) == shipped("pong")
    assert str(shipped("pong")) in caplog.text
    assert locate(name)[1] == "pong"


def test_a_file_that_exists_is_used_and_known_by_its_content(tmp_path: Path, caplog: Logs) -> None:
    path = tmp_path / "My favourite.rom"
    shutil.copy(shipped("space_invaders"), path)
    with caplog.at_level(logging.INFO):
        assert find_rom(str(path)) == path
    assert str(path) in caplog.text
    assert locate(str(path))[1] == "space_invaders"
    environment = make(EnvironmentConfig(game=str(path)), [stream(0, "environment")], training=False)
    assert environment.name == "space_invaders"
    assert environment.reset().screens.any()


@pytest.mark.parametrize("content", [b"", bytes(4096), shipped("space_invaders").read_bytes()])
def test_a_file_that_is_no_rom_is_named_with_its_md5(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pong.bin"
    path.write_bytes(content)
    with pytest.raises(UserError, match=hashlib.md5(content).hexdigest()) as raised:
        find_rom(str(path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("run", "game"), [
    ("pong", "pong"), ("space_invaders", "space_invaders"), ("space_invaders_mylabel", "space_invaders"),
    ("space_invaders_my_label_2", "space_invaders"), ("pong_pong", "pong"), ("pongo", None),
    ("catch_small", "catch"), ("CartPole-v1_some_thing", None), ("mario_bros_x", "mario_bros"),
])  # fmt: skip
def test_a_runs_game_is_the_longest_that_is_known(run: str, game: str | None, monkeypatch: Patch) -> None:
    names = ["mario", "mario_bros", "mario_b", *known_games()]
    monkeypatch.setattr("simple_dqn.environment.atari.known_games", lambda: names)
    assert game_of(run) == game


def test_names_are_those_of_gymnasium() -> None:
    for minimal in (True, False):
        environment = games(environment="gym", game="ALE/Breakout-v5", minimal_action_set=minimal)
        env: Any = gymnasium.make("ALE/Breakout-v5", full_action_space=not minimal)
        assert environment.action_names == tuple(env.unwrapped.get_action_meanings())
        assert environment.name == "ALE_Breakout-v5"
        assert environment.rom_md5 == games(game="breakout").rom_md5
        assert environment.can_save


LEFT, STAY, RIGHT, BALL, PADDLE = 0, 1, 2, 255, 128
catch = partial(games, game="catch", environment="catch")


def seen(screen: NDArray[np.uint8], level: int) -> tuple[float, float]:
    """Return the middle (row, column) of the pixels of that level, as shares of height and width."""
    rows, columns = np.nonzero(screen == level)
    return (rows.mean() + 0.5) / screen.shape[0], (columns.mean() + 0.5) / screen.shape[1]


def perfect(screen: NDArray[np.uint8]) -> int:
    difference = seen(screen, BALL)[1] - seen(screen, PADDLE)[1]
    return STAY if abs(difference) < 0.1 else (RIGHT if difference > 0 else LEFT)


@pytest.mark.parametrize(("width", "height"), [(84, 84), (9, 8)])
def test_a_perfect_player_catches_every_ball(width: int, height: int) -> None:
    environment = catch(screen_width=width, screen_height=height)
    step = environment.reset()
    assert step.screens.shape == (1, height, width)
    total, columns = 0.0, set()
    for _ in range(50 * 8):
        if step.starts[0]:
            columns.add(seen(step.screens[0], BALL)[1])
        action = STAY if step.resets[0] else perfect(step.screens[0])
        step = environment.step(np.array([action]))
        total += step.rewards[0]
    assert total == 50
    assert len(columns) == 5


def test_a_game_is_seven_steps_and_one_reward() -> None:
    environment = catch()
    steps = [environment.reset(), *(environment.step(np.array([LEFT])) for _ in range(8 * 40))]
    for t, step in enumerate(steps):
        assert step.starts[0] == (t % 8 == 0)
        assert step.terminals[0] == step.resets[0] == (t % 8 == 7)
        assert not step.truncations[0]
        assert abs(step.rewards[0]) == (t % 8 == 7)
    rewards = [step.rewards[0] for step in steps if step.resets[0]]
    # In the corner on the left it catches a ball in five, more or less.
    assert 2 <= rewards.count(1) <= 16
    assert rewards.count(1) + rewards.count(-1) == 40


def test_what_only_ale_can_do_is_refused() -> None:
    flags = {"display_screen": True, "repeat_action_probability": 0.1, "terminal_on_life_loss": False}
    for name, value in (flags | {"record_screen_path": "x", "record_sound_filename": "x"}).items():
        with pytest.raises(UserError, match=f"--{name} works only with Atari games"):
            as_played(EnvironmentConfig("catch", environment="catch", **{name: value}))  # type: ignore
