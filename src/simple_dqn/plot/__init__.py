"""The curves of one run, or of several beside each other: as a picture, as a page, as they grow.

It reads the CSV only. `panels` says what is drawn, `png`, `html` and `window` draw it, `live` draws it again.
"""

from simple_dqn.plot.command import main

__all__ = ["main"]
