"""What is remembered: the replay memory, and the current states that the agent acts on."""

from simple_dqn.replay_memory.memory import ReplayMemory, rows_for
from simple_dqn.replay_memory.transitions import StateBuffer

__all__ = ["ReplayMemory", "StateBuffer", "rows_for"]
