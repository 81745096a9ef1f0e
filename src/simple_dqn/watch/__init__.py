"""Watching an agent: playing beside it, drawing what it thinks over the game, filming it."""

import os

# Both are read when the library is imported.
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # pygame would greet on standard output
os.environ.setdefault("BLESSED_QUERY_TIMEOUT_SECONDS", "1")  # it waits so long for terminals that are mute
