"""Learning is tested by learning: Catch, whose best score is 1; and which games count in a test, and how."""

import csv
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from ale_py.roms import get_all_rom_ids
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Discrete
from hypothesis import given
from hypothesis import strategies as st

import simple_dqn
from simple_dqn import evaluation
from simple_dqn.config import Config
from simple_dqn.errors import Interrupt
from simple_dqn.evaluation import PROTOCOLS, SCORES, Evaluation, ScoreBoard, evaluate, human_normalized
from simple_dqn.run import Run, make_environment, make_player, make_run
from simple_dqn.statistics import Statistics
from tests.command_line import CATCH, PROJECT, Patch, nightly
from tests.statistics.test_statistics import make_step

SETTINGS: dict[str, Any] = {
    **CATCH, "game": "catch", "environment": "catch", "history_length": 2, "replay_size": 5_000,
    "random_steps": 500, "train_steps": 8_000, "batch_size": 32, "target_steps": 200, "optimizer": "adam",
    "learning_rate": 0.0003, "exploration_decay_steps": 4_000, "exploration_rate_test": 0.0,
}  # fmt: skip


def train(seed: int, **flags: object) -> tuple[Run, Config]:
    config = Config.from_flags({**SETTINGS, "random_seed": seed, **flags})
    run = make_run(config, Interrupt())
    run.begin()
    return run, config


def score(run: Run, config: Config) -> float:
    config = config.with_flags({"play_games": 100, "random_seed": 1_000})
    player = make_player(config, make_environment(config, training=False), run.agent.network)
    mean = evaluate(player, config, "simple_dqn", Statistics([]), Interrupt()).mean
    assert mean is not None
    return mean


ROLLOUTS: dict[str, object] = {
    "rollout_steps": 16, "workers": 16, "train_frequency": 16, "target_steps": 0, "random_steps": 0,
    "replay_size": 1_000_000, "layer_norm": True, "train_steps": 32_768, "learning_rate": 0.0005,
}  # fmt: skip
SCHEDULES: dict[str, dict[str, object]] = {
    "serial": {},
    # bfloat16 where the processor computes in it: imitated, these six trainings take an hour of a core
    "serial, 4 games, bfloat16": {"workers": 4, "datatype": "auto"},
    "prioritized, 3 steps": {"prioritized": True, "n_step": 3, "priority_beta_steps": 8_000},
    "concurrent": {"concurrent": True},
    "overlapped, 4 games": {"overlap": True, "workers": 4},
    "rollouts, 16 games": ROLLOUTS,
    "implicit quantiles": {"distributional": "iqn", "quantiles": 8},
    "rollouts, implicit quantiles": {**ROLLOUTS, "distributional": "iqn", "quantiles": 8},
    "concurrent, 4 games, bfloat16": {"concurrent": True, "workers": 4, "datatype": "auto"},
}  # fmt: skip
# `make nightly` has all the others.
BRIEF = [("serial", 0), ("rollouts, 16 games", 0)]
LONG = [(schedule, seed) for schedule in SCHEDULES for seed in range(3) if (schedule, seed) not in BRIEF]


@pytest.mark.parametrize(("schedule", "seed"), [*BRIEF, *(nightly(*one) for one in LONG)])
def test_catch_is_solved(schedule: str, seed: int) -> None:
    run, config = train(seed, **SCHEDULES[schedule])
    assert score(run, config) >= 0.9


def test_what_has_not_learnt_does_not_catch() -> None:
    run, config = train(0, train_steps=0)
    assert score(run, config) < 0.5


class Corridor(gymnasium.Env[Any, Any]):
    """A walk to one of two doors, five steps from the middle: the right one gives 1, the other -1.

    It observes place and door as numbers, or as `channels`: two images of one row.
    """

    action_space: gymnasium.Space[Any] = Discrete(2)

    def __init__(self, channels: bool = False) -> None:
        self._channels = channels
        kind: Any = np.bool_ if channels else np.float32
        self.observation_space = Box(0, 1, (2, 3, 11), kind) if channels else Box(-1, 1, (2,), kind)

    def _look(self) -> Any:
        if not self._channels:
            return np.array([self._place / 5, self._door], np.float32)
        image = np.zeros((2, 3, 11), np.bool_)
        image[0, 1, self._place + 5] = image[1, :, 5 * self._door + 5] = True
        return image

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._place, self._door = 0, int(self.np_random.choice([-1, 1]))
        return self._look(), {}

    def step(self, action: int) -> Any:
        self._place += 2 * action - 1
        over = abs(self._place) == 5
        return self._look(), float(np.sign(self._place) * self._door) if over else 0.0, over, False, {}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("channels", [False, True])
def test_a_corridor_is_solved_by_numbers(channels: bool, monkeypatch: Patch) -> None:
    make: Any = Corridor
    spec = EnvSpec("test/Corridor-v0", make, kwargs={"channels": channels}, max_episode_steps=30)
    monkeypatch.setitem(gymnasium.registry, "test/Corridor-v0", spec)
    given: dict[str, Any] = {"train_steps": 4000, "epochs": 1, "random_seed": 0, "target_steps": 200}
    agent = simple_dqn.load(simple_dqn.train("test/Corridor-v0", **given).snapshots[-1])
    assert agent.settings["network"] == ("minatar" if channels else "mlp")
    assert agent.evaluate(games=20, epsilon=0.0).mean == 1
    state = np.zeros((2, 1, *((2, 3, 11) if channels else (2,))), np.float32)
    assert agent.act(state).shape == (2,)
    for wrong in (state.astype(np.uint8), state[:, 0]):
        with pytest.raises(simple_dqn.UserError, match="give float32"):
            agent.act(wrong)
    with pytest.raises(simple_dqn.UserError, match="images"):
        agent.saliency(state)


@pytest.mark.usefixtures("home")
@pytest.mark.nightly
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("game", "least"), [("CartPole-v1", 475), ("catch", 0.95)])
def test_a_game_is_solved_without_further_flags(game: str, least: float, seed: int) -> None:
    run = simple_dqn.train(game, random_seed=seed)
    assert simple_dqn.load(run.snapshots[-1]).evaluate(games=30, epsilon=0.0).mean >= least


def test_each_place_plays_its_share_so_that_short_games_are_not_favoured() -> None:
    board = ScoreBoard(workers=2, games=4)
    for number in range(1, 7):  # place 0 ends a game at each step, place 1 at each third
        assert not board.complete
        board.add(make_step([1, 1], resets=[True, number % 3 == 0], starts=[number > 1, number % 3 == 1]))
    assert board.complete
    assert sorted(board.scores) == [1, 1, 3, 3]


# Lengths of games, one after another in each of up to four places.
LENGTHS = st.lists(st.lists(st.integers(2, 9), min_size=20, max_size=20), min_size=1, max_size=4)


@given(LENGTHS, st.integers(1, 60), st.integers(0, 40))
def test_a_limit_of_steps_drops_the_last_game(lengths: list[list[int]], steps: int, saved_after: int) -> None:
    """A game pays 1 a step, and its number when it ends."""
    places, played, expected = len(lengths), 0, []
    rounds = -(-steps // places)
    told: list[list[tuple[int, bool, bool]]] = [[] for _ in lengths]
    for place, games in enumerate(lengths):
        for number, length in enumerate([*games, 80]):  # the last is longer than any test
            begin, value = len(told[place]), 1000 * (places * number + place)
            is_last = place == places - 1 and begin + length > rounds
            if begin < rounds and not is_last:
                expected.append(value + length)
            told[place] += [(1, False, number > 0)] + [(1, False, False)] * (length - 2)
            told[place].append((1 + value, True, False))
    board = ScoreBoard(places, steps=steps)
    while not board.complete:
        if played == saved_after:
            state, board = board.get_state(), ScoreBoard(places, steps=steps)
            board.set_state(state)
        rewards, resets, starts = zip(*(each[played] for each in told), strict=True)
        board.add(make_step(rewards, resets=resets, starts=starts))
        played += 1
    assert sorted(board.scores) == sorted(expected)
    assert board.steps == played * places >= steps
    assert places > 1 or played == steps  # simple_dqn's test, to the step


def test_protocols_are_as_published() -> None:
    both = {"random_starts": 0, "max_game_frames": 18_000}
    nature = {"exploration_rate_test": 0.05, "random_start_frames": 30, "repeat_action_probability": 0.0}
    machado = {"exploration_rate_test": 0.01, "random_start_frames": 0, "repeat_action_probability": 0.25}
    assert PROTOCOLS["nature"].flags == {**both, **nature}
    assert PROTOCOLS["machado"].flags == {**both, **machado, "minimal_action_set": False}
    assert [PROTOCOLS[name].games for name in ("nature", "machado", "simple_dqn")] == [30, 30, None]
    # A network of fewer actions than Machado asks for plays its own.
    flags = [evaluation.protocol_flags("machado", actions) for actions in (18, 4)]
    assert [one.get("minimal_action_set") for one in flags] == [False, None]


@pytest.mark.parametrize(("protocol", "flags", "expected"), [
    ("simple_dqn", {}, []),
    ("simple_dqn", {"frame_skip": 3, "play_games": 2},
     ["--frame_skip 3, not 4", "--play_games 2, not --test_steps 125000"]),
    ("simple_dqn", {"test_steps": 500}, ["--test_steps 500, not 125000"]),
    ("nature", {"color_averaging": False, "test_steps": 500}, []),  # its games are counted, not steps
    ("nature", {"color_averaging": True, "exploration_rate_test": 0.0, "play_games": 3},
     ["--exploration_rate_test 0.0, not 0.05", "--color_averaging true, not false",
      "--play_games 3, not 30"]),
    ("machado", {"frame_skip": 5, "minimal_action_set": False}, []),
    ("machado", {"minimal_action_set": True},
     ["--minimal_action_set true, not false", "--frame_skip 4, not 5"]),
])  # fmt: skip
def test_the_report_tells_other_settings(protocol: str, flags: dict[str, Any], expected: list[str]) -> None:
    config = Config.from_flags({"game": "pong", **PROTOCOLS[protocol].flags, **flags})
    assert evaluation.departures(protocol, config) == expected


def test_the_report_tells_what_was_played() -> None:
    report = Evaluation(
        game="tower", protocol="machado", unlike_protocol=["--frame_skip 4, not 5"], scores=[1.0, 2.0],
        steps=20, workers=2, exploration_rate=0.05, rules={"frame_skip": 4, "frame_maximum": True},
        action_names=("NOOP", "UP", "DOWN"), rom_md5="60e0", random_seed=0,
    )  # fmt: skip
    first, *_, last = str(report).splitlines()
    assert (first, last) == ("tower: 1.50 ± 0.50 over 2 games", "  not as in machado: --frame_skip 4, not 5")
    for words in ("protocol machado", "2 games side by side", "ε 0.05", "--frame_skip 4", "MD5 60e0"):
        assert words in str(report)
    none = str(replace(report, scores=[], rom_md5=None))
    assert "no game ended in 20 steps: raise --test_steps" in none
    assert "frame" not in none.split("not as in")[0], "without an emulator there are no frames"


def test_published_scores_and_those_of_humans_and_random_play() -> None:
    assert len(SCORES) == 57
    assert set(SCORES) <= set(get_all_rom_ids())
    published = {  # of random play and a person: Wang et al. 2016, appendix
        "breakout": (1.7, 30.5), "qbert": (163.9, 13455.0), "skiing": (-17098.1, -4336.9),
    }  # fmt: skip
    for game, scores in published.items():
        assert (SCORES[game]["random"], SCORES[game]["human"]) == scores
    sums = [round(sum(scores[name] for scores in SCORES.values()), 1) for name in ("random", "human")]
    assert sums == [50864.9, 606494.2]
    # Nature DQN's Breakout, worked out by hand.
    assert human_normalized("breakout", 401.2) == pytest.approx(1387.15, abs=0.01)
    assert human_normalized("tetris", 100) is None
    lines = (PROJECT / "docs" / "data" / "results.csv").read_text().splitlines()
    rows = csv.DictReader(line for line in lines if line[0] != "#")
    for row in rows:
        words = (row[name].replace(",", "") for name in ("score", "a person", "random play"))
        score, person, random = (float(word.replace("−", "-")) for word in words)
        assert int(row["% of a person"]) == round(100 * (score - random) / (person - random))
        found = SCORES[row["game"].lower().replace(" ", "_").replace("*", "")]
        for name, column in {"simple_dqn": "simple_dqn", "deepmind": "DeepMind 2015"}.items():
            other = row[column].split(" ±")[0].replace(",", "").replace("−", "-")
            assert found.get(name) == (None if other == "–" else float(other))
