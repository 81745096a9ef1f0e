"""An Atari 2600 in NVIDIA Warp: the same source plays many games at once on a CPU or a GPU.

It is written from the manuals of the hardware, and independent of `simple_dqn`.
"""
