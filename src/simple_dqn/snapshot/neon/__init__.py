"""Snapshots of the original simple_dqn, pickled by Neon in Python 2: read as data, never executed."""

from simple_dqn.snapshot.neon.network import read

__all__ = ["read"]
