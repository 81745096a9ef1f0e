"""The page and the packages side by side: `examples/dqn.py` is the oracle of `src/simple_dqn/`."""

import pickle
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from examples import dqn
from simple_dqn.agent import Agent
from simple_dqn.config import Config
from simple_dqn.environment.interface import draws_of
from simple_dqn.optimizers import RMSProp
from simple_dqn.presets import PRESETS
from simple_dqn.random_streams import stream
from simple_dqn.run import make_agent, make_environment, make_network
from simple_dqn.schedules import SerialSchedule
from tests.command_line import Capsys, Patch

SETTINGS: dict[str, Any] = {
    "replay_size": 600,  # so that the ring is written over
    "random_steps": 400,
    "target_steps": 200,
    "exploration_decay_steps": 1000,
    "random_seed": 3,
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def train_packages(game: str, steps: int) -> tuple[Agent, list[tuple[int, float]], list[np.ndarray]]:
    """Return an agent after `steps` steps, its actions and rewards, and the TD errors of each update."""
    flags = {**PRESETS["nature"], **SETTINGS, "game": game, "backend": "cpu", "threads": 1}
    config, played = Config.from_flags(flags), list[tuple[int, float]]()
    listener: Any = SimpleNamespace(
        on_step=lambda step, _: played.append((step.actions[0], step.rewards[0])), on_train=lambda _: None
    )
    environment = make_environment(config, training=True)
    network = make_network(config, environment)
    agent = make_agent(config, environment, network, listener)
    errors: list[np.ndarray] = []
    take = network.take_outcomes

    def watched() -> Any:
        outcomes = take()
        errors.extend(outcome.errors for outcome in outcomes)
        return outcomes

    network.take_outcomes = watched  # type: ignore[method-assign]
    schedule = SerialSchedule()
    schedule.start(agent)
    for loop in (schedule.fill(agent, config.run.random_steps, 1.0), schedule.train(agent, steps)):
        for _ in loop:
            pass
    agent.report_losses()
    return agent, played, errors


def train_page(game: str, steps: int) -> tuple[dqn.DQN, list[tuple[int, float, np.ndarray | None]]]:
    """Return the page's agent after so many steps of training, and what each of its steps yielded."""
    agent = dqn.DQN(game, dqn.Settings(**SETTINGS), RMSProp)
    # The same no-ops, which the packages draw by a counter.
    agent.game.rng = draws_of(stream(agent.settings.random_seed, "environment"))  # type: ignore[assignment]
    training = agent.train()
    return agent, [next(training) for _ in range(agent.settings.random_steps + steps)]


@pytest.mark.parametrize(
    ("game", "steps"), [pytest.param("pong", 1200, marks=pytest.mark.nightly), ("breakout", 400)]
)
def test_the_page_and_the_rooms_are_equal_bit_for_bit(game: str, steps: int) -> None:
    packages, played, errors = train_packages(game, steps)
    page, yielded = train_page(game, steps)
    assert [(action, reward) for action, reward, _ in yielded] == played
    updates = [one for *_, one in yielded if one is not None]
    assert len(updates) == len(errors) == steps // 4
    np.testing.assert_array_equal(updates, errors)
    ours = packages.network.get_weights()
    for (name, expected), values in zip(ours.items(), page.network.parameters(), strict=True):
        np.testing.assert_array_equal(values.detach().numpy(), expected, err_msg=name)
    # The comparison says nothing about a part of the algorithm that the run did not reach.
    assert any(reward for _, reward in played)
    assert page.memory.written > page.memory.size
    assert page.memory.terminals.any()


def test_the_plain_optimizer_of_the_page_is_that_of_the_packages() -> None:
    """Neon's formula as the page has it, and as the packages compute it by Adagrad."""
    rng = np.random.default_rng(0)
    shapes: Sequence[tuple[int, ...]] = [(32, 4, 8, 8), (32,), (512, 64), (6, 512)]
    first = [rng.uniform(-0.1, 0.1, shape) for shape in shapes]
    plain, fused = ([nn.Parameter(torch.tensor(values).float()) for values in first] for _ in range(2))
    optimizers = dqn.RMSProp(plain, 0.00025, 0.95), RMSProp(fused, 0.00025, 0.95)
    for _ in range(50):
        for index, shape in enumerate(shapes):
            gradient = torch.from_numpy(rng.normal(0, 10.0 ** -rng.integers(1, 6), shape)).float()
            plain[index].grad, fused[index].grad = gradient.clone(), gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
    for ours, theirs in zip(plain, fused, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_it_trains_and_loads_what_it_saved(capsys: Capsys, monkeypatch: Patch, tmp_path: Path) -> None:
    def lines(*words: str) -> list[str]:
        monkeypatch.setattr("sys.argv", ["dqn.py", "pong", *words])
        dqn.main()
        return capsys.readouterr().out.replace("\r", "\n").splitlines()

    saved, again = (str(tmp_path / name) for name in ("saved.pt", "again.pt"))
    few = ["--random_steps", "200", "--test_games", "1", "--replay_size", "500"]
    first = lines(*few, "--train_steps", "200", "--epochs", "1", "--save", saved)
    assert len(Path(dqn.__file__).read_text().splitlines()) <= 300  # the page fits on a page
    assert [line for line in first if line.startswith("epoch 1: score ") and line.endswith(" in 1 games")]
    assert any(
        re.fullmatch(r"epoch 1: step 200 of 200, \d+ steps/s, 0:00:00 of training left", line)
        for line in first
    )
    assert torch.get_num_threads() == 1
    lines(
        *few, "--random_steps", "0", "--epochs", "0", "--random_seed", "2", "--load", saved, "--save", again
    )
    before, after = torch.load(saved), torch.load(again)
    assert before.keys() == after.keys()
    assert all(torch.equal(values, after[name]) for name, values in before.items())


def test_a_game_that_there_is_not_is_refused(capsys: Capsys, monkeypatch: Patch) -> None:
    monkeypatch.setattr("sys.argv", ["dqn.py", "pongg"])
    with pytest.raises(SystemExit, match="2"):
        dqn.main()
    assert "invalid choice: 'pongg'" in capsys.readouterr().err


def test_a_file_of_weights_runs_no_code(monkeypatch: Patch, tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "ran",)

    torch.save({"0.weight": Hostile()}, tmp_path / "weights.pt")
    monkeypatch.setattr(
        "sys.argv", ["dqn.py", "breakout", "--load", str(tmp_path / "weights.pt"), "--replay_size", "9"]
    )
    with pytest.raises(pickle.UnpicklingError):
        dqn.main()
    assert not (tmp_path / "ran").exists()
