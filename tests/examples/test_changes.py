"""The changes of docs/modify.md: what they do, against something plain, and that a training has them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from examples.combined_replay import Combined
from examples.expected_sarsa import EXPLORATION, of_policy
from simple_dqn.config import BackendConfig, MemoryConfig, NetworkConfig
from simple_dqn.dqn import TARGET_RULES, DeepQNetwork
from simple_dqn.replay import ReplayMemory
from simple_dqn.samplers import SAMPLERS
from simple_dqn.snapshot import Snapshot
from simple_dqn.types import Minibatch, Step

Start = Callable[..., int]
PROJECT = Path(__file__).parents[2]
CHANGES = {"combined": "combined_replay.py", "sarsa": "expected_sarsa.py"}
CATCH = [
    "catch", "--preset", "simple_dqn", "--environment", "catch", "--screen_width", "36",
    "--screen_height", "36", "--random_steps", "60", "--train_steps", "40", "--test_steps", "0",
    "--epochs", "1", "--replay_size", "100", "--batch_size", "4",
    "--target_steps", "8", "--backend", "cpu", "--threads", "1", "--random_seed", "0",
]  # fmt: skip


def memory_of(monkeypatch: pytest.MonkeyPatch, games: int) -> ReplayMemory:
    monkeypatch.setitem(SAMPLERS, "uniform", Combined)
    config = MemoryConfig(replay_size=20 * games, history_length=2)
    return ReplayMemory(config, games, (8, 8), 0.99, np.random.default_rng(0))


def add(memory: ReplayMemory, games: int, number: int, starts: np.ndarray | None = None) -> None:
    """Let `memory` take in a step whose screens and actions tell its `number` and the game."""
    actions = number * games + np.arange(games)
    nothing = np.zeros(games, np.bool_)
    screens = np.broadcast_to(actions.astype(np.uint8)[:, None, None], (games, 8, 8))
    rewards = np.zeros(games, np.float32)
    memory.add(
        Step(screens, actions, rewards, nothing, nothing, nothing, nothing if starts is None else starts)
    )


@pytest.mark.parametrize("games", [1, 3])
def test_combined_replay_always_draws_the_latest(monkeypatch: pytest.MonkeyPatch, games: int) -> None:
    memory = memory_of(monkeypatch, games)
    drawn: set[int] = set()
    for number in range(50):
        add(memory, games, number)
        if memory.ready:
            minibatch = memory.sample(8)
            latest = number * games + np.arange(games)
            assert (minibatch.actions[:games] == latest).all()
            assert (minibatch.poststates[:games, -1, 0, 0] == latest).all()
            assert (minibatch.weights == 1).all()
            drawn |= set(minibatch.actions[games:].tolist())
    assert len(drawn) > 40  # the others are drawn from all that is held
    assert len(memory.sample(1).actions) == 1


def test_combined_replay_draws_no_first_screen_of_a_game(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = memory_of(monkeypatch, 2)
    for number in range(10):
        add(memory, 2, number)
    add(memory, 2, 10, starts=np.array([True, False]))
    for _ in range(20):
        actions = memory.sample(8).actions
        assert actions[0] == 21
        assert 20 not in actions


def test_expected_sarsa_values_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGET_RULES, "max", of_policy)
    network = DeepQNetwork(
        5, 2, (36, 36), NetworkConfig(), BackendConfig(backend="cpu", threads=1), np.random.default_rng(0)
    )
    rng = np.random.default_rng(1)
    states = rng.integers(256, size=(2, 6, 2, 36, 36), dtype=np.uint8)
    rewards, terminals = rng.choice([-1, 0, 1], 6).astype(np.float32), rng.random(6) < 0.3
    assert terminals.any()
    minibatch = Minibatch(
        states[0], rng.integers(5, size=6), rewards[:, None], states[1], terminals,
        np.full(6, 0.9, np.float32), np.ones(6, np.float32), np.arange(6),
    )  # fmt: skip
    for row, qvalues in enumerate(network.predict(states[1], target=True)):
        policy = np.full(5, EXPLORATION / 5)
        policy[qvalues.argmax()] += 1 - EXPLORATION
        value = 0 if terminals[row] else policy @ qvalues
        target = network.prepare(minibatch).targets[row]
        assert float(target) == pytest.approx(rewards[row] + 0.9 * value, abs=1e-5)


def changed(start: Start, folder: str, change: str, verb: str, *arguments: str) -> None:
    """Carry out a verb with a change, as docs/modify.md does."""
    chosen = {"combined": ["--sampler", "combined"], "sarsa": ["--target_rule", "expected_sarsa"]}[change]
    file = str(PROJECT / "examples" / CHANGES[change])
    assert start(folder, verb, *arguments, "--import", file, *(chosen if verb == "train" else [])) == 0


@pytest.mark.parametrize("change", CHANGES)
def test_a_training_has_the_change_and_is_resumed_with_it(
    start: Start, tmp_path: Path, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    changed(start, "whole", change, "train", *CATCH, "--epochs", "2")
    changed(start, "parts", change, "train", *CATCH)
    assert f"resume.sh snapshots/catch_1.pkl --import {PROJECT}" in capsys.readouterr().err
    changed(start, "parts", change, "resume", "snapshots/catch_1.pkl", "--epochs", "2")
    assert start("plain", "train", *CATCH, "--epochs", "2") == 0
    whole, parts, plain = (
        Snapshot.load(tmp_path / folder / "snapshots/catch_2.pkl") for folder in ("whole", "parts", "plain")
    )
    assert parts.fingerprint == whole.fingerprint != plain.fingerprint
    assert whole.flags["imports"] == CHANGES[change]


def test_the_examples_are_short() -> None:
    for file in CHANGES.values():
        assert len((PROJECT / "examples" / file).read_text().splitlines()) < 80
