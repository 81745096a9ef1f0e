"""Games in processes of their own, which play at the same time."""

from simple_dqn.environment.processes.vector import ProcessVector

__all__ = ["ProcessVector"]
