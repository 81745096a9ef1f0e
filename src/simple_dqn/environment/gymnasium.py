"""Gymnasium's environments with discrete actions, seen as screens; and ours as environments of Gymnasium.

An environment of ale-py's is played as `--environment ale` plays it. In any other, the screen is the
observation if that is an image, and otherwise the picture that `render` draws. With `--observation vector`
the network takes the numbers of the observation itself.
"""

import difflib
import json
import logging
import math
import re
import textwrap
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import ale_py.roms
import cv2
import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec, find_highest_version, get_env_id, parse_env_id
from gymnasium.spaces import Box, Dict, Discrete, Space, Tuple
from numpy.typing import NDArray

from simple_dqn import own_code
from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.atari import AtariGame, known_games
from simple_dqn.environment.interface import SEEDS, Environment, Frame, Game, Screen, Watcher, scale
from simple_dqn.errors import UserError, call_foreign
from simple_dqn.random_streams import draw_seed
from simple_dqn.types import CheckpointState, observation_dtype

logger = logging.getLogger(__name__)

ATARI = ("ale_py.env:AtariEnv", "ale_py:AtariEnv", ale_py.AtariEnv)
# The keyword arguments of ale-py's own ids.
PLAIN = {"game", "repeat_action_probability", "full_action_space", "frameskip", "max_num_frames_per_episode"}
CHANNELS = (1, 3)  # of an image: gray, or red, green and blue
MOST_LEVELS = 2.0**32  # a wider range is that of the number type, such as float32, and not of gray levels
MOST_POINTS = float(np.finfo(np.float32).max)
MOST_ACTIONS = 10_000
KEY = re.compile(r"[\w .:-]{1,100}")  # of a dict in a checkpoint
SMALL = 32  # the longest side of an image whose channels are taken as they are
IMAGE_SHAPES = "an image is (H, W), (H, W, 1), (H, W, 3), (1, H, W) or (3, H, W), with finite bounds"

gymnasium.register_envs(ale_py)  # ids such as ALE/Pong-v5


def is_image(space: Any) -> bool:
    """Return whether elements of `space` are images, as `IMAGE_SHAPES` says."""
    sides = space.shape if isinstance(space, Box) else ()
    if len(sides) == 3 and (sides[-1] in CHANNELS or sides[0] in CHANNELS):
        sides = sides[:2] if sides[-1] in CHANNELS else sides[1:]
    if len(sides) != 2 or min(sides) < 2:
        return False
    return 0 < float(space.high.max()) - float(space.low.min()) <= MOST_LEVELS


def to_picture(image: NDArray[Any], space: Box) -> NDArray[np.uint8]:
    """Return an element of `space`, an image, as a picture, uint8 [height, width] or [height, width, 3].

    The least of the space's bounds becomes 0 and the greatest 255.
    """
    low, high = float(space.low.min()), float(space.high.max())
    if image.dtype != np.uint8 or (low, high) != (0, 255):
        image = np.rint((image.astype(np.float64) - low) * (255 / (high - low)))
    if image.ndim == 3 and image.shape[-1] not in CHANNELS:
        image = image.transpose(1, 2, 0)
    return np.ascontiguousarray(image[:, :, 0] if image.shape[2:] == (1,) else image, np.uint8)


def shape_of_numbers(space: Any) -> tuple[int, ...] | None:
    """Return the shape (D,) or (K, H, W) in which `to_numbers` brings elements of `space`; None: it cannot.

    The channels K of an image are first or last: where there are fewer, or else last.
    """
    if not isinstance(space, Box) or len(space.shape) not in (1, 2, 3) or 0 in space.shape:
        return None
    shape = space.shape
    if len(shape) < 3:
        return shape if len(shape) == 1 else (1, *shape)
    return shape if shape[0] < shape[2] else (shape[2], *shape[:2])


def to_numbers(observation: NDArray[Any], shape: tuple[int, ...], kind: Any) -> NDArray[np.float32]:
    """Return an observation as float32 of `shape`; numbers of a space of the `kind` uint8 become 0..1."""
    if observation.ndim == 3 and observation.shape[0] >= observation.shape[2]:
        observation = observation.transpose(2, 0, 1)
    return observation.astype(np.float32).reshape(shape) / np.float32(255 if kind == np.uint8 else 1)


class GymnasiumGame(Game):
    """One of Gymnasium's environments, in steps of `frame_skip` of its own steps ("frames" here).

    It has no lives. Its games can be saved in the middle if the environment has `get_state` and `set_state`,
    and is in no wrapper, which may have a state of its own.
    """

    def __init__(
        self, config: EnvironmentConfig, stream: np.random.Generator, watcher: Watcher | None = None
    ) -> None:
        """Open the environment `config.game`, or raise UserError; `stream` seeds each of its games."""
        super().__init__(config, stream)
        self.name, self._spec = config.game.replace("/", "_"), find_spec(config)
        self._watcher, self._frames = watcher, 0  # since the game's start
        self._takes_numbers = config.observation == "vector"
        self._env = open_env(self._spec)
        try:
            self._call("the environment", self._inspect)
            self._call("reset()", self._env.reset, seed=0)  # so that a game not begun has a state, too
        except BaseException:
            with suppress(UserError):
                self.close()
            raise

    def _inspect(self) -> None:
        """Find out what the environment's actions and screens are."""
        env, name, limit = self._env, self._spec.id, self._spec.max_episode_steps or 0
        self._frame_limit = min(self._frame_limit, limit if limit > 0 else math.inf)  # -1, too: none
        if not isinstance(env.action_space, Discrete):
            found = in_short(env.action_space)
            raise UserError(f"{name} has no discrete actions but {found}: choose another")
        saves = all(callable(getattr(env, method, None)) for method in ("get_state", "set_state"))
        self.can_save = env is env.unwrapped and saves
        self._first_action = int(env.action_space.start)
        numbers = range(int(env.action_space.n))
        if len(numbers) > MOST_ACTIONS:
            why = f"more than {MOST_ACTIONS:,}, and the network has an output for each"
            raise UserError(f"{name} has {len(numbers):,} actions, {why}: choose another")
        names = getattr(env, "get_action_meanings", lambda: numbers)()
        self.action_names = tuple(map(str, names if len(names) == len(numbers) else numbers))
        rate = env.metadata.get("render_fps")
        if isinstance(rate, float | int) and 0.1 <= rate <= 1000:
            self.frames_per_second = float(rate)
        self._space: Any = env.observation_space
        observed = f"{name} observes {in_short(self._space)}"
        self.is_rendered = self._takes_numbers or not is_image(self._space)
        shape = shape_of_numbers(self._space)
        if self._takes_numbers:
            if shape is None:
                raise UserError(f"--observation vector: {observed}: give --observation pixels")
            self._numbers, self.screen_shape = self._space, shape
        if not self.is_rendered or (self._takes_numbers and not self._watcher):
            return
        if "rgb_array" not in (env.metadata.get("render_modes") or ()):
            more = "--observation vector learns from its numbers, but cannot show them; " if shape else ""
            raise UserError(f"{observed}, no image, and has no render_mode rgb_array; {more}{IMAGE_SHAPES}")
        self.close()  # before the next is opened: there may be room for one only, as with a port
        self._env = open_env(self._spec, render_mode="rgb_array")
        self._env.reset(seed=0)
        picture: Any = self._env.render()  # where a missing library is noticed
        self._space = Box(0, 255, getattr(picture, "shape", ()), np.uint8)
        if not (isinstance(picture, np.ndarray) and picture.dtype == np.uint8 and is_image(self._space)):
            raise UserError(f"{observed}, and render() returned {in_short(picture)}: make it uint8 [H, W, 3]")

    def start(self, screen: Screen) -> None:
        """Start a new game; see `Game.start`."""
        self._frames = 0
        answer = self._call("reset()", self._env.reset, seed=self.random.integers(SEEDS))
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise UserError(f"{self._where()}: reset() gave {in_short(answer)}: return (observation, info)")
        self._show(answer[0], 0.0, screen)

    def act(self, action: int, screen: Screen) -> tuple[float, bool, bool]:
        """Hold `action` for `frame_skip` frames, or until the game ends; see `Game.act`."""
        total = 0.0
        for left in reversed(range(self._frame_skip)):
            self._frames += 1
            answer = self._call("step()", take, self._env, self._first_action + action)
            observation, reward, terminal, truncated = answer
            total += reward
            if not max(abs(reward), abs(total)) <= MOST_POINTS:
                raise UserError(f"{self._where()}: the reward is {reward:g}: make it a number within ±3.4e38")
            ended = terminal or truncated or self._frames >= self._frame_limit
            if self._watcher or ended or not left:
                self._show(observation, reward, screen)
            if ended:
                break
        return total, terminal, ended

    def _show(self, observation: Any, reward: float, screen: Screen) -> None:
        """Put the current picture, or the observation, into `screen`, and show the picture to the watcher."""
        if self._takes_numbers:
            kinds = "biu" if self._numbers.dtype == np.uint8 else "biuf"  # floats may be scaled already
            numeric = isinstance(observation, np.ndarray) and observation.dtype.kind in kinds
            alike = numeric and observation.shape == self._numbers.shape
            if not (alike and float(np.abs(observation).max()) <= MOST_POINTS):
                wrong = f"{self._where()}: the observation is {in_short(observation)}"
                if alike and np.isfinite(observation).all():
                    raise UserError(f"{wrong}, beyond float32 (±3.4e38): scale it")
                what = "finite numbers" if "f" in kinds else "whole numbers, as its space is of uint8"
                raise UserError(f"{wrong}, not an array {self._numbers.shape} of {what}: fix it")
            screen[...] = to_numbers(observation, self.screen_shape, self._numbers.dtype)
            if not self._watcher:
                return
        image = self._call("render()", self._env.render) if self.is_rendered else observation
        if not (isinstance(image, np.ndarray) and self._space.contains(image)):
            what = "render()" if self.is_rendered else "the observation"
            found, wanted = in_short(image), in_short(self._space)
            raise UserError(f"{self._where()}: {what} is {found}, not in {wanted}: make them agree")
        picture = to_picture(image, self._space)
        if self._watcher:
            self._watcher(Frame.silent(picture, reward))
        if not self._takes_numbers:
            scale(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY) if picture.ndim == 3 else picture, screen)

    def _where(self) -> str:
        return f"{self._spec.id}, step {self._frames} of a game"

    def _call(self, what: str, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Return what `work` returns, a method of the environment; an error is one line that has `what`."""
        return call_foreign(f"{self._where()}: {what}", work, *arguments, **named)

    def get_state(self) -> CheckpointState:
        """Return the random streams, and the state of a game that can be saved; see `plain`."""
        if not self.can_save:
            return super().get_state()
        own = self._call("get_state()", lambda: plain(self._env.get_state(), dict))
        random = self._call("np_random", lambda: dict(self._env.np_random.bit_generator.state))
        return {"env": own, "env_random": random, "frames": self._frames, **super().get_state()}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned, or raise UserError if `set_state` of the environment fails."""
        super().set_state(state)
        if self.can_save:
            self._call("set_state()", self._env.set_state, plain(state["env"]))
            self._env.np_random.bit_generator.state = state["env_random"]
            self._frames = state["frames"]

    def close(self) -> None:
        """Close the environment."""
        call_foreign(f"{self._spec.id}: close()", self._env.close)


def take(env: Any, action: int) -> tuple[Any, float, bool, bool]:
    """Take `action`; return the observation, the reward, and whether the game ended or was truncated."""
    observation, reward, terminated, truncated, _ = env.step(action)
    return observation, float(reward), bool(float(terminated)), bool(float(truncated))  # a dict is refused


def open_env(spec: EnvSpec, **arguments: Any) -> Any:
    """Return the environment of `spec` without Gymnasium's checks and time limit, or raise UserError."""
    if spec.entry_point in ATARI and spec.kwargs.get("game") not in known_games():
        # ALE would end the whole process.
        raise UserError(f"{spec.id} cannot be opened: register it with a game such as pong")
    bare = replace(spec, max_episode_steps=None, order_enforce=False, disable_env_checker=True)
    return call_foreign(f"{spec.id} cannot be opened: make()", gymnasium.make, bare, **arguments)


def open_game(
    config: EnvironmentConfig, stream: np.random.Generator, training: bool, watcher: Watcher | None
) -> Game:
    """Return the Gymnasium environment `config.game`: an `AtariGame` if it is ale-py's."""
    if not is_atari(config):
        return GymnasiumGame(config, stream, watcher)
    rom = ale_py.roms.get_rom_path(find_spec(config).kwargs["game"])
    game = AtariGame(replace(config, game=str(rom)), stream, training, watcher)
    game.name = config.game.replace("/", "_")
    return game


def check(config: EnvironmentConfig) -> None:
    """Open and close `config.game`, no Atari game, for the errors of `GymnasiumGame`; log how it is seen."""
    with closing(GymnasiumGame(config, np.random.default_rng(0))) as game:
        if game.is_rendered and config.observation != "vector":
            logger.info("%s observes no image: the screens are what render() draws", game.name)


def vector_shape(config: EnvironmentConfig, observation: str) -> tuple[int, ...] | None:
    """Return the shape of the numbers that `config.game` observes; None: see `environment.vector_shape`."""
    spec = find_spec(config)
    env = open_env(spec)
    try:
        space = call_foreign(f"{spec.id}: observation_space", lambda: env.observation_space)
    finally:
        call_foreign(f"{spec.id}: close()", env.close)
    shape = shape_of_numbers(space)
    if observation == "auto" and isinstance(space, Dict | Tuple):
        remedy = "choose another, or give --observation pixels, and the screens are what render() draws"
        raise UserError(f"{spec.id} observes several things, {in_short(space)}: {remedy}")
    small = shape is not None and (
        len(shape) == 1 or (len(space.shape) == 3 and max(shape[1:]) <= SMALL and space.dtype.kind in "bf")
    )
    return shape if observation == "vector" or (small and not is_image(space)) else None


def is_atari(config: EnvironmentConfig) -> bool:
    """Return whether the id `config.game` is one that ale-py registers, or like these; see `find_spec`."""
    spec = find_spec(config)
    others = spec.additional_wrappers or spec.max_episode_steps or spec.kwargs.get("full_action_space")
    return spec.entry_point in ATARI and spec.kwargs.keys() == PLAIN and not others


def knows(game: str) -> bool:
    """Return whether Gymnasium has an environment called `game`."""
    with suppress(UserError):
        return bool(find_spec(EnvironmentConfig(game=game)))
    return False


def find_spec(config: EnvironmentConfig) -> EnvSpec:
    """Return the entry of `config.game` in Gymnasium's registry, or raise UserError if there is none.

    The game is an id, such as `ALE/Pong-v5`, with or without its version; or the name that a snapshot has of
    it, with _ in place of /.
    """
    name = config.game
    try:
        if name not in gymnasium.registry:
            wanted = name.removeprefix("ale_py_")  # from the id ale_py:ALE/Pong-v5
            name = next((known for known in gymnasium.registry if known.replace("/", "_") == wanted), name)
        if name not in gymnasium.registry:
            space, bare, version = parse_env_id(name)
            if version is None:
                name = get_env_id(space, bare, find_highest_version(space, bare))
        return gymnasium.registry[name]
    except (KeyError, gymnasium.error.Error):
        near = difflib.get_close_matches(name, gymnasium.registry, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "give --import with its file"
        if config.imports and config.imports != own_code.names():
            hint = f"it was trained with --import {config.imports}, so give that again, with the file's path"
        raise UserError(f"Gymnasium has no environment {name!r}: {hint}") from None


def plain(value: Any, kind: type = object) -> Any:
    """Return a copy of `value`, of the type `kind`, which a checkpoint gives back with the same types.

    Raises:
        TypeError: It has types that a checkpoint cannot hold, or would give back as others.
    """
    if not isinstance(value, kind):
        raise TypeError(f"it returned {in_short(value)}: return a {kind.__name__}")
    if isinstance(value, dict) and all(isinstance(key, str) and KEY.fullmatch(key) for key in value):
        return {key: plain(one) for key, one in value.items()}
    if type(value) is np.ndarray and value.dtype.kind in "biuf":
        return value.copy()
    if isinstance(value, np.bool_ | np.int64 | np.float64):  # which calculate as Python's
        return value.item()
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        with suppress(TypeError):
            return json.loads(json.dumps([plain(item) for item in value]))  # no arrays in lists
    wanted = "keep to Python's numbers, text, lists of these, NumPy's arrays, and dicts with names as keys"
    raise TypeError(f"it returned {in_short(value)}: {wanted}")


def in_short(value: object) -> str:
    """Return a few words on `value`, a space or what an environment returned, for an error message."""
    if isinstance(value, np.ndarray):
        numeric = value.size and value.dtype.kind in "buif"
        values = f" from {float(value.min()):g} to {float(value.max()):g}" if numeric else ""
        return f"{value.dtype} {value.shape}{values}"
    return textwrap.shorten(str(value), 160) if isinstance(value, Space) else f"a {type(value).__name__}"


class GymnasiumEnv(gymnasium.Env[Screen, Any]):
    """One game of an `Environment` as a `gymnasium.Env`, which observes screens uint8 [H, W], or numbers.

    A lost life, an episode's end in training, ends no game: `info["terminals"]` has it.

    Example:
        >>> env = simple_dqn.GymnasiumEnv(lambda seed: simple_dqn.make("pong", seed=seed))
        >>> env = gymnasium.wrappers.FrameStackObservation(env, 4, padding_type="zero")
        >>> states, _ = env.reset(seed=0)
        >>> env.step(agent.act(states[np.newaxis])[0])
    """

    def __init__(self, make: Callable[[int], Environment], seed: int | None = None) -> None:
        """Make the game from `seed`, or None: a random one; raise UserError if it is not one game to play."""
        self._make = make
        self._game = self._made(draw_seed() if seed is None else seed)
        shape = self._game.screen_shape
        low, high = (0, 255) if len(shape) == 2 else (-np.inf, np.inf)
        self.observation_space = Box(low, high, shape, observation_dtype(shape).type)
        self.action_space = Discrete(self._game.actions)
        self.metadata = {"render_modes": []}

    def _made(self, seed: int) -> Environment:
        made = call_foreign(f"making a game by {self._make!r}", self._make, seed)
        if not isinstance(made, Environment) or made.games != 1:
            raise UserError(f"{self._make!r} does not make one game: give a function from a seed to one game")
        return made

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Screen, dict[str, Any]]:
        """Start a game, and return its first screen and info.

        A `seed` decides all randomness from here on, for which the game is made again; None: goes on.
        """
        super().reset(seed=seed, options=options)
        if seed is not None:
            self.close()
            self._game = self._made(seed)
        step = self._game.reset()
        return step.screens[0], {"terminals": step.terminals[0]}

    def step(self, action: int) -> tuple[Screen, float, bool, bool, dict[str, Any]]:
        """Take `action`; return the screen, the reward, whether the game ended or was cut off, and info."""
        step = self._game.step(np.array([action]))
        ended = bool(step.terminals[0] and step.resets[0])
        info = {"terminals": step.terminals[0]}
        return step.screens[0], float(step.rewards[0]), ended, bool(step.truncations[0]), info

    def close(self) -> None:
        """Close the game."""
        self._game.close()
