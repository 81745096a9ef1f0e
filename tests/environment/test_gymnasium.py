"""Any of Gymnasium's environments is played as it is, or refused in one line."""

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import ale_py  # noqa: F401 - its environments
import cv2
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TransformAction

import simple_dqn
from simple_dqn.config import Config, EnvironmentConfig
from simple_dqn.environment import as_played, is_atari, make
from simple_dqn.environment.gymnasium import find_spec, plain
from simple_dqn.environment.interface import Environment, Frame
from simple_dqn.errors import Interrupt, UserError
from simple_dqn.random_streams import stream
from simple_dqn.run import make_network, make_run
from simple_dqn.verbs.settings import resolve, settle
from tests.command_line import CATCH, Logs, Patch

ROWS, COLUMNS = 20, 30
LEVELS = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) / (ROWS * COLUMNS - 1)  # 0 to 1
BLACK = np.zeros((ROWS, COLUMNS), np.uint8)
RUN: dict[str, Any] = {**CATCH, "game": "test/Scripted-v0", "environment": "gym", "frame_skip": 1}


class ScriptedEnv(gymnasium.Env[Any, Any]):
    """An environment whose spaces, observations and rewards a test sets; only one instance may be open.

    Unless a test sets them, it shows the number of its steps, and its reward is the action, 10 to 12.
    """

    open_now = 0
    modes: Any = ("rgb_array",)
    space: Any = Box(0, 255, (ROWS, COLUMNS), np.uint8)
    actions: gymnasium.Space[Any] = Discrete(3, start=10)
    observe: Callable[[int], Any] = staticmethod(lambda t: np.full((ROWS, COLUMNS), t, np.uint8))
    picture: Callable[[int], Any] = staticmethod(lambda t: np.full((ROWS, COLUMNS, 3), t, np.uint8))
    reward: Any = None
    ends: tuple[int, int] = (0, 0)  # after how many steps a game terminates, and is truncated; 0: never
    fps: Any = 50

    def __init__(self, render_mode: str | None = None) -> None:
        kind = type(self)
        assert kind.open_now == 0, "another instance is open"
        kind.open_now = 1
        self.observation_space, self.action_space, self.render_mode = self.space, self.actions, render_mode
        self.metadata = {"render_modes": self.modes, "render_fps": self.fps}
        self.count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return self.observe(0), {}

    def step(self, action: int) -> Any:
        assert self.action_space.contains(np.int64(action))
        self.count += 1
        reward = action if self.reward is None else self.reward
        return self.observe(self.count), reward, *(self.count == end for end in self.ends), {}

    def render(self) -> Any:
        return self.picture(self.count)

    def close(self) -> None:
        type(self).open_now = 0


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    before = dict(gymnasium.registry)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def register(**members: Any) -> type[ScriptedEnv]:
    made: Any = {key: staticmethod(value) if callable(value) else value for key, value in members.items()}
    kind: Any = type("ScriptedEnv", (ScriptedEnv,), {"open_now": 0, **made})
    kind.metadata = {"render_modes": ["rgb_array"]}
    gymnasium.registry.pop("test/Scripted-v0", None)
    gymnasium.register("test/Scripted-v0", kind, max_episode_steps=made.pop("max_episode_steps", None))
    return kind  # type: ignore[no-any-return]


def config(name: str = "test/Scripted-v0", **settings: Any) -> EnvironmentConfig:
    settings = {"frame_skip": 1, "screen_width": COLUMNS, "screen_height": ROWS, **settings}
    return EnvironmentConfig(game=name, environment="gym", **settings)


def game(
    name: str = "test/Scripted-v0", watcher: Any = None, *, count: int = 1, seed: int = 0, **settings: Any
) -> Environment:
    streams = [stream(seed, "environment", place) for place in range(count)]
    return make(config(name, **settings), streams, training=True, watcher=watcher)


def begun(**settings: Any) -> Environment:
    environment = game(**settings)
    environment.reset()
    return environment


def act(environment: Environment, action: int = 0) -> Any:
    return environment.step(np.full(environment.games, action))


def refused(work: Callable[[], object]) -> str:
    with pytest.raises(UserError) as raised:
        work()
    assert "\n" not in str(raised.value)
    return str(raised.value)


def colored(levels: Any) -> Any:
    return np.repeat(levels[:, :, np.newaxis], 3, axis=2)


def images(low: Any, high: Any, dtype: Any, of: Callable[[Any], Any] = lambda levels: levels) -> Any:
    values = low + LEVELS * (float(high) - float(low))
    image = of(values if np.dtype(dtype).kind == "f" else np.rint(values)).astype(dtype)
    return Box(low, high, image.shape, dtype), image


# Each is seen as LEVELS, from black to white, within half of one of the steps of its numbers.
SEEN = {
    "uint8": (images(0, 255, np.uint8), 255),
    "color": (images(0, 255, np.uint8, colored), 255),
    "one channel last": (images(0, 255, np.uint8, lambda levels: levels[:, :, np.newaxis]), 255),
    "one channel first": (images(0, 255, np.uint8, lambda levels: levels[np.newaxis]), 255),
    "channels first": (images(0, 1, np.float64, lambda levels: colored(levels).transpose(2, 0, 1)), 255),
    "floats in [-1, 1]": (images(-1, 1, np.float32), 255),
    "levels from 10 to 20": (images(10, 20, np.uint8, colored), 10),
    "16 bits": (images(0, 65535, np.uint16), 255),
    "signed": (images(-128, 127, np.int8), 255),
    "black and white": (images(0, 1, np.bool_), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", SEEN)
def test_images_are_seen_from_black_to_white(name: str) -> None:
    (space, image), levels = SEEN[name]
    register(space=space, observe=lambda _: image.copy(), modes=())
    environment = game()
    for screen in (environment.reset().screens[0], act(environment).screens[0]):
        assert (screen.min(), screen.max()) == (0, 255)
        assert np.abs(screen / 255 - LEVELS).max() <= 0.5 / levels + 1 / 255


@pytest.mark.parametrize("rendered", [True, False])
def test_colors_are_weighted_and_screens_are_resized(rendered: bool) -> None:
    frame = np.random.default_rng(0).integers(256, size=(ROWS, COLUMNS, 3), dtype=np.uint8)
    space = Discrete(3) if rendered else Box(0, 255, frame.shape, np.uint8)
    register(space=space, observe=lambda _: 0 if rendered else frame, picture=lambda _: frame)
    gray = (frame @ np.array([0.299, 0.587, 0.114])).round().astype(np.uint8)
    expected = cv2.resize(gray, (13, 11), interpolation=cv2.INTER_AREA)
    screens = game(screen_width=13, screen_height=11).reset().screens
    assert np.abs(screens[0].astype(int) - expected).max() <= 1


RENDERED = {
    "a vector": Box(0, 1, (4,), np.float32),
    "a vector in a matrix": Box(0, 1, (1, 4), np.float32),
    "a number": Box(0, 1, (), np.float32),
    "Discrete": Discrete(16),
    "MultiBinary": spaces.MultiBinary(5),
    "Dict": spaces.Dict({"image": Box(0, 255, (7, 7, 3), np.uint8), "mission": spaces.Text(9)}),
    "Tuple": spaces.Tuple([Discrete(3), Discrete(4)]),
    "a stack of images": Box(0, 255, (4, 9, 9), np.uint8),
    "one value": Box(7, 7, (9, 9), np.uint8),
    "an image without bounds": Box(0, np.inf, (40, 50, 3), np.float32),
}


@pytest.mark.parametrize("name", RENDERED)
def test_an_observation_that_is_no_image_is_rendered_with_a_log_line(name: str, caplog: Logs) -> None:
    caplog.set_level(logging.INFO)
    register(space=RENDERED[name], observe=lambda _: RENDERED[name].sample())
    environment = game()
    assert np.all(environment.reset().screens == 0)
    assert np.all(act(environment).screens == 1)
    environment.close()
    as_played(config())
    (said,) = caplog.messages
    assert "render()" in said


BINARY: Any = np.bool_
VECTOR, GRID = Box(-np.inf, np.inf, (5,), np.float64), Box(0, 1, (10, 10, 4), BINARY)
SCREENS, NUMBERS_ASKED = ("pixels", "small", 4, (64, 64)), {"observation": "vector"}
BY_HAND: dict[str, Any] = {"history_length": 3, "frame_skip": 2, "network": "mlp"}
# Space, given flags, and the resulting observation, network, history_length and shape of an observation.
OBSERVED: dict[str, tuple[Any, dict[str, Any], tuple[Any, ...]]] = {
    "a vector": (VECTOR, {}, ("vector", "mlp", 1, (5,))),
    "bytes": (Box(0, 255, (128,), np.uint8), {}, ("vector", "mlp", 1, (128,))),
    "settings by hand": (VECTOR, BY_HAND, ("vector", "mlp", 3, (5,))),
    "a preset by hand": (VECTOR, {"preset": "strong", "network": "auto"}, ("vector", "mlp", 1, (5,))),
    "a tiny image": (Box(0, 1, (2, 2, 5), np.float32), {}, ("vector", "mlp", 1, (2, 2, 5))),
    "channels last": (GRID, {}, ("vector", "minatar", 1, (4, 10, 10))),
    "as many channels as rows": (Box(0, 1, (9,) * 3, BINARY), {}, ("vector", "minatar", 1, (9,) * 3)),
    "channels first": (Box(-9, 9, (5, 8, 7), np.float32), {}, ("vector", "minatar", 1, (5, 8, 7))),
    "an image as numbers": (Box(0, 1, (9, 9)), NUMBERS_ASKED, ("vector", "minatar", 1, (1, 9, 9))),
    "a vector, rendered": (VECTOR, {"observation": "pixels"}, SCREENS),
    "a number": (Discrete(16), {}, SCREENS),
    "an image": (Box(0, 255, (84, 84), np.uint8), {}, SCREENS),
    "a large stack": (Box(0, 1, (40, 40, 5), np.float32), {}, SCREENS),
    "a stack of images": (Box(0, 255, (4, 9, 9), np.uint8), {}, SCREENS),
}  # fmt: skip


@pytest.mark.parametrize("name", OBSERVED)
def test_the_space_chooses_observation_network_and_settings(name: str, caplog: Logs) -> None:
    space, given, expected = OBSERVED[name]
    space.seed(0)
    seen = [space.sample() for _ in range(4)]
    other = np.int64 if name == "bytes" else space.dtype  # of all observations but the first
    register(space=space, observe=lambda t: seen[t].astype(other) if t else seen[t], ends=(3, 0))
    caplog.set_level(logging.INFO)
    config = settle(resolve({"game": "test/Scripted-v0", "environment": "gym", **given}), log=False)
    played, network = config.environment, config.network
    with make(replace(played, processes=0), [stream(0, "environment")], training=True) as games:
        start, step = games.reset(), act(games)
        shape = games.screen_shape
    assert (played.observation, network.network, config.memory.history_length, shape) == expected
    assert played.frame_skip == given.get("frame_skip", 1)
    assert (network.min_reward, network.max_reward) == (-np.inf, np.inf)
    numbers = played.observation == "vector"
    assert any(f"--network {network.network}" in line for line in caplog.messages) == numbers
    if not numbers:
        assert start.screens.dtype == np.uint8
        return
    wanted = np.stack([seen[0], seen[played.frame_skip]]).astype(np.float32)
    wanted /= 255 if name == "bytes" else 1
    if "last" in name or "as many" in name:
        wanted = wanted.transpose(0, 3, 1, 2)
    screens = np.concatenate([start.screens, step.screens])
    assert screens.dtype == np.float32
    assert np.array_equal(screens, wanted.reshape(2, *shape))
    state = np.zeros((2, config.memory.history_length, *shape), np.float32)
    assert make_network(config, games).predict(state).shape == (2, 3)


def at_step_2(good: Any, bad: Any) -> Callable[[int], Any]:
    return lambda t: bad if t == 2 else good


def failing(error: Any = None) -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise SystemExit(error) if error else ValueError("out of order")

    return fail


PLACE = rf"\({re.escape(__file__)}, line \d+\)"
HALF = np.full((ROWS, COLUMNS), 0.5, np.float32)
FLOATS: Any = {"space": Box(0, 1, (ROWS, COLUMNS), np.float32)}
ZEROS = np.zeros(5)
NUMBERS: Any = {"space": VECTOR, "observation": "vector"}
BYTES = Box(0, 255, (5,), np.uint8)
DRAWN: Any = {"space": Discrete(4)}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a stack": ({"space": Box(0, 255, (4, 84, 84), np.uint8), "modes": ()}, r"\(4, 84, 84\).*\(H, W, 3\)"),
    "nothing to see": ({"space": Box(0, 1, (4,)), "modes": ("human",)}, "no image.*rgb_array; --obs.*vector"),
    "no modes": ({"space": Discrete(4), "modes": None}, r"Discrete\(4\), no image.*rgb_array; an"),
    "no space": ({"space": None, "modes": ()}, "observes None|no image"),
    "actions": ({"actions": Box(0, 1, (2,))}, r"no discrete actions but Box"),
    "too many actions": ({"actions": Discrete(10**9)}, "has 1,000,000,000 actions, more than 10,000, and"),
    "no picture": ({**DRAWN, "picture": lambda _: None}, r"render\(\) returned a NoneType"),
    **{f"a picture, {dtype} {shape}": ({**DRAWN, "picture": lambda _, what=(shape, dtype): np.zeros(*what)},
                                       re.escape(f"render() returned {dtype} {shape}"))
       for shape, dtype in (((41, 51, 3), "float32"), ((41, 51, 4), "uint8"))},
    "numbers that are none": ({**NUMBERS, "observe": at_step_2(ZEROS, ZEROS * np.nan)}, "step 2 of .*nan"),
    "large numbers": ({**NUMBERS, "observe": at_step_2(ZEROS, ZEROS + 1e200)}, "beyond float32 .*: scale"),
    "halves": ({**NUMBERS, "observe": at_step_2(ZEROS, np.full(5, np.inf, np.float16))}, "step 2 of .*inf"),
    "other numbers": ({**NUMBERS, "observe": at_step_2(ZEROS, ZEROS[:3])}, r"step 2 of .*\(3,\).*\(5,\)"),
    "scaled bytes": ({**NUMBERS, "space": BYTES, "observe": lambda _: ZEROS}, "of whole numbers.*uint8"),
    "no numbers": ({**NUMBERS, "space": Discrete(3)}, r"observes Discrete\(3\)"),
    "another type": ({"observe": at_step_2(BLACK, HALF)}, r"step 2 of .* float32 .* not in Box\("),
    "another shape": ({"observe": at_step_2(BLACK, BLACK[:9])}, r"step 2 of .*\(9, 30\)"),
    "no array": ({"observe": at_step_2(BLACK, BLACK.tolist())}, "step 2 of .* a list"),
    "too much": ({**FLOATS, "observe": at_step_2(HALF, HALF * 4)}, "step 2 of .* to 2"),
    "NaN": ({**FLOATS, "observe": at_step_2(HALF, HALF * np.nan)}, "step 2 of .*nan"),
    "a picture that changes": ({**DRAWN, "picture": at_step_2(colored(BLACK), BLACK)}, "2 of .*: render"),
    **{f"a reward of {reward!r}"[:30]: ({"reward": reward}, "step 1 of .*(the reward is|failed).*")
       for reward in (np.nan, -np.inf, 1e300, 10**400, np.array([1.0, 2.0]), [1.0], 1 + 2j)},
    "a sum that no float32 holds": ({"reward": 3e38}, "step 2 of .*the reward is"),
    "a reset of one": ({"reset": lambda **_: BLACK}, r"step 0 of .*reset\(\) gave .*: return \(o"),
    "a step of four": ({"step": lambda _: (BLACK, 0.0, False, {})}, r"step 1 of .*step\(\) failed: ValueE"),
    "an end that is none": ({"step": lambda _: (BLACK, 0.0, False, {}, {})}, r"step 1 of .*step\(\) failed"),
    "a limit in words": ({"max_episode_steps": "9"}, "the environment failed: TypeError"),
    "constructor exits": ({"__init__": failing(3)}, rf"cannot be opened: .*: SystemExit: 3 {PLACE}"),
    "step fails": ({"step": failing()}, rf"step 1 .*: step\(\) failed: ValueError: out of order {PLACE}"),
    "render exits": ({"space": Discrete(2), "picture": failing(3)}, "SystemExit"),
    "names fail": ({"get_action_meanings": failing()}, rf"out of order {PLACE}"),
    "names are None": ({"get_action_meanings": lambda: None}, "step 0 of .*failed: TypeError"),
    "close fails": ({"close": failing()}, rf"close\(\) failed: ValueError: out of order {PLACE}"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_whatever_cannot_be_played_is_one_line_and_closed(name: str) -> None:
    members, words = REFUSED[name]
    observation = members.get("observation", "pixels")
    kind = register(**{key: one for key, one in members.items() if key != "observation"})

    def play() -> None:
        skip = 2 if "sum" in name else 1
        with game(frame_skip=skip, observation=observation) as environment:
            environment.reset()
            act(environment)
            act(environment)

    assert re.search(f"test/Scripted-v0.*({words})", refused(play))
    assert kind.open_now == 0 or name == "close fails"


def test_an_environment_that_fails_while_its_space_is_read_is_refused() -> None:
    closed: list[str] = []
    for members, told in (
        ({"close": failing()}, r"close\(\) failed: .*out of order"),
        (
            {"__init__": lambda **_: None, "close": lambda: closed.append("close")},
            "observation_space failed: AttributeError",
        ),
    ):
        register(**members)
        assert re.search(told, refused(lambda: resolve({"game": "test/Scripted-v0", "environment": "gym"})))
    assert closed == ["close"]


@pytest.mark.parametrize("reward", [2, 2.0, np.float32(2), np.int8(2), np.array(2.0)])
def test_an_action_is_held_and_its_rewards_add_up(reward: Any) -> None:
    register(reward=reward)
    assert act(begun(frame_skip=3)).rewards[0] == 6
    register()
    environment = begun(frame_skip=4)
    steps = [act(environment, action) for action in (0, 1, 1)]
    assert [step.rewards[0] for step in steps] == [40, 44, 44]  # the first action's number is 10
    assert [step.screens[0, 0, 0] for step in steps] == [4, 8, 12]


@pytest.mark.parametrize(("ends", "settings", "frames", "is_terminal"), [
    ((0, 60), {}, 60, False), ((0, 60), {"max_game_frames": 10, "registered": -1}, 10, False),
    ((0, 60), {"max_game_frames": 100, "registered": 9}, 9, False),
    ((50, 0), {"max_game_frames": 50}, 50, True), ((50, 60), {"frame_skip": 4}, 50, True),
])  # fmt: skip
def test_the_end_of_a_game_is_terminal_and_a_limit_truncates(
    ends: tuple[int, int], settings: dict[str, int], frames: int, is_terminal: bool
) -> None:
    register(ends=ends)
    settings = dict(settings)
    gymnasium.registry["test/Scripted-v0"].max_episode_steps = settings.pop("registered", None)
    environment, skip = begun(**settings), settings.get("frame_skip", 1)
    steps = [act(environment) for _ in range(0, frames, skip)]  # the last action may be held for less
    assert [bool(step.resets[0]) for step in steps] == [False] * (len(steps) - 1) + [True]
    assert (steps[-1].terminals[0], steps[-1].truncations[0]) == (is_terminal, not is_terminal)
    assert not any(step.terminals[0] or step.truncations[0] for step in steps[:-1])
    assert sum(step.rewards[0] for step in steps) == 10 * frames
    following = act(environment)
    assert [step.screens[0, 0, 0] for step in (steps[-1], following)] == [frames, 0]
    assert following.starts[0]


def test_only_atari_games_start_with_no_ops() -> None:
    register()
    others, atari = [("gym", "test/Scripted-v0"), ("catch",) * 2], [("ale", "pong"), ("gym", "ALE/Pong-v5")]
    for kind, name in (*others, *atari):
        asked = EnvironmentConfig(game=name, environment=kind, random_starts=7, random_start_frames=7)
        played = as_played(asked)
        most = 7 * ((kind, name) in atari)
        assert (played.random_starts, played.random_start_frames) == (most, most)
    simple_dqn.make("CartPole-v1", random_start_frames=5).close()  # an exclusion of ALE's games alone


def test_seeds_games_side_by_side_and_states_without_games() -> None:
    def luck(seed: int) -> list[list[int]]:
        with game("test/Luck-v0", count=2, seed=seed) as environment:
            return [environment.reset().screens[:, 0, 0].tolist() for _ in range(10)]

    class Luck(ScriptedEnv):
        def __init__(self, render_mode: str | None = None) -> None:
            type(self).open_now = 0
            super().__init__()
            self.observe = lambda _: np.full((ROWS, COLUMNS), self.np_random.integers(256), np.uint8)

    gymnasium.register("test/Luck-v0", lambda **given: Luck(**given))
    assert luck(0) == luck(0) != luck(1)
    assert any(one != other for one, other in luck(0))
    environment, resumed = (game("test/Luck-v0", count=2, seed=seed) for seed in (0, 5))
    assert not environment.can_save
    environment.reset()
    act(environment)
    resumed.reset()
    resumed.set_state(environment.get_state())
    first, expected = act(resumed), environment.reset()
    assert first.starts.all()
    assert np.array_equal(first.screens, expected.screens)


@pytest.mark.parametrize("name", ["get_state", "set_state", "np_random"])
def test_a_game_that_cannot_be_saved_is_refused_before_a_training(name: str) -> None:
    wrong = {"get_state": lambda: (1, 2), "set_state": failing(), "np_random": np.random.RandomState(0)}
    register(**{"get_state": dict, "set_state": lambda state: None, name: wrong[name]})
    make_run(settle(Config.from_flags(RUN), log=False), Interrupt()).close()  # writes no checkpoint
    saving = Config.from_flags({**RUN, "save_weights_prefix": "x"})
    assert re.search(rf"step 0 of a game: {name}\S* failed", refused(lambda: make_run(saving, Interrupt())))


def test_games_close_once() -> None:
    closed: list[object] = []
    register(close=lambda: closed.append(1))
    environment = begun()
    environment.close()
    environment.close()
    assert closed == [1]


@pytest.mark.parametrize("value", [
    (1, 2), {"at": (1, 2)}, [(1, 2)], {1: 2}, [{1: 2}], np.float32(0.1), np.uint8(255), [np.zeros(2)], {1, 2},
    np.array(["a"]), 1j, object(), np.ma.array([1]), {"$array": 1}, {"a/b": 1}, {"\udc80": 1}, {"x" * 101: 1},
])  # fmt: skip
def test_a_state_that_would_come_back_as_another_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"it returned .*: keep to Python's numbers"):
        plain(value)


def test_a_state_comes_back_as_it_was() -> None:
    state: dict[str, Any] = {
        "a": [1, 2.5, "x", None, [True], {"b": -0.0}],
        "c": {"d": np.zeros(2, np.float32)},
    }
    found = plain(state)
    assert repr(found) == repr(state)
    assert found["c"]["d"] is not state["c"]["d"]
    for value in (np.int64(3), np.float64(0.1), np.bool_(True)):
        assert (plain(value), type(plain(value))) == (value, type(value.item()))


def test_ids_are_found_without_version_and_by_the_names_of_their_snapshots() -> None:
    def spec(game: str) -> str:
        return find_spec(EnvironmentConfig(game=game)).id

    for name in ("ALE/Pong-v5", "ALE_Pong-v5", "ale_py_ALE_Pong-v5"):
        assert spec(name) == "ALE/Pong-v5"
    assert spec("CartPole") == "CartPole-v1"
    for other in ({"kwargs": {"game": "pong"}}, {"entry_point": "a:A"}):  # as a file of the user's may
        gymnasium.registry["ALE/Pong-v5"] = replace(find_spec(config("ALE/Pong-v5")), **other)
        assert [is_atari(config(f"ALE/{name}-v5")) for name in ("Pong", "Boxing")] == [False, True]


def test_a_missing_library_is_named(monkeypatch: Patch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    assert re.search("not installed.*pip install", refused(lambda: game("CartPole-v1")))


@pytest.mark.parametrize("rom", ["nope", "combat", 5, None])
def test_a_game_that_ale_py_cannot_open_is_refused(rom: Any) -> None:
    """Loading it would end the process."""
    gymnasium.register("test/Atari-v0", "ale_py.env:AtariEnv", kwargs={"game": rom} if rom else {})
    assert "test/Atari-v0 cannot be opened" in refused(lambda: game("test/Atari-v0"))


def test_one_instance_is_open_at_a_time_and_a_start_that_fails_closes_it() -> None:
    for space in (ScriptedEnv.space, Discrete(4)):
        kind = register(space=space, observe=lambda _: BLACK)
        as_played(config())
        assert kind.open_now == 0
        environment = begun()
        assert kind.open_now == 1
        environment.close()
        assert kind.open_now == 0
        assert "another instance is open" in refused(lambda: game(count=2))
        assert kind.open_now == 0
    with closing(make_run(Config.from_flags(RUN), Interrupt())) as run:
        run.begin()  # a training without tests
        assert (kind.open_now, run.agent.total_train_steps) == (1, 40)
    assert kind.open_now == 0


class Listed(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.action_space = Discrete(2, start=2)


class Named(Listed):
    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "LEFT"]


SWAPPED: Any = partial(TransformAction, func=lambda action: (action + 2) % 6, action_space=None)
PONG = ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")


def test_actions_are_those_of_the_whole_wrapped_environment() -> None:
    for wrapper, names, taken in (
        (lambda env: env, PONG, range(6)), (Listed, ("0", "1"), [2, 3]), (Named, ("NOOP", "LEFT"), [2, 3]),
        (SWAPPED, tuple("012345"), [2, 3, 4, 5, 0, 1]),
    ):  # fmt: skip
        # An action, from 0, is the reward.
        kind = register(actions=Discrete(6), get_action_meanings=lambda: PONG)
        gymnasium.registry.pop("test/Wrapped-v0", None)
        gymnasium.register("test/Wrapped-v0", lambda wrap=wrapper, kind=kind, **given: wrap(kind(**given)))
        environment = begun(name="test/Wrapped-v0")
        assert (environment.action_names, environment.actions) == (names, len(names))
        assert [act(environment, action).rewards[0] for action in range(len(names))] == list(taken)


@pytest.mark.parametrize(("fps", "rate"), [(14.9,) * 2, *((fps, 60) for fps in (None, 0, "x", np.nan, 1e9))])
def test_the_watcher_sees_each_picture_at_the_environments_frame_rate(fps: Any, rate: float) -> None:
    frames: list[Frame] = []
    register(fps=fps, get_action_meanings=lambda: ["too", "few"])
    environment = begun(watcher=frames.append, frame_skip=2)
    assert (environment.frames_per_second, environment.action_names) == (rate, ("0", "1", "2"))
    act(environment)
    assert [int(frame.picture.max()) for frame in frames] == [0, 1, 2]
    assert all(frame.picture.shape == (ROWS, COLUMNS, 3) for frame in frames)
