"""Gymnasium's environments as games, on tiny ones made for the purpose."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import cv2
import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import FrameStackObservation
from numpy.typing import NDArray

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import Environment, as_played, make
from simple_dqn.environment.gymnasium import ATARI, find_spec, game_name
from simple_dqn.errors import UserError
from simple_dqn.random_streams import stream


class Counter(gymnasium.Env[NDArray[Any], int]):
    """Counts its steps and shows the count; the last action, 10 or 11, is its reward."""

    modes: tuple[str, ...] = ("rgb_array",)
    choices: gymnasium.Space[Any] = Discrete(2, start=10)

    def __init__(self, sees: str, length: int = 50, render_mode: str | None = None) -> None:
        shapes: dict[str, tuple[int, ...]] = {"grey": (20, 30), "colour": (20, 30, 3), "numbers": (2,)}
        self.observation_space = Box(0, 255, shapes[sees], np.float32 if sees == "numbers" else np.uint8)
        self.metadata = {"render_modes": self.modes, "render_fps": 1}
        self.action_space = self.choices
        self.length, self.render_mode = length, render_mode
        self.count, self.luck = 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.count, self.luck = 0, int(self.np_random.integers(50))
        return self._observe(), {}

    def step(self, action: int) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        self.count += 1
        return self._observe(), float(action), self.count == self.length, self.count == 60, {}

    def _observe(self) -> NDArray[Any]:
        space = self.observation_space
        assert isinstance(space, Box)
        observation = np.zeros(space.shape, space.dtype)
        observation[0] = self.count
        observation[1] = self.luck
        return observation

    def render(self) -> NDArray[np.uint8]:
        picture = np.zeros((20, 30, 3), np.uint8)
        picture[..., 1] = self.count
        return picture


class Patient(Counter):
    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "FIRE"]


class Restless(Counter):
    def get_action_meanings(self) -> list[str]:
        return ["LEFT", "NOOP"]


class Skipping(Counter):
    def __init__(self, sees: str, frame_skip: int = 3, render_mode: str | None = None) -> None:
        super().__init__(sees, render_mode=render_mode)


class Continuous(Counter):
    choices = Box(0, 1)


class Invisible(Counter):
    modes = ("human",)


def register(name: str, kind: type[Counter], **arguments: Any) -> None:
    def create(**given: Any) -> Counter:
        return kind(**given)

    gymnasium.register(f"test/{name}-v0", create, kwargs=arguments)


STACKED = FrameStackObservation.wrapper_spec(stack_size=4)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    before = dict(gymnasium.registry)
    for seen in ("grey", "colour", "numbers"):
        register(f"Counter{seen.title()}", Counter, sees=seen)
    register("Patient", Patient, sees="grey")
    register("Restless", Restless, sees="grey")
    register("Skipping", Skipping, sees="grey")
    register("Continuous", Continuous, sees="grey")
    register("Invisible", Invisible, sees="numbers")
    register("Endless", Counter, sees="grey", length=0)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def games(name: str, count: int = 1, *, seed: int = 0, **settings: Any) -> Environment:
    settings = {"random_starts": 0, "frame_skip": 1, "screen_width": 30, "screen_height": 20, **settings}
    config = EnvironmentConfig(game=name, environment="gym", **settings)
    return make(config, [stream(seed, "environment", i) for i in range(count)], training=True)


def act(environment: Environment, action: int) -> Any:
    return environment.step(np.full(environment.games, action))


def test_a_grey_observation_is_the_screen() -> None:
    environment = games("test/CounterGrey-v0")
    assert (environment.name, environment.actions) == ("test_CounterGrey-v0", 2)
    assert environment.reset().screens[0, 0].tolist() == [0] * 30
    for t in range(1, 10):
        assert act(environment, 0).screens[0, 0].tolist() == [t] * 30


class Coloured(Counter):
    def _observe(self) -> NDArray[Any]:
        return np.random.default_rng(self.count).integers(256, size=(20, 30, 3), dtype=np.uint8)


def test_a_colour_observation_becomes_grey_and_is_resized() -> None:
    register("Coloured", Coloured, sees="colour")
    environment = games("test/Coloured-v0", screen_width=13, screen_height=11)
    environment.reset()
    for t in range(1, 9):
        frame = np.random.default_rng(t).integers(256, size=(20, 30, 3), dtype=np.uint8)
        grey = (frame @ np.array([0.299, 0.587, 0.114])).round().astype(np.uint8)
        expected = cv2.resize(grey, (13, 11), interpolation=cv2.INTER_AREA)
        assert np.abs(act(environment, 0).screens[0].astype(int) - expected).max() <= 1


def spec(game: str) -> str:
    return find_spec(EnvironmentConfig(game=game)).id


@pytest.mark.parametrize("game", ["ALE/Pong-v5", "ale_py_ALE_Pong-v5"])
def test_ids_are_found_by_the_names_of_their_snapshots(game: str) -> None:
    assert spec(game_name(game)) == spec(game) == "ALE/Pong-v5"


def test_numbers_are_rendered() -> None:
    environment = games("test/CounterNumbers-v0")
    environment.reset()
    for t in range(1, 10):
        assert np.all(act(environment, 0).screens == round(0.587 * t))


def test_an_action_is_held_and_its_rewards_add_up() -> None:
    environment = games("test/CounterGrey-v0", frame_skip=4)
    environment.reset()
    steps = [act(environment, action) for action in (0, 1, 1)]
    assert [step.rewards[0] for step in steps] == [40, 44, 44]  # the first action's number is 10
    assert [step.screens[0, 0, 0] for step in steps] == [4, 8, 12]


def test_terminated_is_terminal_and_cuts_the_hold_short() -> None:
    environment = games("test/CounterGrey-v0", frame_skip=4)
    environment.reset()
    steps = [act(environment, 0) for _ in range(14)]
    assert [t for t, step in enumerate(steps) if step.terminals[0]] == [12]
    assert [t for t, step in enumerate(steps) if step.resets[0]] == [12]
    assert not any(step.truncations[0] for step in steps)
    assert (steps[12].rewards[0], steps[12].screens[0, 0, 0]) == (20, 50)
    assert (steps[13].starts[0], steps[13].screens[0, 0, 0]) == (True, 0)


@pytest.mark.parametrize(("limit", "end"), [(0, 60), (10, 10), (100, 60)])
def test_truncated_or_at_the_limit_is_a_truncation(limit: int, end: int) -> None:
    environment = games("test/Endless-v0", max_game_frames=limit)
    environment.reset()
    steps = [act(environment, 0) for _ in range(61)]
    assert next(t for t, step in enumerate(steps, 1) if step.resets[0]) == end
    assert next(t for t, step in enumerate(steps, 1) if step.truncations[0]) == end
    assert not any(step.terminals[0] for step in steps)


def test_terminal_at_the_limit_is_no_truncation() -> None:
    environment = games("test/CounterGrey-v0", max_game_frames=50)
    environment.reset()
    steps = [act(environment, 0) for _ in range(50)]
    assert (steps[49].terminals[0], steps[49].truncations[0], steps[49].resets[0]) == (True, False, True)


@pytest.mark.parametrize(("settings", "counts"), [
    ({"random_starts": 3}, {0, 2, 4, 6}),
    ({"random_starts": 0, "random_start_frames": 3}, {0, 1, 2, 3}),
])  # fmt: skip
def test_games_start_with_no_ops_where_action_0_is_one(settings: dict[str, Any], counts: set[int]) -> None:
    environment = games("test/Patient-v0", frame_skip=2, **settings)
    assert {int(environment.reset().screens[0, 0, 0]) for _ in range(100)} == counts


@pytest.mark.parametrize("name", ["test/Restless-v0", "test/CounterGrey-v0"])
@pytest.mark.parametrize("settings", [{"random_starts": 3}, {"random_start_frames": 3}])
def test_elsewhere_games_start_without(name: str, settings: dict[str, Any]) -> None:
    environment = games(name, **settings)
    assert {int(environment.reset().screens[0, 0, 0]) for _ in range(50)} == {0}


@pytest.mark.parametrize("name", ["test/Restless-v0", "CartPole-v1"])
def test_settings_are_those_that_are_played(name: str) -> None:
    config = EnvironmentConfig(game=name, environment="gym", random_starts=30, random_start_frames=9)
    assert as_played(config) == replace(config, random_starts=0, random_start_frames=0)
    for same in (
        EnvironmentConfig(game="test/Patient-v0", environment="gym", random_starts=7),
        EnvironmentConfig(game="ALE/Pong-v5", environment="gym", random_starts=7),
        EnvironmentConfig(game="pong", random_starts=7),
        EnvironmentConfig(environment="catch", random_starts=7),
    ):
        assert as_played(same) == same


def test_an_atari_environment_with_a_limit_of_its_own_keeps_it() -> None:
    gymnasium.register("test/ShortPong-v0", ATARI, kwargs={"game": "pong"}, max_episode_steps=9)
    environment = games("test/ShortPong-v0")
    environment.reset()
    assert [bool(act(environment, 0).truncations[0]) for _ in range(9)] == [False] * 8 + [True]


def test_seeds_and_games_side_by_side() -> None:
    def luck(seed: int) -> list[list[int]]:
        environment = games("test/CounterGrey-v0", 2, seed=seed)
        return [environment.reset().screens[:, 1, 0].tolist() for _ in range(10)]

    assert luck(0) == luck(0)
    assert luck(0) != luck(1)
    assert any(one != other for one, other in luck(0))


def test_state_is_the_random_stream_and_games_start_anew() -> None:
    environment, resumed = (games("test/CounterGrey-v0", 2, seed=seed) for seed in (0, 5))
    assert not environment.can_save
    environment.reset()
    act(environment, 0)
    resumed.reset()
    resumed.set_state(environment.get_state())
    first, expected = act(resumed, 0), environment.reset()
    assert first.starts.all()
    assert np.array_equal(first.screens, expected.screens)


def test_an_id_without_version_is_the_latest() -> None:
    assert spec("CartPole") == "CartPole-v1"


def test_an_unknown_id_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r"no environment 'CartPol-v1': did you mean CartPole-v1"):
        games("CartPol-v1")
    with pytest.raises(UserError, match="give --import"):
        games("???")


def test_actions_that_are_not_discrete() -> None:
    with pytest.raises(UserError, match="no discrete actions"):
        games("test/Continuous-v0")


def test_nothing_to_see() -> None:
    with pytest.raises(UserError, match="no pixels"):
        games("test/Invisible-v0")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(UserError, match=r"not installed.*pip install") as raised:
        games("CartPole-v1")
    assert "\n" not in str(raised.value)
