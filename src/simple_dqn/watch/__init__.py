"""Watch an agent play, take over from it, and film it."""

import os

# pygame and blessed read these when they are imported.
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # no greeting on standard output
os.environ.setdefault("BLESSED_QUERY_TIMEOUT_SECONDS", "1")  # how long to wait for a terminal's answer
