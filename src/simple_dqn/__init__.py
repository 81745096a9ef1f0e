"""Simple-DQN: the Deep Q-Network for Atari, simple enough to read and fast enough to use."""

__version__ = "1.0.0"
