"""Checks of this machine before a long run is trusted to it: `CHECKS`, in their order."""

from simple_dqn.doctor.checks import CHECKS, trial_of
from simple_dqn.doctor.findings import Check, Finding, Level, examine

__all__ = ["CHECKS", "Check", "Finding", "Level", "examine", "trial_of"]
