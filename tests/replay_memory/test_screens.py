"""The memory that screens take, and what is said where there is too little."""

import re
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.replay_memory import ReplayMemory


def memory_for(replay_size: int) -> ReplayMemory:
    config = MemoryConfig(replay_size=replay_size)
    return ReplayMemory(config, 1, (84, 84), 0.99, np.random.default_rng(0))


def test_too_little_memory_names_a_size_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=30_000_000))
    with pytest.raises(UserError, match="fits, and more with --replay_compression lz4") as error:
        memory_for(1_000_000)
    message = str(error.value)
    assert message.startswith(
        "--replay_size 1000000 needs 7.07 GB of memory and this machine can spare 0.027 GB"
    )
    found = re.search(r"--replay_size (\d+) fits", message)
    assert found
    fits = int(found[1])
    assert memory_for(fits).nbytes <= 30_000_000
    with pytest.raises(UserError):
        memory_for(round(1.1 * fits))


def test_million_experiences_take_what_was_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=10**11))
    monkeypatch.setattr("simple_dqn.machine.control_group_allowances", lambda: [])
    process = psutil.Process()
    before = process.memory_info().rss
    memory = memory_for(1_000_000)
    assert 7_056_000_000 < memory.nbytes <= 7_200_000_000
    assert process.memory_info().rss - before < 100_000_000  # nothing is taken before it is filled
