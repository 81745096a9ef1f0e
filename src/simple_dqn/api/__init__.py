"""The Python API: what the command line does, as functions and classes. `simple_dqn` re-exports it.

Flags are keyword arguments with the names and limits that `--help all` lists. Errors have the messages of the
command line, and are raised as `UserError`.
"""

from simple_dqn.api.registration import (
    register_network,
    register_sampler,
    register_target_rule,
    register_track,
)
from simple_dqn.api.trained_agent import TrainedAgent, load
from simple_dqn.api.training import make, train
from simple_dqn.environment.gymnasium import GymnasiumEnv, GymnasiumVectorEnv
from simple_dqn.errors import UserError

__all__ = [
    "GymnasiumEnv",
    "GymnasiumVectorEnv",
    "TrainedAgent",
    "UserError",
    "load",
    "make",
    "register_network",
    "register_sampler",
    "register_target_rule",
    "register_track",
    "train",
]
