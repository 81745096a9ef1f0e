"""What holds for every test."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from simple_dqn import main, own_code
from simple_dqn.config import REGISTERED

# A busy machine is no fault: no test looks at the time, so neither does Hypothesis.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_configure() -> None:
    """Let Ctrl-C be heard, and give each worker of pytest-xdist a core of its own.

    What a shell starts in the background ignores Ctrl-C, and so would all that the tests start. Threads of
    two workers on one core wait for each other.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker) % len(cores)]})


@pytest.fixture(autouse=True)
def _log_of_its_own() -> Iterator[None]:
    """Undo what a verb run by the test set in the log: its level would hide the next tests' messages."""
    root = logging.getLogger()
    level, disabled = root.level, root.manager.disable
    yield
    root.setLevel(level)
    logging.disable(disabled)


@pytest.fixture(autouse=True)
def _imports_of_its_own() -> Iterator[None]:
    """Forget the files that the test imports, and what they register with Gymnasium."""
    yield
    for name in [one for ids in own_code.IMPORTED.values() for one in ids]:
        sys.modules["gymnasium"].registry.pop(name, None)
    own_code.IMPORTED.clear()


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that carries out a command in a folder of its own below `tmp_path`."""

    def run(folder: str, *arguments: str) -> int:
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        monkeypatch.setenv("SIMPLE_DQN_HOME", ".")
        return main.run(arguments)

    return run


@pytest.fixture
def tables() -> Iterator[None]:
    """Forget what the test registers."""
    from simple_dqn.dqn import TARGET_RULES
    from simple_dqn.networks import NETWORKS
    from simple_dqn.samplers import SAMPLERS
    from simple_dqn.statistics.writers import TRACKERS

    tables: tuple[dict[str, Any], ...] = (NETWORKS, TARGET_RULES, SAMPLERS, TRACKERS)
    entries = [dict(table) for table in tables]
    names = {setting: list(known) for setting, known in REGISTERED.items()}
    yield
    for table, before in zip(tables, entries, strict=True):
        table.clear()
        table.update(before)
    for setting, known in names.items():
        REGISTERED[setting][:] = known
