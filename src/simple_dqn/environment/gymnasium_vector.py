"""Any environment of ours as one of Gymnasium's, for the loops and the libraries that take those."""

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from simple_dqn.environment.interface import Environment, Screen
from simple_dqn.errors import UserError
from simple_dqn.random_streams import draw_seed
from simple_dqn.types import Actions, Mask, Rewards, Screens

MakeEnvironment: TypeAlias = Callable[[int], Environment]  # from a seed
Info: TypeAlias = dict[str, Any]


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
        if not callable(make):
            raise UserError(f"{make!r} makes no games: give a function from a seed to an environment")
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
