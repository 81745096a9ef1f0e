"""The replay memory, and the current states on which the agent acts."""

from simple_dqn.replay_memory.memory import ReplayMemory, rows_for
from simple_dqn.replay_memory.transitions import StateBuffer

__all__ = ["ReplayMemory", "StateBuffer", "rows_for"]
