"""Any of Gymnasium's environments is seen as it is, or refused in one line."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import ale_py  # noqa: F401 - its environments
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env

from simple_dqn.config import Config, EnvironmentConfig
from simple_dqn.environment import Environment, Frame, as_played, make
from simple_dqn.environment.gymnasium import action_names, frame_rate
from simple_dqn.errors import UserError
from simple_dqn.interrupt import Interrupt
from simple_dqn.random_streams import stream
from simple_dqn.run import make_run

ROWS, COLUMNS = 20, 30
LEVELS = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) / (ROWS * COLUMNS - 1)  # 0 to 1


class Port(gymnasium.Env[Any, Any]):
    """An environment whose answers a test chooses, and of which one instance may be open."""

    open_now = 0
    modes: Any = ("rgb_array",)
    space: Any = Box(0, 255, (ROWS, COLUMNS), np.uint8)
    actions: gymnasium.Space[Any] = Discrete(3)
    observe: Callable[[int], Any] = staticmethod(lambda t: np.full((ROWS, COLUMNS), t, np.uint8))
    picture: Callable[[int], Any] = staticmethod(lambda t: np.full((ROWS, COLUMNS, 3), t, np.uint8))
    reward: Any = 0.0
    fps: Any = 50

    def __init__(self, render_mode: str | None = None) -> None:
        kind = type(self)
        assert kind.open_now == 0, "the port is taken"
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
        return self.observe(self.count), self.reward, False, False, {}

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


def register(**members: Any) -> type[Port]:
    """Register a `Port` with other members as `test/Port-v0`."""
    made = {key: staticmethod(value) if callable(value) else value for key, value in members.items()}
    kind: Any = type("Port", (Port,), {"open_now": 0, **made})
    kind.metadata = {"render_modes": ["rgb_array"]}
    gymnasium.registry.pop("test/Port-v0", None)
    gymnasium.register("test/Port-v0", kind)
    return kind  # type: ignore[no-any-return]


def game(name: str = "test/Port-v0", watcher: Any = None, **settings: Any) -> Environment:
    settings = {"frame_skip": 1, "screen_width": COLUMNS, "screen_height": ROWS, **settings}
    config = EnvironmentConfig(game=name, environment="gym", **settings)
    return make(config, [stream(0, "environment")], training=True, watcher=watcher)


def act(environment: Environment, action: int = 0) -> Any:
    return environment.step(np.array([action]))


def refused(work: Callable[[], object]) -> str:
    """Return the one line with which `work` is refused."""
    with pytest.raises(UserError) as raised:
        work()
    assert "\n" not in str(raised.value)
    return str(raised.value)


def grey(levels: Any) -> Any:
    return np.repeat(levels[:, :, np.newaxis], 3, axis=2)


def images(low: Any, high: Any, dtype: Any, of: Callable[[Any], Any] = lambda levels: levels) -> Any:
    """Return a space of images of these bounds, and one that goes from the least value to the greatest."""
    values = low + LEVELS * (float(high) - float(low))
    image = of(values if np.dtype(dtype).kind == "f" else np.rint(values)).astype(dtype)
    return Box(low, high, image.shape, dtype), image


# Each is seen as LEVELS, from black to white, within half of one of the steps of its numbers.
SEEN = {
    "uint8": (images(0, 255, np.uint8), 255),
    "colour": (images(0, 255, np.uint8, grey), 255),
    "one channel last": (images(0, 255, np.uint8, lambda levels: levels[:, :, np.newaxis]), 255),
    "one channel first": (images(0, 255, np.uint8, lambda levels: levels[np.newaxis]), 255),
    "channels first": (images(0, 255, np.uint8, lambda levels: grey(levels).transpose(2, 0, 1)), 255),
    "floats in [0, 1]": (images(0, 1, np.float32), 255),
    "colour floats, channels first": (
        images(0, 1, np.float64, lambda levels: grey(levels).transpose(2, 0, 1)), 255,
    ),
    "floats in [-1, 1]": (images(-1, 1, np.float32), 255),
    "floats in [0, 255]": (images(0, 255, np.float32), 255),
    "half floats": (images(0, 1, np.float16), 255),
    "few levels": (images(0, 5, np.uint8), 5),
    "levels from 10 to 20": (images(10, 20, np.uint8, grey), 10),
    "16 bits": (images(0, 65535, np.uint16), 255),
    "signed": (images(-128, 127, np.int8), 255),
    "64 bits": (images(0, 1000, np.int64), 255),
    "black and white": (images(0, 1, np.bool_), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", SEEN)
def test_images_are_seen_from_black_to_white(name: str) -> None:
    (space, image), levels = SEEN[name]
    kind = register(space=space, observe=lambda _: image.copy(), modes=())
    check_env(kind(), skip_render_check=True)
    kind.open_now = 0
    environment = game()
    for screen in (environment.reset().screens[0], act(environment).screens[0]):
        assert (screen.min(), screen.max()) == (0, 255)
        assert np.abs(screen / 255 - LEVELS).max() <= 0.5 / levels + 1 / 255


def test_the_bounds_of_a_space_are_those_of_all_its_pixels() -> None:
    high = np.full((ROWS, COLUMNS), 4.0)
    high[0] = 2
    register(space=Box(0.0, high, dtype=np.float64), observe=lambda _: high / 2)
    assert sorted(set(game().reset().screens.flat)) == [64, 128]


def test_colours_keep_their_weights() -> None:
    for axis, shape in ((2, (ROWS, COLUMNS, 3)), (0, (3, ROWS, COLUMNS))):
        for channel, weight in enumerate((0.299, 0.587, 0.114)):
            image = np.zeros(shape, np.float32)
            image[(slice(None),) * axis + (channel,)] = 1
            register(space=Box(0, 1, shape, np.float32), observe=lambda _, image=image: image)
            assert np.all(game().reset().screens == round(255 * weight))


NUMBERS = {
    "a vector": Box(0, 1, (4,), np.float32),
    "a vector in a matrix": Box(0, 1, (1, 4), np.float32),
    "a number": Box(0, 1, (), np.float32),
    "a vector without bounds": Box(-np.inf, np.inf, (5,), np.float32),
    "Discrete": Discrete(16),
    "MultiDiscrete": spaces.MultiDiscrete([3, 4]),
    "MultiBinary": spaces.MultiBinary(5),
    "Dict": spaces.Dict({"place": Box(0, 255, (2,), np.uint8), "mission": spaces.Text(9)}),
    "Tuple": spaces.Tuple([Discrete(3), Discrete(4)]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_no_image_is_rendered_and_the_log_says_so(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    register(space=NUMBERS[name], observe=lambda _: NUMBERS[name].sample())
    environment = game()
    assert np.all(environment.reset().screens == 0)
    assert np.all(act(environment).screens == 1)
    environment.close()
    as_played(EnvironmentConfig(game="test/Port-v0", environment="gym"))
    (said,) = caplog.messages
    assert said.startswith("test/Port-v0 observes ")
    assert "render()" in said
    assert "no image" not in said


@pytest.mark.parametrize(
    "picture",
    [lambda t: np.full((ROWS, COLUMNS), t, np.uint8), lambda t: np.full((ROWS, COLUMNS, 1), t, np.uint8),
     lambda t: np.full((3, ROWS, COLUMNS), t, np.uint8)],
)  # fmt: skip
def test_pictures_of_other_shapes_are_seen_too(picture: Callable[[int], Any]) -> None:
    register(space=Discrete(3), observe=lambda _: 0, picture=picture)
    environment = game()
    environment.reset()
    assert np.all(act(environment).screens == 1)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a stack, first": ({"space": Box(0, 255, (4, 84, 84), np.uint8)}, r"\(4, 84, 84\).*stack.*\(H, W, 3\)"),
    "a stack, last": ({"space": Box(0, 255, (84, 84, 4), np.uint8)}, r"\(84, 84, 4\).*stack"),
    "a stack of floats": ({"space": Box(0, 1, (4, 84, 84), np.float32)}, r"\(4, 84, 84\).*stack"),
    "a stack of colours": ({"space": Box(0, 255, (4, 84, 84, 3), np.uint8)}, r"\(4, 84, 84, 3\).*stack"),
    "two channels": ({"space": Box(0, 255, (84, 84, 2), np.uint8)}, r"\(84, 84, 2\).*channels"),
    "channels at both ends": ({"space": Box(0, 255, (3, 9, 3), np.uint8)}, r"\(3, 9, 3\).*first or last"),
    "one value": ({"space": Box(7, 7, (9, 9), np.uint8)}, r"\(9, 9\).*one value"),
    "an image without bounds": (
        {"space": Box(-np.inf, np.inf, (40, 50, 3), np.float32)},
        r"observes Box\(-inf, inf, \(40, 50, 3\), float32\), an image without the bounds",
    ),
    "half bounds": ({"space": Box(0, np.inf, (5, 5), np.float32)}, r"Box.*\(5, 5\).*without the bounds"),
    "the bounds of float32": (
        {"space": Box(-np.finfo(np.float32).max, np.finfo(np.float32).max, (5, 5), np.float32)},
        r"Box.*\(5, 5\).*without the bounds",
    ),
    "an image and a text": (
        {"space": spaces.Dict({"image": Box(0, 255, (7, 7, 3), np.uint8), "mission": spaces.Text(9)})},
        r"observes Dict.*\(7, 7, 3\).*holds an image but is no Box",
    ),
    "images in a tuple": (
        {"space": spaces.Tuple([Discrete(3), Box(0, 255, (7, 7), np.uint8)])},
        r"observes Tuple.*\(7, 7\).*no Box",
    ),
    "a sequence of images": (
        {"space": spaces.Sequence(Box(0, 255, (7, 7), np.uint8))}, r"observes Sequence.*no Box",
    ),
    "bits": ({"space": spaces.MultiBinary((40, 50))}, r"observes MultiBinary\(\(40, 50\)\).*no Box"),
    "no pixel": ({"space": Box(0, 255, (0, 9, 3), np.uint8)}, r"observes Box.*which is empty"),
    "nothing to see": ({"space": Box(0, 1, (4,)), "modes": ("human",)}, r"Box.*\(4,\).*\(it has human\)"),
    "only lists": ({"space": Discrete(4), "modes": ("rgb_array_list",)}, r"Discrete\(4\).*rgb_array_list"),
    "no modes": ({"space": Discrete(4), "modes": None}, r"Discrete\(4\).*\(it has none\)"),
    "no space": ({"space": None, "modes": ()}, "observes None"),
    "actions": ({"actions": Box(0, 1, (2,))}, r"no discrete actions but Box"),
    "several actions": ({"actions": spaces.MultiDiscrete([2, 3])}, r"no discrete actions but MultiDiscrete"),
    "no picture": ({"space": Discrete(4), "picture": lambda _: None}, r"render\(\) returned None"),
    "a list of pictures": (
        {"space": Discrete(4), "picture": lambda _: [np.zeros((9, 9, 3), np.uint8)]},
        r"render\(\) returned a list of 1",
    ),
    "a picture of floats": (
        {"space": Discrete(4), "picture": lambda t: np.full((41, 51, 3), t / 20, np.float32)},
        r"render\(\) returned float32 \(41, 51, 3\)",
    ),
    "a picture of 16 bits": (
        {"space": Discrete(4), "picture": lambda _: np.zeros((41, 51, 3), np.uint16)},
        r"render\(\) returned uint16 \(41, 51, 3\)",
    ),
    "a picture with alpha": (
        {"space": Discrete(4), "picture": lambda _: np.zeros((41, 51, 4), np.uint8)},
        r"render\(\) returned uint8 \(41, 51, 4\)",
    ),
    "a line": (
        {"space": Discrete(4), "picture": lambda _: np.zeros(9, np.uint8)},
        r"render\(\) returned uint8 \(9,\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_seen_or_played_is_refused_and_closed(name: str) -> None:
    members, words = REFUSED[name]
    kind = register(**members)
    assert re.search(f"test/Port-v0.*{words}", refused(game))
    assert kind.open_now == 0


COUNTED: Any = {"space": Box(0, 1, (ROWS, COLUMNS), np.float32)}


def at_step_2(good: Any, bad: Any) -> Callable[[int], Any]:
    return lambda t: bad if t == 2 else good


HALF = np.full((ROWS, COLUMNS), 0.5, np.float32)
BLACK = np.zeros((ROWS, COLUMNS), np.uint8)
BAD_IMAGES: dict[str, tuple[Any, Any, str]] = {
    "another type": ({}, at_step_2(BLACK, HALF.astype(np.float64)), "float64"),
    "another shape": (
        {},
        at_step_2(BLACK, np.zeros((9, 9), np.uint8)),
        "(9, 9)",
    ),
    "no array": ({}, at_step_2(BLACK, HALF.tolist()), "a list of 20"),
    "None": ({}, at_step_2(BLACK, None), "None"),
    "masked": ({}, at_step_2(BLACK, np.ma.array(BLACK, mask=BLACK == 0)), "a masked array, uint8 (20, 30)"),
    "too much": (COUNTED, at_step_2(HALF, HALF * 4), "to 2"),
    "too little": (COUNTED, at_step_2(HALF, -HALF), "from -0.5"),
    "NaN": (COUNTED, at_step_2(HALF, HALF * np.nan), "nan"),
    "wider floats": (COUNTED, at_step_2(HALF, HALF.astype(np.float64)), "float64"),
}


@pytest.mark.parametrize("name", BAD_IMAGES)
def test_an_observation_outside_its_space_is_refused_at_its_step(name: str) -> None:
    members, observe, words = BAD_IMAGES[name]
    register(**members, observe=observe)
    environment = game()
    environment.reset()
    act(environment)
    said = refused(lambda: act(environment))
    assert "test/Port-v0, step 2" in said
    assert words in said
    assert "Box(" in said


@pytest.mark.parametrize("bad", [None, grey(BLACK) / 2, np.zeros((9, 9, 3), np.uint8), BLACK])
def test_a_picture_that_changes_its_kind_is_refused_at_its_step(bad: Any) -> None:
    register(space=Discrete(4), picture=at_step_2(grey(BLACK), bad))
    environment = game()
    environment.reset()
    act(environment)
    assert "test/Port-v0, step 2 of a game: render() is " in refused(lambda: act(environment))


@pytest.mark.parametrize("reward", [2, 2.0, np.float32(2), np.int8(2), np.array(2.0), np.array([2.0])])
def test_rewards_are_numbers_of_any_kind(reward: Any) -> None:
    register(reward=reward)
    environment = game(frame_skip=3)
    environment.reset()
    assert act(environment).rewards[0] == 6


def test_a_reward_of_true_is_one() -> None:
    register(reward=np.True_)
    environment = game()
    environment.reset()
    assert act(environment).rewards[0] == 1


@pytest.mark.parametrize(
    "reward",
    [np.nan, np.inf, -np.inf, 1e300, -1e300, 10**400, np.float64(1e39), np.array([1.0, 2.0]), None, "3",
     [1.0], 1 + 2j, np.array(np.nan), np.complex128(1 + 2j), np.complex64(1), np.array(1 + 2j),
     np.ma.masked, np.ma.array(1.0), np.ma.array([1.0], mask=[True])],
)  # fmt: skip
def test_a_reward_that_is_no_finite_number_is_refused_at_its_step(reward: Any) -> None:
    register(reward=reward)
    environment = game(frame_skip=4)
    environment.reset()
    assert "test/Port-v0, step 1 of a game: the reward is " in refused(lambda: act(environment))


def test_so_is_a_sum_that_no_float32_holds() -> None:
    register(reward=3e38)
    environment = game(frame_skip=4)
    environment.reset()
    assert "test/Port-v0, step 2" in refused(lambda: act(environment))


def test_answers_of_other_lengths_and_errors_are_one_line() -> None:
    def started(answer: Any) -> str:
        register(reset=lambda **_: answer)
        return refused(game().reset)

    assert "step 0 of a game: reset() returned uint8 (20, 30)" in started(BLACK)
    assert "reset() returned None" in started(None)

    def stepped(step: Callable[[int], Any], limit: int | None) -> str:
        kind = register(step=step)
        gymnasium.registry["test/Port-v0"].max_episode_steps = limit
        environment = game()
        environment.reset()
        assert kind.open_now
        return refused(lambda: act(environment))

    for limit in (None, 9):  # a time limit is a wrapper, which takes the answer apart
        said = stepped(lambda _: (BLACK, 0.0, False, {}), limit)
        assert re.search(r"test/Port-v0, step . of a game: step\(\) .*(a tuple of 4|expected 5, got 4)", said)
        said = stepped(lambda _: 1 // 0, limit)
        assert re.search(rf"step\(\) failed: ZeroDivisionError: .*{re.escape(__file__)}, line \d+", said)
    register(__init__=lambda **_: 1 // 0)
    assert "test/Port-v0 cannot be opened: ZeroDivisionError" in refused(game)
    assert "no_such_module" in refused(lambda: game("no_such_module:Port-v0"))


def failing(what: Any = None) -> Any:
    """Return a function that fails: by an error, or by `sys.exit`."""

    def fail(*_: Any, **__: Any) -> Any:
        raise SystemExit(what) if what else ValueError("out of order")

    return fail


PLACE = rf"{re.escape(__file__)}, line \d+"
FAILURES: dict[str, tuple[dict[str, Any], str]] = {
    "constructor exits": ({"__init__": failing(3)}, rf"cannot be opened: SystemExit: 3 \({PLACE}\)"),
    "reset exits": ({"reset": failing(3)}, r"reset\(\) failed: SystemExit: 3"),
    "step exits": ({"step": failing(3)}, rf"step 1 of a game: step\(\) failed: SystemExit: 3 \({PLACE}\)"),
    "render exits": ({"space": Discrete(2), "picture": failing(3)}, r"render\(\) failed: SystemExit"),
    "actions": ({"action_space": property(failing())}, r"action_space|out of order"),
    "observations": ({"observation_space": property(failing())}, r"observation_space|out of order"),
    "names raise": ({"get_action_meanings": failing()}, rf"get_action_meanings\(\) failed: .* \({PLACE}\)"),
    "names are None": ({"get_action_meanings": lambda: None}, r"get_action_meanings\(\) returned None"),
    "names are a text": ({"get_action_meanings": lambda: "abc"}, r"get_action_meanings\(\) returned a str"),
    "names are no method": ({"get_action_meanings": ["a"] * 3}, r"get_action_meanings\(\) failed: TypeError"),
    "close raises": ({"close": failing()}, rf"close\(\) failed: ValueError: out of order \({PLACE}\)"),
    **{
        f"an end of {end!r}": (
            {"step": lambda _, end=end: (BLACK, 0.0, end, False, {})}, r"step 1 of a game: terminated is ",
        )
        for end in ("False", np.array([True, False]), None, 2, 0.5)
    },
    "a cut of 2 values": (
        {"step": lambda _: (BLACK, 0.0, False, np.zeros(2, np.bool_), {})}, r"truncated is array",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_whatever_fails_is_one_line_with_the_environment(name: str) -> None:
    members, words = FAILURES[name]
    register(**members)

    def play() -> None:
        environment = game()
        environment.reset()
        act(environment)
        environment.close()

    assert re.search(f"test/Port-v0.*({words})", refused(play))


@pytest.mark.parametrize("end", [True, np.True_, 1, np.int64(1)])
def test_an_end_is_a_truth_value_or_1(end: Any) -> None:
    register(step=lambda _: (BLACK, 0.0, end, 0, {}))
    environment = game()
    environment.reset()
    assert act(environment).terminals.all()


ATARI: dict[str, tuple[dict[str, Any], str]] = {
    "no such game": ({"game": "nope"}, "no game called 'nope'"),
    "a near game": ({"game": "pon"}, "did you mean pong"),
    "for two players": ({"game": "combat"}, "no game called 'combat'"),
    "a number": ({"game": 5}, "no game called 5"),
    "no game": ({}, "missing a required argument: 'game'"),
    "mode": ({"game": "pong", "mode": 99}, "no mode 99: choose one of 0, 1"),
    "a text as mode": ({"game": "pong", "mode": "x"}, "no mode 'x'"),
    "difficulty": ({"game": "pong", "difficulty": 9}, "no difficulty 9: choose one of 0, 1"),
    "an unknown setting": ({"game": "pong", "bogus": 1}, "unexpected keyword argument 'bogus'"),
}


@pytest.mark.parametrize("limit", [None, 9])
@pytest.mark.parametrize("name", ATARI)
def test_what_ale_py_cannot_open_is_refused(name: str, limit: int | None) -> None:
    settings, words = ATARI[name]
    entry = "ale_py.env:AtariEnv"
    gymnasium.register("test/Atari-v0", entry, kwargs=settings, max_episode_steps=limit)
    said = refused(lambda: game("test/Atari-v0"))
    assert words in said or (limit and "test/Atari-v0 cannot be opened" in said)


@pytest.mark.parametrize("games", [2, 3])
def test_a_start_that_fails_closes_what_it_opened(games: int) -> None:
    kind = register()
    config = EnvironmentConfig(game="test/Port-v0", environment="gym")
    streams = [stream(0, "environment", place) for place in range(games)]
    assert "the port is taken" in refused(lambda: make(config, streams, training=True))
    assert kind.open_now == 0


@pytest.mark.parametrize("space", [Port.space, Discrete(4)])
def test_one_instance_is_open_at_a_time(space: Any) -> None:
    kind = register(space=space, observe=lambda _: np.zeros((ROWS, COLUMNS), np.uint8))
    as_played(EnvironmentConfig(game="test/Port-v0", environment="gym"))
    assert kind.open_now == 0
    environment = game()
    environment.reset()
    assert kind.open_now == 1
    environment.close()
    assert kind.open_now == 0


def test_a_training_without_tests_opens_one_instance() -> None:
    kind = register(
        space=Box(0, 255, (ROWS, COLUMNS), np.uint8), observe=lambda _: np.zeros((ROWS, COLUMNS), np.uint8)
    )
    flags = {
        "game": "test/Port-v0",
        "environment": "gym",
        "test_steps": 0,
        "random_steps": 20,
        "train_steps": 8,
    }
    config = Config.from_flags({**flags, "epochs": 1, "random_seed": 1, "replay_size": 100, "threads": 1})
    with closing(make_run(config, Interrupt())) as run:
        run.begin()
        assert kind.open_now == 1
        assert run.agent.total_train_steps == 8
    assert kind.open_now == 0


class Swapped(gymnasium.ActionWrapper[Any, Any, Any]):
    """Exchanges actions of the same number."""

    def action(self, action: int) -> int:
        return (action + 2) % 6


class Paddle(gymnasium.ActionWrapper[Any, Any, Any]):
    """Leaves RIGHT and LEFT."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.action_space = Discrete(2)

    def action(self, action: int) -> int:
        return (2, 3)[action]


class Listed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The same without Gymnasium's class for it."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.action_space = Discrete(2, start=2)

    def step(self, action: int) -> Any:
        assert action in (2, 3)
        return self.env.step(action)


class Named(Listed):
    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "LEFT"]


class Halved(gymnasium.RewardWrapper[Any, Any]):
    def reward(self, reward: Any) -> float:
        return float(reward) / 2


PONG = ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")


@pytest.mark.parametrize(
    ("wrapper", "names"),
    [
        (Paddle, ("0", "1")),
        (Listed, ("0", "1")),
        (Named, ("NOOP", "LEFT")),
        (Swapped, ("0", "1", "2", "3", "4", "5")),
        (Halved, PONG),
        (lambda env: gymnasium.wrappers.TimeLimit(env, 9), PONG),
        (lambda env: Halved(Paddle(env)), ("0", "1")),
        (lambda env: gymnasium.wrappers.TransformAction(env, lambda a: a + 1, Discrete(5)), tuple("01234")),
    ],
)
def test_actions_are_those_of_the_whole_wrapped_environment(wrapper: Any, names: tuple[str, ...]) -> None:
    def open_wrapped(**given: Any) -> Any:
        return wrapper(gymnasium.make("ALE/Pong-v5", **given))

    gymnasium.register("test/Wrapped-v0", open_wrapped)
    config = EnvironmentConfig(game="test/Wrapped-v0", environment="gym", random_starts=7)
    assert as_played(config).random_starts == (7 if names[0] == "NOOP" else 0)
    environment = game("test/Wrapped-v0", random_starts=0)
    assert (environment.action_names, environment.actions) == (names, len(names))
    environment.reset()
    for action in range(len(names)):
        act(environment, action)
    environment.close()


@pytest.mark.parametrize(
    ("wrapper", "taken"), [(Paddle, [2, 3]), (Listed, [2, 3]), (Swapped, [2, 3, 4, 5, 0, 1])]
)
def test_a_wrapper_receives_its_own_actions(wrapper: Any, taken: list[int]) -> None:
    made: list[int] = []

    def step(action: int) -> Any:
        made.append(action)
        return BLACK, 0.0, False, False, {}

    kind = register(actions=Discrete(6), step=step)
    gymnasium.register("test/Wrapped-v0", lambda **given: wrapper(kind(**given)))
    environment = game("test/Wrapped-v0", random_starts=9)
    environment.reset()
    for action in range(environment.actions):
        act(environment, action)
    assert made == taken


def test_names_of_another_number_are_not_those_of_the_actions() -> None:
    kind = register(get_action_meanings=lambda: ["NOOP", "FIRE"])
    assert action_names(kind()) == ("0", "1", "2")


@pytest.mark.parametrize("entry", ["ale_py.env:AtariEnv", "ale_py:AtariEnv"])
def test_all_18_actions_of_an_id_are_kept(entry: str) -> None:
    gymnasium.register("test/Full-v0", entry, kwargs={"game": "pong", "full_action_space": True})
    environment = game("test/Full-v0", random_starts=0)
    assert (environment.actions, environment.action_names[17]) == (18, "DOWNLEFTFIRE")
    played = as_played(EnvironmentConfig(game="test/Full-v0", environment="gym", random_starts=7))
    assert played.random_starts == 7
    assert played.minimal_action_set == (entry != "ale_py.env:AtariEnv")


RATES = [(50, 50), (4, 4), (14.9, 14.9), (np.int64(30), 30), (None, 60), (0, 60), (-1, 60), ("fast", 60),
         (np.nan, 60), (np.inf, 60), (True, 60), (1e9, 60)]  # fmt: skip


@pytest.mark.parametrize(("fps", "rate"), RATES)
def test_the_frame_rate_is_that_of_the_environment(fps: Any, rate: float) -> None:
    kind = register(fps=fps)
    assert frame_rate(kind()) == pytest.approx(rate)


def test_who_watches_sees_the_first_picture_and_each_step() -> None:
    frames: list[Frame] = []
    register()
    environment = game(watcher=frames.append)
    assert environment.frames_per_second == 50
    environment.reset()
    for _ in range(3):
        act(environment)
    assert [int(frame.picture.max()) for frame in frames] == [0, 1, 2, 3]
    assert all(frame.picture.shape == (ROWS, COLUMNS, 3) for frame in frames)
