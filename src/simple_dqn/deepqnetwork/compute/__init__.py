"""Devices, datatypes, threads and CUDA graphs: what makes the network fast, and nothing of the paper.

`deepqnetwork.py` alone imports this. A reader of the algorithm need not open it.
"""
