"""Training: the schedules of one agent, and the epochs that they run in."""

from simple_dqn.training.epochs import Epochs
from simple_dqn.training.phase import Phase

__all__ = ["Epochs", "Phase"]
