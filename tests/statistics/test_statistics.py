"""Statistics against lists of rewards, summed up the slow way."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simple_dqn.statistics import PhaseOutcome, PhaseSummary, Point, Progress, Scores, Statistics, Writer
from simple_dqn.types import Mask, Step

Wanted = tuple[int, bool, bool]  # a reward, whether the game ends, whether a life is lost
Phase = tuple[str, list[list[Wanted]], list[float]]  # its name, steps [steps][E] and losses

OUTCOME = PhaseOutcome(total_train_steps=100, replay_memory_count=50, meanq=0.5, weight_updates=25)


@dataclass
class Listener(Writer):
    """Keeps what it hears."""

    summaries: list[PhaseSummary] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    opened: int = 0
    started: list[tuple[str, int, int]] = field(default_factory=list)
    closed: bool = False

    def open(self) -> None:
        self.opened += 1

    def on_phase_start(self, phase: str, epoch: int, total_steps: int) -> None:
        self.started.append((phase, epoch, total_steps))

    def on_progress(self, progress: Progress) -> None:
        self.progress.append(progress)

    def on_phase_end(self, summary: PhaseSummary) -> None:
        self.summaries.append(summary)

    def close(self) -> None:
        self.closed = True


def make_step(
    rewards: Sequence[float],
    resets: Sequence[bool] | None = None,
    starts: Sequence[bool] | None = None,
    terminals: Sequence[bool] | None = None,
) -> Step:
    games = len(rewards)

    def flags(given: Sequence[bool] | None) -> Mask:
        return np.array(given if given is not None else [False] * games, dtype=np.bool_)

    return Step(
        screens=np.zeros((games, 8, 8), np.uint8),
        actions=np.zeros(games, np.int64),
        rewards=np.array(rewards, np.float32),
        terminals=flags(terminals),
        truncations=np.zeros(games, np.bool_),
        resets=flags(resets),
        starts=flags(starts),
    )


class Games:
    """E made-up games that keep to the rules of `Step`, and remember each game's rewards."""

    def __init__(self, games: int) -> None:
        self.rewards: list[list[float]] = [[] for _ in range(games)]
        self.over = [False] * games
        self.ended: list[float] = []

    def play(self, wanted: list[Wanted]) -> Step:
        rewards, resets, starts, terminals = [], [], [], []
        for game, (reward, reset, lost_life) in enumerate(wanted):
            start = self.over[game]
            if start:
                self.rewards[game] = []
                reward, reset = 0, False
            self.rewards[game].append(reward)
            if reset:
                self.ended.append(sum(self.rewards[game]))
            self.over[game] = reset
            rewards.append(reward)
            resets.append(reset)
            starts.append(start)
            terminals.append(reset or lost_life)
        return make_step(rewards, resets, starts, terminals)


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, list[Phase]]:
    """Draw the number of games and, for each phase, its name, its steps and its losses."""
    games = draw(st.integers(1, 3))
    one = st.tuples(st.integers(-5, 5), st.booleans(), st.booleans())
    steps = st.lists(st.lists(one, min_size=games, max_size=games), max_size=8)
    losses = st.lists(st.floats(0, 10), max_size=4)
    phases = st.tuples(st.sampled_from(["random", "train", "test"]), steps, losses)
    return games, draw(st.lists(phases, min_size=1, max_size=6))


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
        statistics.on_phase_end(OUTCOME)

        summary, ended = listener.summaries[-1], played.ended
        assert (summary.epoch, summary.phase) == (number, phase)
        assert summary.steps == len(steps) * games
        assert summary.nr_games == len(ended)
        assert summary.average_reward == (sum(ended) / len(ended) if ended else None)
        assert summary.min_game_reward == min(ended, default=None)
        assert summary.max_game_reward == max(ended, default=None)
        assert summary.last_exploration_rate == (1 / len(steps) if steps else None)
        assert summary.meancost == (pytest.approx(np.mean(losses)) if losses else None)
        assert summary.total_train_steps == OUTCOME.total_train_steps
        assert summary.replay_memory_count == OUTCOME.replay_memory_count
        assert summary.meanq == OUTCOME.meanq
        assert summary.weight_updates == OUTCOME.weight_updates


def test_a_game_may_end_in_a_later_phase_than_it_began() -> None:
    listener = Listener()
    statistics = Statistics([listener])
    for phase, steps in (
        ("random", [make_step([1])]),
        ("train", [make_step([2])]),
        ("test", []),
        ("train", [make_step([4], resets=[True])]),
    ):
        statistics.on_phase_start(phase, 1, 0)
        for step in steps:
            statistics.on_step(step, 0.1)
        if phase == "test":
            statistics.on_steps(2, [100], 0.1)
        statistics.on_phase_end(OUTCOME)
    assert [summary.average_reward for summary in listener.summaries] == [None, None, 100, 7]


def test_games_begun_anew_forget_the_old_score() -> None:
    listener = Listener()
    statistics = Statistics([listener])
    statistics.on_phase_start("train", 1, 0)
    statistics.on_step(make_step([5, 5]), 0.1)
    statistics.on_step(make_step([0, 1], starts=[True, False]), 0.1)
    statistics.on_step(make_step([1, 1], resets=[True, True]), 0.1)
    statistics.on_phase_end(OUTCOME)
    assert (listener.summaries[0].min_game_reward, listener.summaries[0].max_game_reward) == (1, 7)


def test_an_environment_begun_anew_forgets_all_its_scores() -> None:
    listener = Listener()
    statistics = Statistics([listener])
    statistics.on_phase_start("train", 1, 0)
    statistics.on_step(make_step([5, 6]), 0.1)
    statistics.on_games_start()
    statistics.on_step(make_step([1, 2], resets=[True, True]), 0.1)
    statistics.on_phase_end(OUTCOME)
    assert listener.summaries[0].average_reward == 1.5


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_times_are_of_the_clock_and_go_on_after_a_resume() -> None:
    clock, listener = Clock(), Listener()
    statistics = Statistics([listener], clock)
    clock.now += 10
    statistics.on_phase_start("train", 1, 0)
    clock.now += 5
    for _ in range(40):
        statistics.on_step(make_step([0]), 0.1)
    statistics.on_phase_end(OUTCOME)
    clock.now += 1
    state = statistics.get_state()

    resumed_clock = Clock()
    resumed_clock.now = 7.0
    resumed = Statistics([listener], resumed_clock)
    resumed.set_state(state)
    resumed.on_phase_start("test", 1, 0)
    resumed_clock.now += 2
    resumed.on_phase_end(OUTCOME)

    first, second = listener.summaries
    assert (first.total_time, first.epoch_time, first.steps_per_second) == (15, 5, 8)
    assert (second.total_time, second.epoch_time, second.steps_per_second) == (18, 2, 0)


def test_writers_hear_of_everything_in_turn() -> None:
    clock, listener = Clock(), Listener()
    statistics = Statistics([listener], clock)
    assert listener.opened == 0
    statistics.on_phase_start("train", 1, 60)
    statistics.on_train(0.25)
    for _ in range(6):
        clock.now += 0.15
        statistics.on_step(make_step([1, 1], resets=[False, True]), 0.3)
    statistics.on_phase_end(OUTCOME)
    statistics.on_phase_start("test", 1, 30)
    statistics.close()
    assert listener.opened == 1
    assert listener.started == [("train", 1, 60), ("test", 1, 30)]
    assert listener.closed
    # Every second step is due: 0.15 s each, looked at not more often than each 0.2 s.
    assert [progress.steps for progress in listener.progress] == [4, 8, 12]
    assert listener.progress[0] == Progress(
        steps=4, nr_games=2, average_reward=1, exploration_rate=0.3, loss=0.25
    )


def test_points_have_the_numbers_since_the_last() -> None:
    class Curves(Writer):
        points = True

        def __init__(self) -> None:
            self.heard: list[Point] = []

        def on_point(self, point: Point) -> None:
            self.heard.append(point)

    clock, curves = Clock(), Curves()
    statistics = Statistics([Listener(), curves], clock)
    statistics.on_phase_start("train", 1, 4000)
    assert statistics.point_steps == 1000
    assert Statistics([Listener()], clock).point_steps == 0
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
    rate = {"progress/exploration_rate": 0.2}
    first = {"reward": 2, "loss": 1, "mean_q": 3.5, "exploration_rate": 0.3, "steps_per_second": 2}
    assert [point.step for point in curves.heard] == [1000, 2000, 3000]
    assert curves.heard[0].scalars == {f"progress/{name}": value for name, value in first.items()}
    assert curves.heard[1].scalars == rate  # no time has passed
    assert curves.heard[2].scalars == {**rate, "progress/loss": 7, "progress/steps_per_second": 0}


def test_a_writer_that_fails_is_not_hidden() -> None:
    class Broken(Listener):
        def on_phase_end(self, summary: PhaseSummary) -> None:
            raise OSError("full")

    statistics = Statistics([Broken()])
    statistics.on_phase_start("train", 1, 0)
    with pytest.raises(OSError, match="full"):
        statistics.on_phase_end(OUTCOME)


def test_the_state_is_not_the_living_array() -> None:
    statistics = Statistics([])
    statistics.on_phase_start("train", 1, 0)
    statistics.on_step(make_step([1]), 0.1)
    state = statistics.get_state()
    for _ in itertools.repeat(None, 3):
        statistics.on_step(make_step([1]), 0.1)
    scores = state["scores"]["training"]
    assert isinstance(scores, np.ndarray)
    assert scores.tolist() == [1]
    assert state["tally"]["steps"] == 1


@pytest.mark.parametrize("phase", ["random", "train"])
def test_a_phase_that_is_resumed_in_its_middle_sums_up_to_the_same(phase: str) -> None:
    rng = np.random.default_rng(0)
    steps = [make_step(rng.normal(size=3).tolist(), resets=(rng.random(3) < 0.2).tolist()) for _ in range(60)]
    losses = rng.random(60).tolist()
    whole, halves = Listener(), Listener()
    clock = Clock()
    statistics, first = Statistics([whole], clock), Statistics([halves], clock)
    for each in (statistics, first):
        each.on_phase_start(phase, 2, 180)
    for t, (step, loss) in enumerate(zip(steps, losses, strict=True)):
        clock.now += 1
        if t == 25:
            state = json.loads(json.dumps(first.get_state(), default=np.ndarray.tolist))
            state["scores"] = {name: np.array(scores) for name, scores in state["scores"].items()}
            first = Statistics([halves], clock)
            first.set_state(state)
            first.on_phase_resume(180)
        for each in (statistics, first):
            each.on_step(step, 0.5)
            each.on_train(loss)
    for each in (statistics, first):
        each.on_phase_end(OUTCOME)
    assert halves.summaries == whole.summaries
    assert halves.started == [(phase, 2, 180)] * 2
