"""The deep Q-network: states in, Q-values out, and the update that makes them better. PyTorch lives here."""

from simple_dqn.deepqnetwork.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.outcomes import UpdateOutcome
from simple_dqn.deepqnetwork.targets import PreparedBatch

__all__ = ["DeepQNetwork", "PreparedBatch", "UpdateOutcome"]
