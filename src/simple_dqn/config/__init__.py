"""Every setting, in one frozen dataclass per room; the command line's flags are made from them.

A field's name is its flag's name, its default the flag's default, and its help says the unit.
A "step" is one choice of the agent: `frame_skip` frames of the emulator in one game.
"""

from simple_dqn.config.agent import AgentConfig
from simple_dqn.config.backend import BackendConfig
from simple_dqn.config.cluster import ClusterConfig
from simple_dqn.config.config import Config
from simple_dqn.config.environment import EnvironmentConfig
from simple_dqn.config.memory import MemoryConfig
from simple_dqn.config.network import NetworkConfig
from simple_dqn.config.presets import APE_X_EXPLORATION, PRESETS, USUAL
from simple_dqn.config.run import RunConfig

__all__ = [
    "APE_X_EXPLORATION",
    "PRESETS",
    "USUAL",
    "AgentConfig",
    "BackendConfig",
    "ClusterConfig",
    "Config",
    "EnvironmentConfig",
    "MemoryConfig",
    "NetworkConfig",
    "RunConfig",
]
