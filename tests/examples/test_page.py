"""The page, which is the oracle of `src/simple_dqn/`; the short examples, the notebook and the search."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import simple_dqn
from examples import dqn
from examples import flappy_bird as rules
from examples.combined_replay import Combined
from examples.expected_sarsa import EXPLORATION, of_policy
from examples.flappy_bird import FlappyBird
from simple_dqn import main
from simple_dqn.agent import Agent
from simple_dqn.command_line import read
from simple_dqn.config import BackendConfig, Config, NetworkConfig, words
from simple_dqn.dqn import TARGET_RULES, DeepQNetwork
from simple_dqn.environment.interface import draws_of
from simple_dqn.errors import Interrupt, UserError
from simple_dqn.optimizers import RMSProp
from simple_dqn.presets import PRESETS
from simple_dqn.random_streams import stream
from simple_dqn.run import make_run
from simple_dqn.samplers import SAMPLERS
from simple_dqn.schedules import SerialSchedule
from simple_dqn.snapshot import Snapshot
from simple_dqn.types import Minibatch
from tests.command_line import CATCH, PROJECT, Capsys, Patch, Start, catch, nightly, python, watch
from tests.replay_memory.test_samplers import feed, filled

SETTINGS: dict[str, Any] = {  # with a ring that is written over
    "replay_size": 600, "random_steps": 400, "target_steps": 200, "exploration_decay_steps": 1000,
    "random_seed": 3,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def train_package(game: str, steps: int) -> tuple[Agent, list[tuple[int, float]], list[np.ndarray]]:
    """Return an agent after `steps` steps, its actions and rewards, and the TD errors of each update."""
    flags = {**PRESETS["nature"], **SETTINGS, "game": game, "backend": "cpu", "threads": 1}
    config, played, errors = Config.from_flags(flags), list[tuple[int, float]](), list[np.ndarray]()
    agent = make_run(config, Interrupt()).agent
    watch(agent._statistics, "on_step", lambda step, _: played.append((step.actions[0], step.rewards[0])))
    take = agent.network.take_outcomes

    def watched() -> Any:
        outcomes = take()
        errors.extend(outcome.errors for outcome in outcomes)
        return outcomes

    agent.network.take_outcomes = watched  # type: ignore[method-assign]
    schedule = SerialSchedule()
    schedule.start(agent)
    for loop in (schedule.fill(agent, config.run.random_steps, 1.0), schedule.train(agent, steps)):
        for _ in loop:
            pass
    agent.report_losses()
    return agent, played, errors


@pytest.mark.parametrize(("game", "steps"), [nightly("pong", 1200), ("breakout", 400)])
def test_the_page_and_the_package_are_equal_bit_for_bit(game: str, steps: int) -> None:
    package, played, errors = train_package(game, steps)
    page = dqn.DQN(game, dqn.Settings(**SETTINGS), RMSProp)
    # The same no-ops, which the package draws by a counter.
    page.game.rng = draws_of(stream(page.settings.random_seed, "environment"))  # type: ignore[assignment]
    training = page.train()
    yielded = [next(training) for _ in range(page.settings.random_steps + steps)]
    assert [(action, reward) for action, reward, _ in yielded] == played
    updates = [one for *_, one in yielded if one is not None]
    assert len(updates) == len(errors) == steps // 4
    np.testing.assert_array_equal(updates, errors)
    ours = package.network.get_weights()
    for (name, expected), values in zip(ours.items(), page.network.parameters(), strict=True):
        np.testing.assert_array_equal(values.detach().numpy(), expected, err_msg=name)
    # The comparison says nothing about a part of the algorithm that the run did not reach.
    assert any(reward for _, reward in played)
    assert page.memory.written > page.memory.size
    assert page.memory.terminals.any()


@pytest.mark.parametrize("decay_rate", [0.95, 0.0, 1.0])
def test_the_plain_optimizer_of_the_page_is_that_of_the_package(decay_rate: float) -> None:
    """Neon's formula as the page has it, and as the package computes it by Adagrad."""
    rng = np.random.default_rng(0)
    shapes: Sequence[tuple[int, ...]] = [(32, 4, 8, 8), (32,), (512, 64), (6, 512)]
    first = [rng.uniform(-0.1, 0.1, shape) for shape in shapes]
    plain, fused = ([nn.Parameter(torch.tensor(values)) for values in first] for _ in range(2))
    optimizers = dqn.RMSProp(plain, 0.00025, decay_rate), RMSProp(fused, 0.00025, decay_rate)
    for _ in range(50):
        for index, shape in enumerate(shapes):
            gradient = torch.from_numpy(rng.normal(0, 10.0 ** -rng.integers(1, 6), shape))
            plain[index].grad, fused[index].grad = gradient.clone(), gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
    for ours, theirs in zip(plain, fused, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


FEW = "pong --test_games 1 --replay_size 500 --epochs 1"


def run_page(monkeypatch: Patch, words: str) -> None:
    monkeypatch.setattr("sys.argv", ["dqn.py", *words.split()])
    dqn.main()


def test_it_trains_and_loads_what_it_saved(capsys: Capsys, monkeypatch: Patch, tmp_path: Path) -> None:
    torch.set_num_threads(2)
    saved, again = tmp_path / "saved.pt", tmp_path / "again.pt"
    run_page(monkeypatch, f"{FEW} --random_steps 200 --train_steps 200 --save {saved}")
    first = capsys.readouterr().out.replace("\r", "\n").splitlines()
    assert len(Path(dqn.__file__).read_text().splitlines()) <= 300  # the page fits on a page
    assert [line for line in first if line.startswith("epoch 1: score ") and line.endswith(" in 1 games")]
    progress = r"epoch 1: step 200 of 200, \d+ steps/s, 0.0 hours of training left"
    assert any(re.fullmatch(progress, line) for line in first)
    assert torch.get_num_threads() == 1
    run_page(monkeypatch, f"{FEW} --random_steps 0 --epochs 0 --random_seed 2 --load {saved} --save {again}")
    with pytest.raises(UserError, match="--load reads it"):
        Snapshot.load(saved)
    before, after = torch.load(saved), torch.load(again)
    assert before.keys() == after.keys()
    assert all(torch.equal(values, after[name]) for name, values in before.items())


@pytest.mark.parametrize(
    ("words", "complaint"),
    [("", "GAME, such as pong"), ("pongg", "no game called 'pongg': did you mean pong?"),
     ("joust", "no game called 'joust'"), ("pong --lr 1", "unrecognized arguments: --lr"),
     ("pong --epoch 3", "unrecognized arguments: --epoch"),
     ("pong --save missing/x.pt", "No such file or directory: 'missing/x.pt': fix --save"),
     ("pong --load none.pt", "--load 'none.pt': No such file or directory"),
     *((f"pong --load {name}", f"--load '{name}': give a file made by") for name in ("text.txt", "other.pt")),
     *((f"pong --{name} {value}", f"--{name} {value}: give at least {least}") for name, value, least in (
         ("train_frequency", 0, 1), ("train_steps", -5, 1), ("replay_size", 99, 100), ("epochs", -1, 0),
         ("discount_rate", "7.5", "0 and at most 1"), ("learning_rate", "nan", 0), ("batch_size", 10001, 1))),
     ("pong --replay_size 999999999", "Unable to allocate .* shape.*: lower --replay_size")],
)  # fmt: skip
@pytest.mark.usefixtures("home")
def test_a_wrong_setting_is_refused_before_training(
    words: str, complaint: str, capsys: Capsys, monkeypatch: Patch
) -> None:
    Path("text.txt").write_text("no weights")
    torch.save({"0.weight": torch.zeros(3)}, "other.pt")
    monkeypatch.setattr(dqn.DQN, "train", lambda _: pytest.fail("it trains"))
    with pytest.raises(SystemExit, match="2"):
        run_page(monkeypatch, words)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dqn.sh: ")
    assert re.search(complaint, line)


def test_a_full_disk_costs_no_run_and_no_file(capsys: Capsys, monkeypatch: Patch, tmp_path: Path) -> None:
    def full(_state: Any, path: Path) -> None:  # as torch.save on a full disk
        path.write_text("a part")
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 704 vs 662")

    (tmp_path / "x.pt").write_text("older")
    monkeypatch.setattr(torch, "save", full)
    monkeypatch.setattr(dqn.DQN, "test", lambda _: iter([1.0]))
    with pytest.raises(SystemExit, match="2"):  # by the last test, whose weights are lost
        run_page(monkeypatch, f"{FEW} --random_steps 9 --train_steps 9 --save {tmp_path / 'x.pt'}")
    printed, complaint = capsys.readouterr(), f"cannot write --save '{tmp_path / 'x.pt'}'\n"
    assert printed.out.count(f"\n{complaint}") == 1
    assert printed.err == f"dqn.sh: error: {complaint}"
    assert [(path.name, path.read_text()) for path in tmp_path.glob("*")] == [("x.pt", "older")]


def test_a_file_of_weights_runs_no_code(monkeypatch: Patch, tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "ran",)

    torch.save({"0.weight": Hostile()}, tmp_path / "weights.pt")
    with pytest.raises(SystemExit, match="2"):
        run_page(monkeypatch, f"{FEW} --load {tmp_path / 'weights.pt'}")
    assert not (tmp_path / "ran").exists()


CHANGES = {"combined_replay.py": "--sampler=combined", "expected_sarsa.py": "--target_rule=expected_sarsa"}


@pytest.mark.parametrize("games", [1, 3])
def test_combined_replay_always_draws_the_latest(monkeypatch: Patch, games: int) -> None:
    monkeypatch.setitem(SAMPLERS, "uniform", Combined)
    memory, drawn = filled(np.zeros((2, games), np.bool_)), set[int]()
    for number in range(2, 50):
        feed(memory, np.zeros((1, games), np.bool_), number)
        minibatch = memory.sample(8)
        assert (minibatch.actions[:games] == number * games + np.arange(games)).all()
        assert (minibatch.poststates[:games, -1] == number).all()
        assert (minibatch.weights == 1).all()
        drawn |= set(minibatch.actions[games:].tolist())
    assert len(drawn) > 40  # the others are drawn from all that is held
    assert len(memory.sample(1).actions) == 1


def test_combined_replay_draws_no_first_screen_of_a_game(monkeypatch: Patch) -> None:
    monkeypatch.setitem(SAMPLERS, "uniform", Combined)
    starts = np.zeros((11, 2), np.bool_)
    starts[10, 0] = True
    memory = filled(starts)
    for _ in range(20):
        actions = memory.sample(8).actions
        assert actions[0] == 21
        assert 20 not in actions


def test_expected_sarsa_values_the_policy(monkeypatch: Patch) -> None:
    monkeypatch.setitem(TARGET_RULES, "max", of_policy)
    cpu = BackendConfig(backend="cpu", threads=1)
    network = DeepQNetwork(5, 2, (36, 36), NetworkConfig(), cpu, np.random.default_rng(0))
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


@pytest.mark.parametrize(("file", "chosen"), CHANGES.items())
def test_a_training_has_the_change_and_is_resumed_with_it(
    start: Start, tmp_path: Path, trained: Path, file: str, chosen: str, capsys: Capsys
) -> None:
    own = ["--import", str(PROJECT / "examples" / file)]
    assert start("whole", "train", *catch(epochs=2), *own, chosen) == 0
    assert start("parts", "train", *catch(), *own, chosen) == 0
    assert f"resume.sh snapshots/catch_1.pkl --import {PROJECT}" in capsys.readouterr().err
    assert start("parts", "resume", "snapshots/catch_1.pkl", "--epochs", "2", *own) == 0
    homes = (tmp_path / "whole", tmp_path / "parts", trained)
    whole, parts, plain = (Snapshot.load(home / "snapshots/catch_2.pkl") for home in homes)
    assert parts.fingerprint == whole.fingerprint != plain.fingerprint
    assert whole.flags["imports"] == file


NOTEBOOK = json.loads((PROJECT / "examples" / "tour.ipynb").read_text())
CELLS = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_holds_no_outputs() -> None:
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in CELLS)


@pytest.mark.nightly
def test_the_notebook_runs_without_jupyter(tmp_path: Path) -> None:
    code = "\n\n".join("".join(cell["source"]) for cell in CELLS)
    code, count = re.subn(r'"(train|test|random)_steps": \d+', r'"\1_steps": 60', code)
    assert count == 3  # else the test takes a minute
    for name in ("snapshots", "src"):
        (tmp_path / name).mkdir()
    for package in ("simple_dqn", "atari2600"):
        (tmp_path / "src" / package).symlink_to(PROJECT / "src" / package)
    (tmp_path / "snapshots" / "trained").symlink_to(PROJECT / "snapshots" / "trained")
    (tmp_path / "examples").mkdir()
    done = python("-c", code, cwd=tmp_path / "examples", PYTHONPATH="", MPLBACKEND="agg")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("breakout ('NOOP', 'FIRE', 'RIGHT', 'LEFT')\n")
    assert done.stdout.endswith("\nsarsa\n")
    found = {path.name for path in (tmp_path / "results").glob("*.csv")}
    assert found == {"catch_tour.csv", "catch_tour_sarsa.csv"}


def test_a_study_goes_on_and_marks_a_trial_that_fails(home: Path, monkeypatch: Patch, capsys: Capsys) -> None:
    optuna = pytest.importorskip("optuna", reason="Optuna is not installed")
    tune = pytest.importorskip("examples.tune")
    train, calls = simple_dqn.train, list[dict[str, Any]]()

    def fail_once(game: str, **settings: Any) -> Any:
        calls.append(settings)
        if len(calls) == 1:
            raise simple_dqn.UserError("diverged")
        return train(game, **settings)

    monkeypatch.setattr(simple_dqn, "train", fail_once)
    given = {name: one for name, one in CATCH.items() if name not in ("network", "target_steps")}
    for trials in ("2", "2", "3"):
        tune.main(["catch", *words(given), "--train_frequency", "4", "--trials", trials])
    assert len(calls) == 3
    best = capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        tune.main(["catch", *words({**given, "epochs": 2}), "--train_frequency", "4", "--trials", "4"])
    assert "has trials with other flags, {'epochs': '1'" in capsys.readouterr().err
    study = optuna.load_study(study_name="catch", storage="sqlite:///results/tune/catch.db")
    assert [trial.state.name for trial in study.trials] == ["FAIL", "COMPLETE", "COMPLETE"]
    assert study.best_params.keys() == {"learning_rate", "network", "target_steps"}  # one was given by hand
    assert sorted(path.name for path in Path("results/tune/catch").glob("*.csv")) == ["1.csv", "2.csv"]
    assert not list(Path("snapshots").glob("*"))
    settings = read(best.splitlines()[-1].split("--config ")[1])
    assert settings["train_frequency"] == 4
    assert settings["target_steps"] == study.best_params["target_steps"]


@pytest.fixture
def game() -> FlappyBird:
    game = FlappyBird()
    game.reset(seed=0)
    return game


def act(game: FlappyBird, action: int) -> tuple[float, bool]:
    _, reward, over, cut_off, _ = game.step(action)
    assert not cut_off
    return reward, over


def test_pipes_come_at_their_distance_and_each_that_is_passed_is_a_point(game: FlappyBird) -> None:
    rewards, over = [], False
    while not over:
        lefts = [left for left, _ in game.pipes]
        assert (np.diff(lefts) == rules.APART).all()
        # The bird is where it is in no danger.
        game.y, game.falls = game.pipes[0][1] + (rules.GAP - rules.BIRD_SIZE) / 2, 0.0
        reward, over = act(game, 0)
        rewards.append(reward)
        assert len(rewards) < 2 * rules.WON * rules.APART / rules.SPEED
    assert sum(rewards) == rules.WON
    assert set(rewards) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("above", "lost"),
    [(-1, True), (0, False), (rules.GAP - rules.BIRD_SIZE, False), (rules.GAP - rules.BIRD_SIZE + 1, True)],
)
def test_beside_a_pipe_the_bird_must_be_in_its_gap(game: FlappyBird, above: int, lost: bool) -> None:
    game.pipes = [[rules.BIRD_X + rules.SPEED, 10]]
    game.y, game.falls = 10 + above - rules.GRAVITY, 0.0
    assert act(game, 0) == (0.0, lost)


def test_what_is_drawn_is_what_is_touched(game: FlappyBird) -> None:
    """In many random games a bird that has not lost covers no pixel of a pipe."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        over = False
        game.reset()
        while not over:
            image, _, over, _, _ = game.step(int(rng.random() < 0.3))
            pipes = np.zeros_like(image)
            for left, gap in game.pipes:
                pipes[:, max(left, 0) : max(left + rules.PIPE_WIDTH, 0)] = 1
                pipes[gap : gap + rules.GAP, max(left, 0) : max(left + rules.PIPE_WIDTH, 0)] = 0
            assert set(np.unique(image)) <= {rules.SKY, rules.PIPE, rules.BIRD}
            if 0 <= game.y <= rules.HEIGHT - rules.BIRD_SIZE and not over:
                rows = slice(int(np.ceil(game.y)), int(game.y) + rules.BIRD_SIZE)
                assert not pipes[rows, rules.BIRD_X : rules.BIRD_X + rules.BIRD_SIZE].any()
                assert (image == rules.BIRD).sum() == rules.BIRD_SIZE**2


def test_a_training_runs(home: Path) -> None:
    assert main.run(["train", str(PROJECT / "examples" / "flappy_bird.py"), *words(CATCH)]) == 0
    snapshot = Snapshot.load(home / "snapshots" / "flappy_bird_1.pkl")
    assert (snapshot.game, snapshot.actions) == ("flappy_bird", 2)
