"""What holds for every test."""

import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from simple_dqn import main, own_code
from simple_dqn.config import REGISTERED
from simple_dqn.statistics.writers import ConsoleHandler
from tests.command_line import Capsys, Patch, Told, catch, train_in

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


TABLES = {
    "simple_dqn.networks": "NETWORKS", "simple_dqn.dqn": "TARGET_RULES", "simple_dqn.samplers": "SAMPLERS",
    "simple_dqn.statistics.writers": "TRACKERS",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _process_as_it_was() -> Iterator[None]:
    """Undo what a verb run by the test set in the log, and forget what the test imported and registered."""
    root = logging.getLogger()
    root.setLevel(logging.WARNING)  # shared fixtures run verbs, too
    root.handlers[:] = [handler for handler in root.handlers if not isinstance(handler, ConsoleHandler)]
    disabled, handlers = root.manager.disable, root.handlers[:]
    names = {setting: list(known) for setting, known in REGISTERED.items()}
    tables = {module: dict(table) for module, table in _tables()}
    yield
    root.setLevel(logging.WARNING)
    root.handlers[:] = handlers
    logging.disable(disabled)
    for setting, several in names.items():
        REGISTERED[setting][:] = several
    known = {name for several in names.values() for name in several}
    for module, table in _tables():
        before = tables.get(module, {name: entry for name, entry in table.items() if name in known})
        table.clear()
        table.update(before)
    for name in [one for ids in own_code.IMPORTED.values() for one in ids]:
        sys.modules["gymnasium"].registry.pop(name, None)
    own_code.IMPORTED.clear()


def _tables() -> list[tuple[str, dict[str, Any]]]:
    return [
        (name, getattr(sys.modules[name], table)) for name, table in TABLES.items() if name in sys.modules
    ]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: Patch) -> Path:
    """Return the project's folder, which is empty, and the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def told(capsys: Capsys) -> Told:
    """Return a function that carries out a command, and returns what it says on standard error."""

    def run(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main.run(arguments) == code
        return capsys.readouterr().err

    return run


@pytest.fixture
def start(tmp_path: Path, monkeypatch: Patch) -> Callable[..., int]:
    def run(folder: str, *arguments: str) -> int:
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        monkeypatch.setenv("SIMPLE_DQN_HOME", ".")
        return main.run(arguments)

    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of two epochs, which no test may change."""
    return train_in(tmp_path_factory.mktemp("trained"), *catch(epochs=2))


@pytest.fixture
def finished(trained: Path, tmp_path: Path, monkeypatch: Patch) -> Path:
    """Return a copy of that folder, the current one and the project's."""
    home = Path(shutil.copytree(trained, tmp_path / "run"))
    monkeypatch.chdir(home)
    monkeypatch.setenv("SIMPLE_DQN_HOME", ".")
    return home
