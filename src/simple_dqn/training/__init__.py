"""Training: the schedules, which act and learn, and the epochs of a run."""

from simple_dqn.training.concurrent import ConcurrentSchedule
from simple_dqn.training.epochs import Epochs, Phase
from simple_dqn.training.overlapped import OverlappedSchedule
from simple_dqn.training.rollouts import RolloutSchedule
from simple_dqn.training.serial import SerialSchedule

__all__ = ["ConcurrentSchedule", "Epochs", "OverlappedSchedule", "Phase", "RolloutSchedule", "SerialSchedule"]
