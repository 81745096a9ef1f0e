"""A run has the settings that it was given, and each verb the weights of its snapshot."""

import shutil
import wave
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simple_dqn
from simple_dqn import main
from simple_dqn.agent import Player
from simple_dqn.config import Config, RunConfig
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.environment.gymnasium import GymnasiumEnv
from simple_dqn.errors import Interrupt, UserError
from simple_dqn.run import Phase, Run, make_run
from simple_dqn.snapshot import Snapshot
from simple_dqn.types import Minibatch
from tests.command_line import CATCH, Patch, catch, rows, watch

ROLLOUTS = {
    "schedule": "rollouts", "rollout_steps": 4, "target_steps": 0, "replay_size": 1_000_000, "workers": 2,
}  # fmt: skip
SNAPSHOT = "snapshots/catch_2.pkl"


def run_of(**flags: Any) -> Run:
    flags = {**CATCH, "game": "catch", "environment": "catch", **flags}
    return make_run(Config.from_flags(flags), Interrupt())


@pytest.mark.parametrize(("train_steps", "test_steps", "names"), [
    (1, 1, "train 1, test 1, train 2, test 2, train 3"), (1, 0, "train 1, train 2, train 3"),
    (0, 1, "test 1, test 2, train 3"), (0, 0, "train 3"),
])  # fmt: skip
def test_the_phases_of_a_run(train_steps: int, test_steps: int, names: str) -> None:
    phase, found = Phase("random", 0), []
    while phase.epoch <= 2:
        phase = phase.next(RunConfig(train_steps=train_steps, test_steps=test_steps, epochs=2))
        found.append(f"{phase.name} {phase.epoch}")
    assert ", ".join(found) == names
    none = RunConfig(train_steps=0, test_steps=0, epochs=10**18, start_epoch=3)
    assert Phase("random", 0).next(none) == Phase("train", 10**18 + 1)
    later = RunConfig(train_steps=train_steps, test_steps=test_steps, epochs=2, start_epoch=4)
    assert Phase("random", 0).next(later) == Phase("train", 5)


def test_minibatches_targets_and_noise_are_as_set(monkeypatch: Patch) -> None:
    flags = {"batch_size": 5, "discount_rate": 0.5, "target_steps": 0, "noisy": True, "test_steps": 20}
    with closing(run_of(**flags)) as run:
        drawn: list[Minibatch] = []
        watch(DeepQNetwork, "prepare", lambda _, minibatch: drawn.append(minibatch), monkeypatch)
        run.begin()
        assert {(len(one.actions), one.discounts.item(0)) for one in drawn} == {(5, 0.5)}
        agent, tester = run.agent, run._tester
        assert np.any(agent.player.predict() != agent.network.predict(agent.player.states))
        assert tester
        still = agent.network.predict(tester._player.states, average=True)
        np.testing.assert_array_equal(tester._player.predict(), still)
        with pytest.raises(AssertionError, match="no target network"):
            agent.network.predict(agent.player.states, target=True)
        weights = agent.network.get_weights()
        next(iter(weights.values())).fill(np.inf)
        agent.network.set_weights(weights)
        with pytest.raises(UserError, match=r"holds NaN or infinity: lower --learning_rate$"):
            agent.check()


def test_games_wait_for_each_other_unless_told(monkeypatch: Patch) -> None:
    counts: list[int] = []
    watch(DeepQNetwork, "predict", lambda _, states, **how: counts.append(len(states)), monkeypatch)
    for synchronize in (None, False):
        with closing(run_of(workers=3, synchronize=synchronize)) as run:
            run.agent.player.predict()
    assert counts == [3, 1, 1, 1]


def test_games_of_training_alone_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "breakout.wav"
    game = {"game": "breakout", "environment": "ale", "random_starts": 0}
    with closing(run_of(**game, test_steps=20, record_sound_filename=str(path))) as run:
        run.begin()
    with wave.open(str(path)) as file:
        assert file.getnframes() == (60 + 40) * 4 * 512


def test_a_lost_life_ends_an_episode_in_training_alone() -> None:
    with closing(run_of(game="breakout", environment="ale", test_steps=10, random_starts=0)) as run:
        tester = run._tester
        assert tester
        for environment, ends in ((run.agent.player.environment, True), (tester._player.environment, False)):
            environment.reset()
            rng = np.random.default_rng(5)
            steps = [environment.step(rng.integers(environment.actions, size=1)) for _ in range(300)]
            assert any((step.terminals & ~step.resets)[0] for step in steps) == ends
    game = GymnasiumEnv(lambda seed: simple_dqn.make("breakout", training=True, seed=seed))
    game.reset(seed=0)
    rng, lives, over = np.random.default_rng(5), 0, False
    while not over:
        _, _, over, _, info = game.step(int(rng.integers(4)))
        lives += bool(info["terminals"])
    assert lives == 5


def test_exploration_and_mean_q_are_those_of_the_csv(home: Path, monkeypatch: Patch) -> None:
    means, predict = list[float](), DeepQNetwork.predict

    def note(network: DeepQNetwork, states: Any, **how: Any) -> Any:
        qvalues = predict(network, states, **how)
        if len(states) > 1:  # the held-out states
            means.append(float(qvalues.max(axis=1).mean()))
        return qvalues

    monkeypatch.setattr(DeepQNetwork, "predict", note)
    assert main.run(["train", *catch(test_steps=40, exploration_rate_test=0.25)]) == 0
    random, training, test = rows(home / "results" / "catch.csv")
    assert [float(row["last_exploration_rate"]) for row in (random, test)] == [1.0, 0.25]
    assert 0.1 < float(training["last_exploration_rate"]) < 1
    assert float(test["meanq"]) == pytest.approx(means[-1], rel=1e-4)


def test_returns_are_of_the_greedy_values_of_the_states_played(monkeypatch: Patch) -> None:
    with closing(run_of(**ROLLOUTS)) as run:
        network, predicted, given = run.agent.network, list[Any](), list[Any]()
        predict = network.predict

        def note(states: Any, **how: Any) -> Any:
            assert how.get("explore") or "keep" not in how
            predicted.append(predict(states, **how))
            return predicted[-1]

        def compare(_rewards: Any, _terminals: Any, _starts: Any, values: Any) -> None:
            given.append(values)
            np.testing.assert_array_equal(values, [qvalues.max(axis=1) for qvalues in predicted[-5:]])

        monkeypatch.setattr(network, "predict", note)
        monkeypatch.setattr(run.agent.player, "_predict", note)
        watch(network, "returns", compare, monkeypatch)
        run.begin()
        assert len(given) == 5  # 40 steps of 2 games


@pytest.mark.parametrize("words", [
    f"record {SNAPSHOT} --exploration_rate_test 0.125", f"nvis {SNAPSHOT} --exploration_rate_test 0.125",
    f"test {SNAPSHOT} --play_games 1 --exploration_rate_test 0.125",
    f"resume {SNAPSHOT} --epochs 3 --exploration_rate_start 0.5",
])  # fmt: skip
def test_a_verb_plays_by_the_weights_of_the_snapshot(words: str, finished: Path, monkeypatch: Patch) -> None:
    """And at the ε of its settings; what `resume` refills the memory with is no random play either."""
    shutil.rmtree(finished / "snapshots" / "catch_checkpoint")
    wanted, rates, loaded = Snapshot.load(Path(SNAPSHOT)).weights, list[float](), list[bool]()
    predict = DeepQNetwork.predict

    def note(network: DeepQNetwork, *given: Any, **how: Any) -> None:
        weights = network.get_weights()
        loaded.append(all(np.array_equal(weights[name], values) for name, values in wanted.items()))
        if len(loaded) == 1 and words.startswith("resume"):
            by_target = predict(network, *given, **{**how, "target": True})
            assert np.array_equal(by_target, predict(network, *given, **how))

    watch(DeepQNetwork, "predict", note, monkeypatch)
    watch(Player, "choose", lambda _, rate, *how: rates.append(float(np.mean(rate))), monkeypatch)
    assert main.run(words.split()) == 0
    assert loaded[0]
    assert set(rates) == {0.125} if "0.125" in words else max(rates) <= 0.5
