"""Training: the schedules of one agent, and the epochs that they run in."""

from simple_dqn.training.epochs import Epochs
from simple_dqn.training.phase import Phase
from simple_dqn.training.schedule import OneMachine, Schedule

__all__ = ["Epochs", "OneMachine", "Phase", "Schedule"]
