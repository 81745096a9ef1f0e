"""All rooms' settings together."""

from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from simple_dqn.config.agent import AgentConfig
from simple_dqn.config.backend import BackendConfig
from simple_dqn.config.cluster import ClusterConfig
from simple_dqn.config.environment import EnvironmentConfig
from simple_dqn.config.memory import MemoryConfig
from simple_dqn.config.network import NetworkConfig
from simple_dqn.config.run import RunConfig


@dataclass(frozen=True)
class Config:
    """All settings of a run."""

    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    backend: BackendConfig = field(default_factory=BackendConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    run: RunConfig = field(default_factory=RunConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)

    @staticmethod
    def from_flags(flags: dict[str, Any]) -> "Config":
        """Return the settings in which `flags`, by flag name, replace the defaults.

        Names that no room knows are ignored: a snapshot may bring flags of another version.
        """
        return Config().with_flags(flags)

    def with_flags(self, flags: dict[str, Any]) -> "Config":
        """Return these settings with `flags`, by flag name, in place of their own."""
        rooms = {}
        for room in fields(self):
            settings = getattr(self, room.name)
            given = {f.name: flags[f.name] for f in fields(settings) if f.name in flags}
            rooms[room.name] = replace(settings, **given)
        return Config(**rooms)

    @property
    def seed(self) -> int:
        """The seed of all randomness, once one was given or drawn."""
        assert self.run.random_seed is not None
        return self.run.random_seed

    def flags(self) -> dict[str, Any]:
        """Return every setting by its flag's name."""
        return {name: value for room in asdict(self).values() for name, value in room.items()}

    def shared_flags(self) -> dict[str, Any]:
        """Return every setting but those that are about this machine, of a class's file all but the name."""
        settings = [setting for room in fields(self) for setting in fields(getattr(self, room.name))]
        local = {setting.name for setting in settings if setting.metadata["local"]}
        shared = {name: value for name, value in self.flags().items() if name not in local}
        if self.environment.own and Path(self.environment.environment).is_absolute():
            shared["environment"] = Path(self.environment.environment).name
        return shared
