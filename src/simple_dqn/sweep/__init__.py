"""Many games and seeds, each an ordinary training: what is to run, how it stands, what it came to."""

from simple_dqn.sweep.plan import ALL, Places, Plan, Run, check_same, find_games, remember
from simple_dqn.sweep.schedule import Row, Sweep

__all__ = ["ALL", "Places", "Plan", "Row", "Run", "Sweep", "check_same", "find_games", "remember"]
