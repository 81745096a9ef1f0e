"""Gymnasium's environments with discrete actions, seen as screens; and ours as environments of Gymnasium.

An environment of ale-py's is played as `--environment ale` plays it. In any other, the screen is the
observation if that is an image; where that is numbers, it is the picture that `render` draws.
"""

import difflib
import inspect
import logging
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

import ale_py
import ale_py.roms
import cv2
import gymnasium
import numpy as np
from ale_py import ALEInterface, LoggerMode
from ale_py.env import AtariEnv
from gymnasium.envs.registration import EnvSpec, find_highest_version, get_env_id, parse_env_id
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

from simple_dqn import own_code
from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.atari import AtariGame, Variant, known_games
from simple_dqn.environment.interface import (
    FRAMES_PER_SECOND,
    SEEDS,
    Environment,
    Frame,
    Game,
    Screen,
    Watcher,
    scale,
)
from simple_dqn.errors import UserError, call_foreign, cause
from simple_dqn.random_streams import draw_seed
from simple_dqn.types import Actions, CheckpointState, Mask, Rewards, Screens

logger = logging.getLogger(__name__)

AnyEnv: TypeAlias = gymnasium.Env[Any, Any]
Space: TypeAlias = gymnasium.Space[Any]
Converter: TypeAlias = Callable[[NDArray[Any]], NDArray[np.uint8]]
MakeEnvironment: TypeAlias = Callable[[int], Environment]  # from a seed
Info: TypeAlias = dict[str, Any]

ATARI = "ale_py.env:AtariEnv"
CHANNELS = (1, 3)  # of an image: gray, or red, green and blue
MOST_LEVELS = 2.0**32  # a wider range is that of the number type, such as float32, and not of gray levels
MOST_POINTS = float(np.finfo(np.float32).max)
FRAME_RATES = (0.1, 1000.0)  # the least and the greatest `render_fps` that counts
ACCEPTED = "an image is (H, W), (H, W, 1), (H, W, 3), (1, H, W) or (3, H, W), with finite bounds"
# `step` of wrappers that change no action.
HARMLESS = [kind.step for kind in (gymnasium.Wrapper, gymnasium.ObservationWrapper, gymnasium.RewardWrapper)]
STATELESS = (OrderEnforcing, PassiveEnvChecker, TimeLimit)  # wrappers whose state is known here

ALEInterface.setLoggerMode(LoggerMode.Error)
gymnasium.register_envs(ale_py)  # ids such as ALE/Pong-v5


def converter(space: Space) -> Converter | None:
    """Return the function that makes pictures of the elements of `space`; None: they are numbers, as vectors.

    A picture is uint8 [height, width], or [height, width, 3] in color. The least of the space's bounds
    becomes 0 and the greatest 255.

    Raises:
        UserError: They hold images of a kind that is not accepted, such as stacks; it lacks the space.
    """
    if not holds_images(space):
        return None
    if not isinstance(space, Box):
        raise UserError(f"which holds an image but is no Box: make the image the observation; {ACCEPTED}")
    if 0 in space.shape:
        raise UserError(f"which is empty: make all sides at least 1; {ACCEPTED}")
    low, high = float(space.low.min()), float(space.high.max())
    three = len(space.shape) == 3
    first, last = (three and space.shape[place] in CHANNELS for place in (0, -1))
    problem = ""
    if len(space.shape) > 3 or (three and not (first or last)):
        problem = "several images, or one with neither 1 nor 3 channels: leave out what stacks frames"
    elif first and last:
        problem = "which may have its channels first or last: make the images larger"
    elif not high - low <= MOST_LEVELS:
        problem = (
            "an image without the bounds of its gray levels: give its space finite ones, or observe a vector"
        )
    elif low == high:
        problem = "which has one value only: give it the bounds of its values"
    if problem:
        raise UserError(f"{problem}; {ACCEPTED}")
    as_it_is = space.dtype == np.uint8 and (low, high) == (0, 255)

    def convert(image: NDArray[Any]) -> NDArray[np.uint8]:
        if not as_it_is:
            image = np.rint((image.astype(np.float64) - low) * (255 / (high - low)))
        image = image.transpose(1, 2, 0) if first else image
        return np.ascontiguousarray(image[:, :, 0] if image.shape[2:] == (1,) else image, np.uint8)

    return convert


def holds_images(space: Any) -> bool:
    """Return whether elements of `space`, or parts of them, have two sides or more, as images do."""
    parts = getattr(space, "spaces", None) or [getattr(space, "feature_space", None)]
    if any(map(holds_images, parts.values() if isinstance(parts, Mapping) else filter(None, parts))):
        return True
    shape: tuple[int, ...] = getattr(space, "shape", None) or ()
    return sum(side != 1 for side in shape) >= 2


class GymnasiumGame(Game):
    """One of Gymnasium's environments, in steps of `frame_skip` of its own steps ("frames" here).

    Its games start without no-ops where action 0 is not called NOOP. It has no lives. Its games can be saved
    in the middle if the environment has `get_state` and `set_state`, and no wrapper with a state of its own.
    """

    def __init__(
        self, config: EnvironmentConfig, stream: np.random.Generator, watcher: Watcher | None
    ) -> None:
        """Open the environment `config.game`; `stream` seeds each of its games.

        Raises:
            UserError: There is none, it has no discrete actions, or it cannot be seen.
        """
        super().__init__(config, stream)
        self.name = game_name(config.game)
        self._watcher = watcher
        self._frames = 0  # since the game's start
        self._terminal = self._cut_off = False
        self._observation: Any = None
        self._spec = find_spec(config)
        self._env = open_env(self._spec)
        try:
            self._look()
            self.action_names = action_names(self._env, self._spec.id)
            self._first_action = int(self._env.action_space.start)  # type: ignore[attr-defined]
            self.frames_per_second = frame_rate(self._env)
            methods = (getattr(self._env.unwrapped, name, None) for name in ("get_state", "set_state"))
            self.can_save = all(map(callable, methods)) and all(
                type(layer) in STATELESS for layer in layers(self._env)
            )
            if self.can_save:
                self._ask("reset", seed=0)  # so that there is a state, also of a game that has not begun
        except BaseException:
            with suppress(UserError):
                self.close()
            raise
        if self.action_names[0] != "NOOP":
            self._most_no_ops = 0

    def _look(self) -> None:
        """Find out what to see: the observations, or where they are no images, the pictures of `render`."""
        convert, self._space = seen(self._env, self._spec.id), self._env.observation_space
        self._renders = convert is None
        if convert is None:
            self.close()  # before the next is opened: there may be room for one only, as with a port
            self._env = open_env(self._spec, render_mode="rgb_array")
            self._ask("reset", seed=0)
            picture = self._ask("render")  # now, so that a missing library is noticed before the run begins
            if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8:
                raise self._error(f"render() returned {in_short(picture)}: make it return uint8 [H, W, 3]")
            self._space = Box(0, 255, picture.shape, np.uint8)
            try:
                convert = converter(self._space)
            except UserError as error:
                raise self._error(f"render() returned {in_short(picture)}, {error}") from None
            if convert is None:
                raise self._error(f"render() returned {in_short(picture)}, no image: {ACCEPTED}")
        self._convert = convert

    def _restart(self) -> None:
        self._frames = 0
        self._terminal = self._cut_off = False
        seed = int(self.random.integers(SEEDS))
        self._observation, _ = self._ask("reset", "observation, info", seed=seed)
        if self._watcher:
            self._watcher(Frame.silent(self._seen()))

    def act(self, action: int, screen: Screen) -> tuple[float, bool, bool]:
        """Hold `action` for `frame_skip` frames, or until the game ends.

        Raises:
            UserError: The environment fails, or an observation or a reward is not one that it may return.
        """
        reward = self._hold(action, self._frame_skip)
        self._draw(screen)
        return reward, self._terminal, self._ended()

    def _hold(self, action: int, frames: int) -> float:
        total = 0.0
        for _ in range(frames):
            self._frames += 1
            answer = self._ask(
                "step", "observation, reward, terminated, truncated, info", self._first_action + action
            )
            self._observation, reward, terminated, truncated, _ = answer
            points = self._points(reward)
            total = self._points(total + points)
            self._terminal = self._is_true(terminated, "terminated")
            self._cut_off = self._is_true(truncated, "truncated") or self._frames >= self._frame_limit
            if self._watcher:
                self._watcher(Frame.silent(self._seen(), points))
            if self._ended():
                break
        return total

    def _ended(self) -> bool:
        return self._terminal or self._cut_off

    def _draw(self, screen: Screen) -> None:
        picture = self._seen()
        scale(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY) if picture.ndim == 3 else picture, screen)

    def _seen(self) -> NDArray[np.uint8]:
        """Return the current picture, uint8 [height, width], or [height, width, 3] in color."""
        image = self._ask("render") if self._renders else self._observation
        plain = isinstance(image, np.ndarray) and not isinstance(image, np.ma.MaskedArray)
        if plain and self._space.contains(image):
            return self._convert(image)
        what = "render()" if self._renders else "the observation"
        raise self._error(f"{what} is {in_short(image)}, not in {in_short(self._space)}: make them agree")

    def _points(self, reward: Any) -> float:
        """Return a reward as a number that float32 can hold."""
        number = math.nan
        if not (isinstance(reward, str | bytes | np.ma.MaskedArray) or np.iscomplexobj(reward)):
            with suppress(TypeError, ValueError, OverflowError):
                number = float(reward.item() if isinstance(reward, np.ndarray) else reward)
        if not abs(number) <= MOST_POINTS:
            paid = textwrap.shorten(repr(reward), 60)
            raise self._error(f"the reward is {paid}: make it a finite number")
        return number

    def _is_true(self, answer: Any, what: str) -> bool:
        """Return `answer`, by which the game says `what`, as a truth value; an array or a text is none."""
        if isinstance(answer, bool | np.bool_) or (isinstance(answer, int | np.integer) and answer in (0, 1)):
            return bool(answer)
        raise self._error(f"{what} is {textwrap.shorten(repr(answer), 60)}: make it True or False")

    def get_state(self) -> CheckpointState:
        """Return the random streams, and the state of a game that can be saved.

        Raises:
            UserError: `get_state` of the environment fails, or returns what no checkpoint can hold.
        """
        if not self.can_save:
            return super().get_state()
        env: Any = self._env.unwrapped
        try:
            own = plain(call_foreign(f"{self._where()}: get_state()", env.get_state))
        except TypeError as error:
            raise self._error(f"get_state() returned {error}: keep to numbers, text, arrays, lists") from None
        random = dict(env.np_random.bit_generator.state)
        return {"env": own, "env_random": random, "frames": self._frames, **super().get_state()}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned.

        Raises:
            UserError: The checkpoint was made without `get_state`, or `set_state` of the environment fails.
        """
        super().set_state(state)
        if not self.can_save:
            return
        if "env" not in state:
            raise UserError(
                f"the checkpoint has no state of {self.name}, whose get_state is new: move its folder away, "
                "and ./resume.sh will continue from a snapshot's weights"
            )
        self._ask("reset", seed=0)  # without which Gymnasium allows no step
        env: Any = self._env.unwrapped
        call_foreign(f"{self._where()}: set_state()", env.set_state, plain(state["env"]))
        env.np_random.bit_generator.state = state["env_random"]
        self._frames, self._terminal, self._cut_off = state["frames"], False, False
        for layer in layers(self._env):
            if isinstance(layer, TimeLimit):
                layer._elapsed_steps = self._frames  # type: ignore[assignment]

    def _ask(self, method: str, parts: str = "", *arguments: Any, **named: Any) -> Any:
        """Return what a method of the environment returns, a tuple of `parts` if they are named.

        Raises:
            UserError: It failed, or returned anything else.
        """
        place = f"{self._where()}: {method}()"
        answer = call_foreign(place, getattr(self._env, method), *arguments, **named)
        if parts and not (isinstance(answer, tuple) and len(answer) == parts.count(",") + 1):
            raise self._error(f"{method}() returned {in_short(answer)}: make it return {parts}")
        return answer

    def _where(self) -> str:
        return f"{self._spec.id}, step {self._frames} of a game"

    def _error(self, problem: str) -> UserError:
        return UserError(f"{self._where()}: {problem}")

    def close(self) -> None:
        """Close the environment.

        Raises:
            UserError: It fails.
        """
        close_env(self._env, self._spec.id)


def open_game(
    config: EnvironmentConfig, stream: np.random.Generator, training: bool, watcher: Watcher | None
) -> Game:
    """Return the Gymnasium environment `config.game`: an `AtariGame` if it is ale-py's.

    Raises:
        UserError: There is no such environment, it has no discrete actions, or it cannot be seen.
    """
    if not is_atari(config):
        return GymnasiumGame(config, stream, watcher)
    settings = atari_settings(find_spec(config))
    of_rom = replace(as_played(config), game=str(ale_py.roms.get_rom_path(settings["game"])))
    variant = Variant(settings.get("mode"), settings.get("difficulty"))
    game = AtariGame(of_rom, stream, training, watcher, variant)
    game.name = game_name(config.game)
    return game


def as_played(config: EnvironmentConfig) -> EnvironmentConfig:
    """Return `config` as its environment plays it: with the actions and the no-ops that it has.

    Raises:
        UserError: There is no such environment, it has no discrete actions, or it cannot be seen.
    """
    spec = find_spec(config)
    if is_atari(config):
        full = atari_settings(spec)["full_action_space"]
        return replace(config, minimal_action_set=False) if full else config
    env = open_env(spec)
    try:
        if seen(env, spec.id) is None:
            space = in_short(env.observation_space)
            logger.info("%s observes %s: the screens are what render() draws", spec.id, space)
        if action_names(env, spec.id)[0] == "NOOP":
            return config
    finally:
        close_env(env, spec.id)
    return replace(config, random_starts=0, random_start_frames=0)


def is_atari(config: EnvironmentConfig) -> bool:
    """Return whether the id `config.game` is one of ale-py's, without a wrapper that changes the game."""
    spec = find_spec(config)
    if spec.entry_point != ATARI or spec.kwargs.get("continuous"):
        return False
    return not spec.additional_wrappers and spec.max_episode_steps is None


def atari_settings(spec: EnvSpec) -> dict[str, Any]:
    """Return the arguments with which `spec` opens ale-py's `AtariEnv`, the defaults included.

    Raises:
        UserError: `AtariEnv` has no such argument, or lacks one, or the game is not one that it can play.
    """
    try:
        bound = inspect.signature(AtariEnv).bind(**spec.kwargs)
    except TypeError as error:
        raise UserError(
            f"{spec.id} cannot be opened: {error}: register it with what AtariEnv takes"
        ) from None
    bound.apply_defaults()
    game = bound.arguments["game"]
    if game not in known_games():  # ALE would end the whole process
        near = difflib.get_close_matches(str(game), known_games(), n=1)
        hint = f"did you mean {near[0]}?" if near else "register it with a game such as pong"
        raise UserError(f"{spec.id} cannot be opened: there is no game called {game!r}: {hint}")
    return bound.arguments


def game_name(game: str) -> str:
    """Return the id `game` as it can stand in the name of a file."""
    return game.replace("/", "_")


def knows(game: str) -> bool:
    """Return whether Gymnasium has an environment called `game`."""
    with suppress(UserError):
        return bool(find_spec(EnvironmentConfig(game=game)))
    return False


def find_spec(config: EnvironmentConfig) -> EnvSpec:
    """Return the entry of `config.game` in Gymnasium's registry, without opening the environment.

    The game is an id, such as `ALE/Pong-v5`, with or without its version, or the `game_name` by which a
    snapshot knows it.

    Raises:
        UserError: There is none.
    """
    name = config.game
    try:
        if name not in gymnasium.registry:
            wanted = name.removeprefix("ale_py_")  # from the id ale_py:ALE/Pong-v5
            name = next((known for known in gymnasium.registry if game_name(known) == wanted), name)
        if name not in gymnasium.registry:
            space, bare, version = parse_env_id(name)
            if version is None:
                name = get_env_id(space, bare, find_highest_version(space, bare))
        return gymnasium.registry[name]
    except (KeyError, gymnasium.error.Error):
        near = difflib.get_close_matches(name, gymnasium.registry, n=3)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else "give --import with the file that registers it"
        )
        if config.imports and config.imports != own_code.names():
            hint = f"it was trained with --import {config.imports}, so give that again, with the file's path"
        raise UserError(f"Gymnasium has no environment {name!r}: {hint}") from None


def open_env(spec: EnvSpec, **arguments: Any) -> AnyEnv:
    """Return the environment of `spec`.

    Raises:
        UserError: It has no discrete actions, or fails.
    """
    if spec.entry_point in (ATARI, "ale_py:AtariEnv", AtariEnv):
        atari_settings(spec)
    try:
        env: AnyEnv = gymnasium.make(spec, disable_env_checker=True, **arguments)
    except (Exception, SystemExit) as error:
        raise UserError(f"{spec.id} cannot be opened: {cause(error)}") from error
    try:
        actions = call_foreign(f"{spec.id}: action_space", getattr, env, "action_space", None)
        if not isinstance(actions, Discrete):
            found = in_short(actions)
            raise UserError(f"{spec.id} has no discrete actions but {found}: choose another environment")
    except UserError:
        with suppress(UserError):
            close_env(env, spec.id)
        raise
    return env


def close_env(env: AnyEnv, name: str) -> None:
    """Close `env`.

    Raises:
        UserError: It fails.
    """
    call_foreign(f"{name}: close()", env.close)


def seen(env: AnyEnv, name: str) -> Converter | None:
    """Return the function that makes pictures of the observations of `env`; None: `render` draws them.

    Raises:
        UserError: It cannot be seen in either way.
    """
    space = call_foreign(f"{name}: observation_space", getattr, env, "observation_space", None)
    try:
        convert = converter(space) if space is not None else None
    except UserError as error:
        raise UserError(f"{name} observes {in_short(space)}, {error}") from None
    modes = metadata(env).get("render_modes") or ()
    if convert is None and "rgb_array" not in modes:
        raise UserError(
            f"{name} has no pixels: it observes {in_short(space)} and has no render_mode rgb_array "
            f"(it has {', '.join(map(str, modes)) or 'none'}); {ACCEPTED}"
        )
    return convert


def metadata(env: AnyEnv) -> Mapping[str, Any]:
    """Return the metadata of `env`; none where they are no dictionary."""
    found = call_foreign("metadata", getattr, env, "metadata", None)
    return found if isinstance(found, Mapping) else {}


def frame_rate(env: AnyEnv) -> float:
    """Return how many frames of `env` make a second: its `render_fps`, or 60 where that is no such number."""
    rate, (least, most) = metadata(env).get("render_fps"), FRAME_RATES
    if isinstance(rate, float | int | np.number) and rate is not True and least <= rate <= most:
        return float(rate)
    return FRAMES_PER_SECOND


def layers(env: AnyEnv) -> Iterator[AnyEnv]:
    """Yield the wrappers of an environment, from the outside."""
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env


def action_names(env: AnyEnv, name: str = "the environment") -> tuple[str, ...]:
    """Return the names of the actions, as `get_action_meanings` of Atari games gives them, or numbers.

    They are numbers where the names may belong to other actions: under a wrapper that changes actions, or one
    from elsewhere that has a `step` of its own and no `get_action_meanings`.

    Raises:
        UserError: `get_action_meanings` of the environment `name` fails, or returns no list.
    """
    by_number = tuple(map(str, range(int(env.action_space.n))))  # type: ignore[attr-defined]
    for layer in (*layers(env), env.unwrapped):
        if hasattr(layer, "get_action_meanings"):
            given = call_foreign(f"{name}: get_action_meanings()", layer.get_action_meanings)
            if not isinstance(given, list | tuple | np.ndarray):
                problem = f"get_action_meanings() returned {in_short(given)}: make it return a list of names"
                raise UserError(f"{name}: {problem}")
            meanings = tuple(map(str, given))
            return meanings if len(meanings) == len(by_number) else by_number
        of_gymnasium = type(layer).__module__.startswith("gymnasium.wrappers.")
        if isinstance(layer, gymnasium.ActionWrapper) or not (of_gymnasium or type(layer).step in HARMLESS):
            break
    return by_number


def plain(value: Any, inside_list: bool = False) -> Any:
    """Return a copy of `value` of the types that a checkpoint can hold: lists hold no arrays or dicts.

    Raises:
        TypeError: It has others.
    """
    if isinstance(value, dict) and not inside_list and all(isinstance(key, str) for key in value):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one, inside_list=True) for one in value]
    if isinstance(value, np.ndarray) and not inside_list and value.dtype.kind in "biuf":
        return value.copy()
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(in_short(value))


def in_short(value: object) -> str:
    """Return what `value` is, a space or an answer of an environment, in a few words."""
    if isinstance(value, gymnasium.Space):
        return textwrap.shorten(str(value), 160)
    if isinstance(value, np.ma.MaskedArray):
        return f"a masked array, {value.dtype} {value.shape}"
    if isinstance(value, np.ndarray):
        numeric = value.size and value.dtype.kind in "buif"
        values = f" from {float(value.min()):g} to {float(value.max()):g}" if numeric else ""
        return f"{value.dtype} {value.shape}{values}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__}"


class GymnasiumVectorEnv(gymnasium.vector.VectorEnv[Screens, Actions, Mask]):
    """E games of an `Environment` as a `gymnasium.vector.VectorEnv`.

    Observations are screens uint8 [E, H, W]. A game ends by `terminations` or `truncations`, and the next
    step starts it anew (`AutoresetMode.NEXT_STEP`). A lost life, an episode's end in training, ends no game:
    `info["terminals"]` has it.

    Example:
        >>> envs = simple_dqn.GymnasiumVectorEnv(lambda seed: simple_dqn.make("pong", games=8, seed=seed))
        >>> screens, _ = envs.reset(seed=0)
    """

    def __init__(self, make: MakeEnvironment, seed: int | None = None) -> None:
        """Make the games from `seed`, or None: a random one; `reset(seed=...)` calls `make` again.

        Raises:
            UserError: They cannot be played.
        """
        self._make = make
        self.environment = self._made(draw_seed() if seed is None else seed)
        self.num_envs = self.environment.games
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}
        self.single_observation_space = Box(0, 255, self.environment.screen_shape, np.uint8)
        self.single_action_space = Discrete(self.environment.actions)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Screens, Info]:
        """Start every game anew, and return the first screens, uint8 [E, H, W], and info.

        A `seed` decides all randomness from here on, for which the games are made again; None: goes on.
        """
        super().reset(seed=seed, options=options)
        if seed is not None:
            self.environment.close()
            self.environment = self._made(seed)
        step = self.environment.reset()
        return step.screens, {"terminals": step.terminals}

    def step(  # type: ignore[override]  # Gymnasium gives rewards and ends one type
        self, actions: Actions
    ) -> tuple[Screens, Rewards, Mask, Mask, Info]:
        """Take an action in every game, `actions` int64 [E]; a game that has ended starts anew instead.

        Returns:
            Screens uint8 [E, H, W], rewards float32 [E] in raw game points, terminations bool [E],
            truncations bool [E], and info.
        """
        step = self.environment.step(np.asarray(actions))
        info = {"terminals": step.terminals}
        return step.screens, step.rewards, step.terminals & step.resets, step.truncations, info

    def _made(self, seed: int) -> Environment:
        try:
            inspect.signature(self._make).bind(seed)
        except (TypeError, ValueError):
            made: object = None
        else:
            made = self._make(seed)
        if not isinstance(made, Environment):
            raise UserError(f"{self._make!r} makes no games: give a function from a seed to an environment")
        return made

    def close_extras(self, **_options: Any) -> None:
        """Close the games."""
        self.environment.close()


class GymnasiumEnv(gymnasium.Env[Screen, int]):
    """One game of an `Environment` as a `gymnasium.Env`; see `GymnasiumVectorEnv`.

    Example:
        >>> env = simple_dqn.GymnasiumEnv(lambda seed: simple_dqn.make("pong", seed=seed))
        >>> env = gymnasium.wrappers.FrameStackObservation(env, 4, padding_type="zero")
        >>> states, _ = env.reset(seed=0)
        >>> env.step(agent.act(states[np.newaxis])[0])
    """

    def __init__(self, make: MakeEnvironment, seed: int | None = None) -> None:
        """Make the game; `make` makes an environment of one game from a seed.

        Raises:
            UserError: It cannot be played, or there are several.
        """
        self._games = GymnasiumVectorEnv(make, seed)
        if self._games.num_envs != 1:
            raise UserError("GymnasiumEnv is for one game: use GymnasiumVectorEnv for several")
        self.observation_space = self._games.single_observation_space
        self.action_space = self._games.single_action_space
        self.metadata = {"render_modes": []}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Screen, Info]:
        """Start a game; see `GymnasiumVectorEnv.reset`."""
        super().reset(seed=seed, options=options)
        screens, info = self._games.reset(seed=seed)
        return screens[0], {"terminals": info["terminals"][0]}

    def step(self, action: int) -> tuple[Screen, float, bool, bool, Info]:
        """Take `action`; return the screen, the reward, whether the game ended or was cut off, and info."""
        screens, rewards, terminations, truncations, info = self._games.step(np.array([action]))
        ends = bool(terminations[0]), bool(truncations[0])
        return screens[0], float(rewards[0]), *ends, {"terminals": info["terminals"][0]}

    def close(self) -> None:
        """Close the game."""
        self._games.close()
