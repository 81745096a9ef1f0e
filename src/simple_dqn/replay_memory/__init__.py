"""The replay memory: storage of screens, transitions and their sampling."""

from simple_dqn.replay_memory.memory import ReplayMemory, rows_for

__all__ = ["ReplayMemory", "rows_for"]
