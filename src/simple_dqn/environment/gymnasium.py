"""Gymnasium's environments with discrete actions, seen as screens.

An environment of ale-py's is played as `--environment ale` plays it. In any other, the screen is the
observation if that is an image; where that is numbers, it is the picture that `render` draws.
"""

import difflib
import inspect
import logging
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
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

from simple_dqn import own_code
from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.ale import AtariGame
from simple_dqn.environment.emulator import Variant
from simple_dqn.environment.frames import SEEDS, FrameGame, scale
from simple_dqn.environment.interface import (
    FRAMES_PER_SECOND,
    Frame,
    Game,
    Outcome,
    Screen,
    Watcher,
    game_points,
    is_true,
)
from simple_dqn.environment.roms import known_games
from simple_dqn.errors import UserError, call_foreign, cause
from simple_dqn.types import CheckpointState

logger = logging.getLogger(__name__)

AnyEnv: TypeAlias = gymnasium.Env[Any, Any]
Space: TypeAlias = gymnasium.Space[Any]
Converter: TypeAlias = Callable[[NDArray[Any]], NDArray[np.uint8]]

ATARI = "ale_py.env:AtariEnv"
CHANNELS = (1, 3)  # of an image: grey, or red, green and blue
MOST_LEVELS = 2.0**32  # a wider range is that of the number type, such as float32, and not of grey levels
FRAME_RATES = (0.1, 1000.0)  # the least and the greatest `render_fps` that counts
ACCEPTED = "an image is (H, W), (H, W, 1), (H, W, 3), (1, H, W) or (3, H, W), with finite bounds"

ALEInterface.setLoggerMode(LoggerMode.Error)
gymnasium.register_envs(ale_py)  # ids such as ALE/Pong-v5


def converter(space: Space) -> Converter | None:
    """Return the function that makes pictures of the elements of `space`; None: they are numbers, as vectors.

    A picture is uint8 [height, width], or [height, width, 3] in colour. The least of the space's bounds
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
    first, last = (space.shape[place] in CHANNELS for place in (0, -1))
    problem = None
    if len(space.shape) > 3 or (len(space.shape) == 3 and not (first or last)):
        problem = "several images, or one with neither 1 nor 3 channels: leave out what stacks frames"
    elif len(space.shape) == 3 and first and last:
        problem = "which may have its channels first or last: make the images larger"
    elif not high - low <= MOST_LEVELS:
        problem = (
            "an image without the bounds of its grey levels: give its space finite ones, or observe a vector"
        )
    elif low == high:
        problem = "which has one value only: give it the bounds of its values"
    if problem:
        raise UserError(f"{problem}; {ACCEPTED}")
    as_it_is = space.dtype == np.uint8 and (low, high) == (0, 255)
    channels_first = len(space.shape) == 3 and first

    def convert(image: NDArray[Any]) -> NDArray[np.uint8]:
        if not as_it_is:
            image = np.rint((image.astype(np.float64) - low) * (255 / (high - low)))
        if channels_first:
            image = image.transpose(1, 2, 0)
        if image.ndim == 3 and image.shape[2] == 1:
            image = image[:, :, 0]
        return np.ascontiguousarray(image, np.uint8)

    return convert


def holds_images(space: Any) -> bool:
    """Return whether elements of `space`, or parts of them, have two sides or more, as images do."""
    parts = getattr(space, "spaces", None) or [getattr(space, "feature_space", None)]
    if any(map(holds_images, parts.values() if isinstance(parts, Mapping) else filter(None, parts))):
        return True
    shape: tuple[int, ...] = getattr(space, "shape", None) or ()
    return sum(side != 1 for side in shape) >= 2


class GymnasiumGame(FrameGame):
    """One of Gymnasium's environments, in steps of `frame_skip` of its own steps ("frames" here).

    Its games start without no-ops where action 0 is not called NOOP. It has no lives. Its games can be saved
    in the middle if the environment has `get_state` and `set_state`, and no wrapper with a state of its own.
    """

    def __init__(
        self,
        config: EnvironmentConfig,
        stream: np.random.Generator,
        watcher: Watcher | None,
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
        self._spec = find_spec(config.game, config.imports)
        self._env = open_env(self._spec)
        try:
            self._look()
            self.action_names = action_names(self._env, self._spec.id)
            self._first_action = int(self._env.action_space.start)  # type: ignore[attr-defined]
            self.frames_per_second = frame_rate(self._env)
            self.can_save = can_save(self._env)
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
        convert = seen(self._env, self._spec.id)
        self._renders = convert is None
        if convert is not None:
            self._space = self._env.observation_space
        else:
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
        answer = self._ask("reset", seed=int(self.random.integers(SEEDS)))
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise self._error(f"reset() returned {in_short(answer)}: make it return observation, info")
        self._observation = answer[0]
        if self._watcher:
            self._watcher(Frame.silent(self._seen()))

    def act(self, action: int, screen: Screen) -> Outcome:
        """Hold `action` for `frame_skip` frames, or until the game ends.

        Raises:
            UserError: The environment fails, or an observation or a reward is not one that it may return.
        """
        reward = self._hold(action, self._frame_skip)
        self._draw(screen)
        truncation = self._cut_off and not self._terminal
        return Outcome(reward, self._terminal, truncation, reset=self._ended())

    def _hold(self, action: int, frames: int) -> float:
        total = 0.0
        for _ in range(frames):
            self._frames += 1
            answer = self._ask("step", self._first_action + action)
            if not isinstance(answer, tuple) or len(answer) != 5:
                wanted = "observation, reward, terminated, truncated, info"
                raise self._error(f"step() returned {in_short(answer)}: make it return {wanted}")
            self._observation, reward, terminated, truncated, _ = answer
            points = game_points(reward, self._where())
            total = game_points(total + points, self._where())
            self._terminal = is_true(terminated, "terminated", self._where())
            self._cut_off = (
                is_true(truncated, "truncated", self._where()) or self._frames >= self._frame_limit
            )
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
        """Return the current picture, uint8 [height, width], or [height, width, 3] in colour."""
        image = self._ask("render") if self._renders else self._observation
        plain = isinstance(image, np.ndarray) and not isinstance(image, np.ma.MaskedArray)
        if plain and self._space.contains(image):
            return self._convert(image)
        what = "render()" if self._renders else "the observation"
        raise self._error(f"{what} is {in_short(image)}, not in {in_short(self._space)}: make them agree")

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
        if self.can_save:
            if "env" not in state:
                raise UserError(
                    f"the checkpoint has no state of {self.name}, whose get_state is new: move its folder "
                    "away, and ./resume.sh will continue from a snapshot's weights"
                )
            self._ask("reset", seed=0)  # without which Gymnasium allows no step
            env: Any = self._env.unwrapped
            call_foreign(f"{self._where()}: set_state()", env.set_state, plain(state["env"]))
            env.np_random.bit_generator.state = state["env_random"]
            self._frames, self._terminal, self._cut_off = state["frames"], False, False
            for layer in _layers(self._env):
                if isinstance(layer, TimeLimit):
                    layer._elapsed_steps = self._frames  # type: ignore[assignment]
        super().set_state(state)

    def _ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Return what a method of the environment returns.

        Raises:
            UserError: It failed.
        """
        return call_foreign(f"{self._where()}: {method}()", getattr(self._env, method), *arguments, **named)

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
    config: EnvironmentConfig,
    stream: np.random.Generator,
    training: bool,
    watcher: Watcher | None,
) -> Game:
    """Return the Gymnasium environment `config.game`: an `AtariGame` if it is ale-py's.

    Raises:
        UserError: There is no such environment, it has no discrete actions, or it cannot be seen.
    """
    if not is_atari(config):
        return GymnasiumGame(config, stream, watcher)
    settings = atari_settings(find_spec(config.game))
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
    spec = find_spec(config.game, config.imports)
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
    """Return whether the id `config.game` is one of ale-py's, with nothing around it that changes the game.

    Raises:
        UserError: There is no such environment.
    """
    spec = find_spec(config.game, config.imports)
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
        return bool(find_spec(game))
    return False


def find_spec(game: str, imports: str | None = None) -> EnvSpec:
    """Return the entry of `game` in Gymnasium's registry, without opening the environment.

    Args:
        game: An id, such as `ALE/Pong-v5`, with or without its version, or the `game_name` by which a
            snapshot knows it.
        imports: The names of the files that a run imported, for the message.

    Raises:
        UserError: There is none.
    """
    name = game
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
        if imports and imports != own_code.names():
            hint = f"it was trained with --import {imports}, so give that again, with the path of the file"
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
    except UserError:
        with suppress(UserError):
            close_env(env, spec.id)
        raise
    if isinstance(actions, Discrete):
        return env
    close_env(env, spec.id)
    raise UserError(f"{spec.id} has no discrete actions but {in_short(actions)}: choose another environment")


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


def action_names(env: AnyEnv, name: str = "the environment") -> tuple[str, ...]:
    """Return the names of the actions, as `get_action_meanings` of Atari games gives them, or numbers.

    They are numbers where the names may belong to other actions: under a wrapper that changes actions, or one
    from elsewhere that has a `step` of its own and no `get_action_meanings`.

    Raises:
        UserError: `get_action_meanings` of the environment `name` fails, or returns no list.
    """
    space = env.action_space
    assert isinstance(space, Discrete)
    by_number = tuple(map(str, range(int(space.n))))
    layer = env
    while isinstance(layer, gymnasium.Wrapper) and not hasattr(layer, "get_action_meanings"):
        from_elsewhere = not type(layer).__module__.startswith("gymnasium.wrappers.")
        steps = type(layer).step is not gymnasium.Wrapper.step
        if isinstance(layer, gymnasium.ActionWrapper) or (from_elsewhere and steps and not _only_sees(layer)):
            return by_number
        layer = layer.env
    if not hasattr(layer, "get_action_meanings"):
        return by_number
    given = call_foreign(f"{name}: get_action_meanings()", layer.get_action_meanings)
    if not isinstance(given, list | tuple | np.ndarray):
        raise UserError(
            f"{name}: get_action_meanings() returned {in_short(given)}: make it return a list of names"
        )
    meanings = tuple(map(str, given))
    return meanings if len(meanings) == len(by_number) else by_number


def _only_sees(layer: AnyEnv) -> bool:
    """Return whether a wrapper's `step` is that of Gymnasium's wrappers of observations and rewards."""
    kinds = (gymnasium.ObservationWrapper, gymnasium.RewardWrapper)
    return any(isinstance(layer, kind) and type(layer).step is kind.step for kind in kinds)


def _layers(env: AnyEnv) -> Iterator[AnyEnv]:
    """Yield the wrappers of an environment, from the outside."""
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env


def can_save(env: AnyEnv) -> bool:
    """Return whether games of `env` can be saved: it has the methods, and only Gymnasium's own wrappers."""
    methods = (getattr(env.unwrapped, name, None) for name in ("get_state", "set_state"))
    stateless = (OrderEnforcing, PassiveEnvChecker, TimeLimit)
    return all(map(callable, methods)) and all(type(layer) in stateless for layer in _layers(env))


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
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(in_short(value))


def frame_rate(env: AnyEnv) -> float:
    """Return how many frames of `env` make a second: its `render_fps`, or 60 where that is no such number."""
    rate = metadata(env).get("render_fps")
    least, most = FRAME_RATES
    if isinstance(rate, float | int | np.number) and rate is not True and least <= rate <= most:
        return float(rate)
    return FRAMES_PER_SECOND


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
