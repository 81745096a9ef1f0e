"""Statistics against lists of rewards, summed up the slow way."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simple_dqn.statistics import PhaseSummary, Point, Scores, Statistics, Writer
from simple_dqn.types import Mask, Step

Wanted = tuple[int, bool, bool]  # a reward, whether the game ends, whether a life is lost
Phase = tuple[str, list[list[Wanted]], list[float]]  # its name, steps [steps][E] and losses

COUNTED = {"total_train_steps": 9, "replay_memory_count": 5, "meanq": 0.5, "weight_updates": 2}


@dataclass
class Listener(Writer):
    """Keeps what it hears."""

    points = True
    summaries: list[PhaseSummary] = field(default_factory=list)
    heard: list[Any] = field(default_factory=list)  # in order: the other events

    def open(self) -> None:
        self.heard.append("open")

    def on_phase_start(self, phase: str, epoch: int, total_steps: int) -> None:
        self.heard.append((phase, epoch, total_steps))

    def on_progress(self, progress: PhaseSummary) -> None:
        self.heard.append(progress.steps)

    def on_point(self, point: Point) -> None:
        self.heard.append(point)

    def on_phase_end(self, summary: PhaseSummary) -> None:
        self.summaries.append(summary)

    def close(self) -> None:
        self.heard.append("close")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def make_step(
    rewards: Sequence[float], resets: Sequence[bool] = (), starts: Sequence[bool] = (),
    terminals: Sequence[bool] = (),
) -> Step:  # fmt: skip
    games = len(rewards)

    def flags(given: Sequence[bool]) -> Mask:
        return np.array(given or [False] * games, dtype=np.bool_)

    return Step(
        np.zeros((games, 8, 8), np.uint8), np.zeros(games, np.int64), np.array(rewards, np.float32),
        flags(terminals), flags(()), flags(resets), flags(starts),
    )  # fmt: skip


class Games:
    """E games that keep to the rules of `Step`, and remember each game's rewards."""

    def __init__(self, games: int) -> None:
        self.rewards: list[list[float]] = [[] for _ in range(games)]
        self.over = [False] * games
        self.ended: list[float] = []

    def play(self, wanted: list[Wanted]) -> Step:
        starts, columns = self.over, []
        for game, (reward, reset, lost_life) in enumerate(wanted):
            if starts[game]:
                self.rewards[game], reward, reset = [], 0, False
            self.rewards[game].append(reward)
            if reset:
                self.ended.append(sum(self.rewards[game]))
            columns.append((reward, reset, reset or lost_life))
        rewards, resets, terminals = (list(column) for column in zip(*columns, strict=True))
        self.over = [bool(reset) for reset in resets]
        return make_step(rewards, self.over, starts, [bool(one) for one in terminals])


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, list[Phase]]:
    """Draw the number of games and, for each phase, its name, its steps and its losses."""
    games = draw(st.integers(1, 3))
    one = st.tuples(st.integers(-5, 5), st.booleans(), st.booleans())
    steps = st.lists(st.lists(one, min_size=games, max_size=games), max_size=8)
    losses = st.lists(st.floats(0, 10), max_size=4)
    phases = st.tuples(st.sampled_from(["random", "train", "test"]), steps, losses)
    return games, draw(st.lists(phases, min_size=1, max_size=6))


@settings(max_examples=50)
@given(runs(), st.integers(0, 6))
def test_phases_are_summed_up_like_lists(run: tuple[int, list[Phase]], resume_after: int) -> None:
    games, phases = run
    listener = Listener()
    statistics = Statistics([listener])
    training = Games(games)
    for number, (phase, steps, losses) in enumerate(phases):
        if number == resume_after:
            state = statistics.get_state()
            statistics = Statistics([listener])
            statistics.set_state(state)
        played = Games(games) if phase == "test" else training
        played.ended = []
        statistics.on_phase_start(phase, number, len(steps) * games)
        scores = Scores(np.zeros(games))
        for index, wanted in enumerate(steps):
            step, rate = played.play(wanted), 1 / (index + 1)
            if phase == "test":
                statistics.on_steps(games, scores.add(step), rate)
            else:
                statistics.on_step(step, rate)
        for loss in losses:
            statistics.on_train(loss)
        statistics.on_phase_end(**COUNTED)

        summary, ended = listener.summaries[-1], played.ended
        assert (summary.epoch, summary.phase) == (number, phase)
        assert summary.steps == len(steps) * games
        assert summary.nr_games == len(ended)
        assert summary.average_reward == (sum(ended) / len(ended) if ended else None)
        assert summary.min_game_reward == min(ended, default=None)
        assert summary.max_game_reward == max(ended, default=None)
        assert summary.last_exploration_rate == (1 / len(steps) if steps else None)
        assert summary.meancost == (pytest.approx(np.mean(losses)) if losses else None)
        assert {name: getattr(summary, name) for name in COUNTED} == COUNTED


def test_writers_hear_of_everything_in_turn_with_times_that_go_on_after_a_resume() -> None:
    clock, listener = Clock(), Listener()
    statistics = Statistics([listener], clock)
    assert listener.heard == []
    clock.now += 10
    statistics.on_phase_start("train", 1, 60)
    for _ in range(6):
        clock.now += 0.15
        statistics.on_step(make_step([1, 1], resets=[False, True]), 0.3)
    statistics.on_games_start()  # which forgets the scores of those that had begun
    statistics.on_step(make_step([5, 1], resets=[True, True]), 0.3)
    clock.now += 4.1
    statistics.on_phase_end()
    assert listener.summaries[0].max_game_reward == 5
    clock.now += 1
    state = statistics.get_state()
    clock.now = 7.0
    resumed = Statistics([listener], clock)
    resumed.set_state(state)
    resumed.on_phase_start("test", 1, 30)
    clock.now += 2
    resumed.on_phase_end()
    resumed.close()
    times = [(one.total_time, one.epoch_time, one.steps_per_second) for one in listener.summaries]
    assert times == [pytest.approx((15, 5, 14 / 5)), pytest.approx((18, 2, 0))]
    # Progress is due every 0.2 s, and steps take 0.15 s.
    assert listener.heard == ["open", ("train", 1, 60), 4, 8, 12, "open", ("test", 1, 30), "close"]


def test_points_have_the_numbers_since_the_last() -> None:
    clock, curves = Clock(), Listener()
    statistics = Statistics([Writer(), curves], clock)
    statistics.on_phase_start("train", 1, 4000)
    assert statistics.point_steps == 1000
    assert Statistics([Writer()], clock).point_steps == 0
    for loss, reward in ((0.5, 1), (1.5, 3)):
        statistics.on_train(loss)
        statistics.on_step(make_step([reward, 0], resets=[True, False]), 0.3)
    clock.now += 2
    statistics.on_point(1000, np.array([[1, 2], [5, 0]], np.float32))
    statistics.on_step(make_step([0, 0]), 0.2)
    state = statistics.get_state()
    statistics.on_point(2000, None)
    resumed = Statistics([curves], clock)
    resumed.set_state(state)
    resumed.on_phase_resume(4000)
    resumed.on_train(7)
    clock.now += 1
    resumed.on_point(3000, None)
    first = {"reward": 2, "loss": 1, "mean_q": 3.5, "exploration_rate": 0.3, "steps_per_second": 2}
    rate = {"progress/exploration_rate": 0.2}
    points = [point for point in curves.heard if isinstance(point, Point)]
    assert [(point.step, point.scalars) for point in points] == [
        (1000, {f"progress/{name}": value for name, value in first.items()}),
        (2000, rate),  # no time has passed
        (3000, {**rate, "progress/loss": 7, "progress/steps_per_second": 0}),
    ]
