"""The replay memory, and the current states on which the agent acts."""

from simple_dqn.replay_memory.memory import ReplayMemory, rows_for

__all__ = ["ReplayMemory", "rows_for"]
