"""What holds for every test."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no fault: no test looks at the time, so neither does Hypothesis.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def _log_of_its_own() -> Iterator[None]:
    """Undo what a verb run by the test set in the log: its level would hide the next tests' messages."""
    root = logging.getLogger()
    level, disabled = root.level, root.manager.disable
    yield
    root.setLevel(level)
    logging.disable(disabled)
