"""Simple-DQN: the Deep Q-Network for Atari, simple enough to read and fast enough to use.

The names in `__all__` are the Python API (docs/api.md); each is imported when it is first used.
"""

# ruff: noqa: F405

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simple_dqn.api import *  # noqa: F403
    from simple_dqn.environment.gymnasium import GymnasiumEnv
    from simple_dqn.errors import UserError

__version__ = "1.0.0"
__all__ = [
    "GymnasiumEnv",
    "Settings",
    "TrainedAgent",
    "TrainingRun",
    "UserError",
    "__version__",
    "load",
    "make",
    "register_network",
    "register_sampler",
    "register_target_rule",
    "register_track",
    "train",
]


if not TYPE_CHECKING:  # for which the names are those imported above

    def __getattr__(name: str) -> Any:
        """Return the public object `name`, whose module is imported now."""
        if name not in __all__:
            raise AttributeError(f"module 'simple_dqn' has no attribute {name!r}")
        module = {"GymnasiumEnv": "environment.gymnasium", "UserError": "errors"}.get(name, "api")
        return getattr(import_module(f"simple_dqn.{module}"), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
