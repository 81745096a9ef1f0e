"""The deep Q-network: states in, Q-values out, and the update that makes them better. PyTorch lives here."""

from simple_dqn.deepqnetwork.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.threads import use_one_thread

__all__ = ["DeepQNetwork", "use_one_thread"]
