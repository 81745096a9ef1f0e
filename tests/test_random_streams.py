import numpy as np

from atari2600.draws import Draws
from simple_dqn.random_streams import draw_seed, stream


def draws(seed: int, name: str, index: int = 0) -> list[int]:
    numbers: list[int] = stream(seed, name, index).integers(2**32, size=8).tolist()
    return numbers


def test_names_indices_and_seeds_give_streams_of_their_own_that_repeat() -> None:
    places = [(seed, name, index) for seed in (0, 1) for name in ("sampling", "weights") for index in (0, 1)]
    assert len({tuple(draws(*place)) for place in places}) == 8
    assert all(draws(*place) == draws(*place) for place in places)
    seeds = {draw_seed() for _ in range(20)}
    assert len(seeds) > 15
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_draws_are_even_and_neither_follow_their_key_nor_each_other() -> None:
    numbers = np.array([[game.random() for _ in range(4000)] for game in map(Draws, range(5))])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.histogram(numbers, 20, (0, 1))[0]
    assert np.abs(counts / 1000 - 1).max() < 0.15  # five standard deviations
    related = np.corrcoef(np.concatenate((numbers[:, 1:], numbers[:, :-1])))
    assert np.abs(related - np.eye(10)).max() < 0.08
    dice = Draws(7)
    assert {dice.integers(6) for _ in range(200)} == set(range(6))
    first, second = Draws(1), Draws(2)
    for _ in range(3):
        first.integers(31)
    second.set_state(first.get_state())
    assert [first.random() for _ in range(5)] == [second.random() for _ in range(5)]
