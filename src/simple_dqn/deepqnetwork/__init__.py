"""The deep Q-network: states in, Q-values out, and the update that improves them. It alone uses PyTorch."""

from simple_dqn.deepqnetwork.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.update import PreparedBatch, UpdateOutcome

__all__ = ["DeepQNetwork", "PreparedBatch", "UpdateOutcome"]
