"""From an id of Gymnasium's to its environment, and what that environment does by itself."""

import difflib
import functools
import inspect
import logging
import re
from typing import Any, TypeAlias

import ale_py
import gymnasium

from simple_dqn.errors import UserError

log = logging.getLogger(__name__)

AnyEnv: TypeAlias = gymnasium.Env[Any, Any]

ATARI = "ale_py.env:AtariEnv"
FRAME_SKIPS = ("frameskip", "frame_skip")  # what environments call the frames of one of their steps
# Wrappers that skip, repeat or stack frames, such as FrameStackObservation and AtariPreprocessing.
OF_FRAMES = re.compile("Skip|Stack|Repeat|AtariPreprocessing")

gymnasium.register_envs(ale_py)  # ids such as ALE/Pong-v5


def game_name(game: str) -> str:
    """Return the id `game` as it can stand in the name of a file."""
    return game.replace("/", "_").replace(":", "_")


def open_env(game: str, **arguments: Any) -> AnyEnv:
    """Return Gymnasium's environment `game`, made with `arguments`.

    A snapshot knows it by its `game_name`: where that is no id, the one that has this name is meant.

    Raises:
        UserError: There is no such environment, or it lacks a library.
    """
    name = game
    if game not in gymnasium.registry:
        name = next((known for known in gymnasium.registry if game_name(known) == game), game)
    try:
        return gymnasium.make(name, disable_env_checker=True, **arguments)
    except (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError) as error:
        raise UserError(f"{name} needs a library that is not installed: {one_line(error)}") from None
    except gymnasium.error.Error:
        near = difflib.get_close_matches(name, gymnasium.registry, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "give an id such as CartPole-v1"
        raise UserError(f"Gymnasium has no environment {name!r}: {hint}") from None


def is_atari(env: AnyEnv) -> bool:
    """Return whether `env` is one of ale-py's, with nothing around it that would change the game."""
    spec = env.spec
    if spec is None or spec.entry_point != ATARI or spec.kwargs.get("continuous"):
        return False
    return not spec.additional_wrappers and spec.max_episode_steps is None


def action_meanings(env: AnyEnv) -> tuple[str, ...]:
    """Return the names that `env` has for its actions, as Atari games do; none where it has none."""
    meanings = getattr(env.unwrapped, "get_action_meanings", None)
    return tuple(meanings()) if meanings else ()


def why_no_no_ops(env: AnyEnv) -> str | None:
    """Return why the games of `env` cannot start with no-ops; None: its action 0 is one."""
    first = next(iter(action_meanings(env)), None)
    if first == "NOOP":
        return None
    return f"its action 0 is {first}, not NOOP" if first else "it does not say that its action 0 does nothing"


def tell_of_frames(env: AnyEnv) -> None:
    """Log what becomes of the frames of `env`, if it skips or stacks them by itself; once for each id."""
    assert env.spec
    if is_atari(env):
        _log_once(
            f"{env.spec.id} is played frame by frame, as --environment ale plays it: --frame_skip and "
            "--repeat_action_probability replace its own"
        )
        return
    arguments = inspect.signature(type(env.unwrapped)).parameters
    settings = {name: argument.default for name, argument in arguments.items()} | env.spec.kwargs
    own = [f"{name} {settings[name]}" for name in FRAME_SKIPS if settings.get(name, 1) != 1]
    own += [wrapper.name for wrapper in env.spec.additional_wrappers if OF_FRAMES.search(wrapper.name)]
    if own:
        _log_once(
            f"{env.spec.id} skips or stacks frames by itself ({', '.join(own)}): --frame_skip and "
            "--max_game_frames count its steps, not frames"
        )


@functools.cache  # there are games for training and for tests, and several side by side
def _log_once(line: str) -> None:
    log.info("%s", line)


def one_line(error: Exception) -> str:
    """Return what `error` says in one line."""
    return " ".join(str(error).split())
