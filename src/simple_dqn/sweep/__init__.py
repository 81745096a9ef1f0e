"""Trains many games with several seeds each.

`plan.py` has the runs and their files. `runner.py` carries out each run in a process of its own, where Ray
has room; `scheduler.py` starts those that fail again. `results.py` reads the CSVs and combines the scores,
which `summary.py` writes to CSVs and `report.py` shows and draws.

This file imports nothing: `python -m simple_dqn.sweep.runner` starts each run, and should not wait.
"""
