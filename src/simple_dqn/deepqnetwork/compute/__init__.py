"""Devices, datatypes, threads and CUDA graphs: they make the network fast, and are no part of the algorithm.

Only `deepqnetwork.py` imports this package. A reader of the algorithm need not open it.
"""
