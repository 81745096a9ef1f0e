"""Trajectories of many actors in one memory, against one memory for each actor; TD errors against a loop."""

import zlib
from dataclasses import dataclass, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simple_dqn.cluster.trajectory import TrajectoryStream, td_errors
from simple_dqn.config import MemoryConfig
from simple_dqn.replay import ReplayMemory
from simple_dqn.snapshot import pack, unpack
from simple_dqn.types import Experience, Step
from tests.replay_memory.transitions import Transition, as_transitions, transitions_of

DISCOUNT = 0.9
Rows = list[Step]


@dataclass(frozen=True)
class Setting:
    """Actors that send trajectories in any order."""

    actors: int
    games: int
    history_length: int
    n_step: int
    length: int  # rows of a trajectory
    order: tuple[int, ...]  # which actor's trajectory comes next
    rows: int  # of the shared memory
    prioritized: bool
    seed: int

    def memory(self, rows: int) -> ReplayMemory:
        config = MemoryConfig(
            replay_size=rows * self.games, history_length=self.history_length, n_step=self.n_step,
            sampler="prioritized" if self.prioritized else "uniform",
        )  # fmt: skip
        return ReplayMemory(config, self.games, (1, 2), DISCOUNT, np.random.default_rng(self.seed))

    def trajectories(self) -> list[tuple[int, Rows]]:
        """Return each trajectory's actor and rows; action, reward and screen are the transition's number."""
        rng, sent, number = np.random.default_rng(self.seed), [0] * self.actors, 0
        trajectories = []
        for actor in self.order:
            rows = []
            for row in range(self.length + (sent[actor] == 0)):
                numbers = 1 + number + np.arange(self.games)
                number += self.games
                first = sent[actor] == 0 and row == 0
                rows.append(
                    Step(
                        screens=np.stack([numbers // 256, numbers % 256], -1)[:, None].astype(np.uint8),
                        actions=numbers,
                        rewards=numbers.astype(np.float32),
                        terminals=rng.random(self.games) < 0.1,
                        truncations=np.zeros(self.games, np.bool_),
                        resets=np.zeros(self.games, np.bool_),
                        starts=np.ones(self.games, np.bool_) if first else rng.random(self.games) < 0.1,
                    )
                )
            sent[actor] += 1
            trajectories.append((actor, rows))
        return trajectories


@st.composite
def all_settings(draw: st.DrawFn) -> Setting:
    actors, history_length, n_step = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    length = history_length + n_step + draw(st.integers(0, 6))
    order = tuple(draw(st.lists(st.integers(0, actors - 1), min_size=1, max_size=8)))
    return Setting(
        actors, draw(st.integers(1, 3)), history_length, n_step, length, order,
        draw(st.integers(2, 8)) * (length + history_length + n_step), draw(st.booleans()),
        draw(st.integers(0, 999)),
    )  # fmt: skip


def shared(setting: Setting) -> ReplayMemory:
    memory = setting.memory(setting.rows)
    streams = [TrajectoryStream(setting.history_length, setting.n_step) for _ in range(setting.actors)]
    for actor, rows in setting.trajectories():
        for step in streams[actor].append(unpack(pack(rows))).steps():
            memory.add(step)
    return memory


def own_transitions(setting: Setting) -> dict[int, Transition]:
    """Return all transitions of all actors, each remembered by itself, by their number."""
    found: dict[int, Transition] = {}
    for actor in range(setting.actors):
        rows = [row for whose, rows in setting.trajectories() if whose == actor for row in rows]
        if not rows:
            continue
        memory = setting.memory(len(rows) + setting.history_length + setting.n_step)
        for row in rows:
            memory.add(row)
        found |= drawn(memory)
    return found


def drawn(memory: ReplayMemory) -> dict[int, Transition]:
    """Return every transition that can be drawn, by its number."""
    numbers = memory._ring.transitions()
    if not len(numbers):
        return {}
    return dict(as_transitions(transitions_of(memory, numbers)))


@given(all_settings())
@settings(max_examples=300)
def test_it_holds_the_transitions_of_each_actor_once(setting: Setting) -> None:
    memory, expected = shared(setting), own_transitions(setting)
    found = memory._ring.transitions()
    transitions = drawn(memory)
    assert len(transitions) == len(found)  # none is there twice
    if memory._ring.written < setting.rows:  # nothing is overwritten yet
        assert transitions == expected
    for number, transition in transitions.items():
        assert transition == expected[number]
    if len(found):
        assert {number for number, _ in as_transitions(memory.sample(500))} <= set(transitions)


@given(all_settings())
@settings(max_examples=50)
def test_the_log_restores_it(setting: Setting) -> None:
    memory, logged = shared(setting), list[Step]()
    again = setting.memory(setting.rows)
    streams = [TrajectoryStream(setting.history_length, setting.n_step) for _ in range(setting.actors)]
    for actor, rows in setting.trajectories():
        logged += streams[actor].append(unpack(pack(rows))).steps()
    again.set_state(memory.get_state(), [unpack(pack(logged[-memory._ring.held :]))])
    assert drawn(again) == drawn(memory)
    if len(memory._ring.transitions()):
        assert digest(again) == digest(memory)


def digest(memory: ReplayMemory) -> int:
    batch = memory.sample(64)
    return zlib.crc32(np.ascontiguousarray(batch.prestates).tobytes() + batch.actions.tobytes())


def test_what_begins_is_what_can_be_drawn() -> None:
    setting = Setting(2, 2, 3, 3, 8, (0, 1, 0, 0, 1), 100, True, 3)
    memory, begun = setting.memory(setting.rows), set[int]()
    streams = [TrajectoryStream(setting.history_length, setting.n_step) for _ in range(setting.actors)]
    for actor, rows in setting.trajectories():
        first, stored = memory.taken, streams[actor].append(unpack(pack(rows)))
        for step in stored.steps():
            memory.add(step)
        begun |= set((first + np.flatnonzero(stored.begins)).tolist())
    assert begun == set(memory._ring.transitions().tolist())


@pytest.mark.parametrize("trajectories", [1, 5])
def test_a_stream_keeps_only_the_rows_that_the_next_trajectory_needs(trajectories: int) -> None:
    setting, stream = Setting(1, 2, 4, 3, 50, (0,) * 5, 999, False, 0), TrajectoryStream(4, 3)
    for _, rows in setting.trajectories()[:trajectories]:
        stream.append(unpack(pack(rows)))
    before = stream._before
    assert isinstance(before, Experience)
    assert len(before.actions) == 6
    assert all(getattr(before, field.name).base is None for field in fields(Experience))


def error_by_loop(
    t: int, game: int, rewards: np.ndarray, terminals: np.ndarray, starts: np.ndarray, taken: np.ndarray,
    best: np.ndarray, n_step: int,
) -> float:  # fmt: skip
    total, factor = 0.0, 1.0
    for row in range(t, t + n_step):
        total += factor * rewards[row, game]
        factor *= DISCOUNT
        if terminals[row, game]:
            factor = 0.0
            break
        if row + 1 < t + n_step and starts[row + 1, game]:
            break
    return float(abs(total + factor * best[row + 1, game] - taken[t, game]))


@pytest.mark.parametrize("n_step", [1, 2, 5])
def test_td_errors_are_those_of_a_loop(n_step: int) -> None:
    rng, rows, games = np.random.default_rng(0), 40, 3
    rewards, taken = (rng.normal(size=(rows, games)).astype(np.float32) for _ in range(2))
    best = rng.normal(size=(rows + 1, games)).astype(np.float32)
    terminals, starts = (rng.random((rows, games)) < 0.2 for _ in range(2))
    errors = td_errors(rewards, terminals, starts, taken, best, DISCOUNT, n_step)
    assert errors.dtype == np.float32
    expected = [
        [error_by_loop(t, game, rewards, terminals, starts, taken, best, n_step) for game in range(games)]
        for t in range(rows - n_step + 1)
    ]
    np.testing.assert_allclose(errors, expected, rtol=1e-5, atol=1e-6)
