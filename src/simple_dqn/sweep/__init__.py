"""Trains games with several settings and seeds, and compares the settings.

`plan.py` has the runs and their files, `runner.py` carries out each in a process of its own, on this machine
or on a Ray cluster, `scheduler.py` follows them and starts those that fail again, and `report.py` shows,
compares and draws them by the measures in `measures.py`.

This file imports nothing: `python -m simple_dqn.sweep.runner` starts each run, and should not wait.
"""
