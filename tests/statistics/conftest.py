"""The summary of a phase, for the writers to write."""

import pytest

from simple_dqn.statistics import PhaseSummary


@pytest.fixture(scope="session")
def summary() -> PhaseSummary:
    return PhaseSummary(
        1, "train", 250, 3, -20.5, -21.0, -19.0, 0.1, 250, 300, 1 / 3, 0.001, 62, 12.5, 10.0, 25.0
    )
