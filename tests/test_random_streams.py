import numpy as np

from simple_dqn.random_streams import draw_seed, stream


def draws(seed: int, name: str, index: int = 0) -> list[int]:
    numbers: list[int] = stream(seed, name, index).integers(2**32, size=8).tolist()
    return numbers


def test_same_name_same_numbers() -> None:
    assert draws(7, "sampling") == draws(7, "sampling")


def test_names_indices_and_seeds_give_different_streams() -> None:
    all_draws = [draws(s, n, i) for s in (0, 1) for n in ("sampling", "weights") for i in (0, 1)]
    assert len({tuple(d) for d in all_draws}) == 8


def test_seed_0_is_a_seed() -> None:
    assert draws(0, "environment") == draws(0, "environment")


def test_streams_do_not_follow_each_other() -> None:
    a, b = (stream(0, name).random(20_000) for name in ("environment", "exploration"))
    assert abs(float(np.corrcoef(a, b)[0, 1])) < 0.03


def test_drawn_seeds_differ_and_can_be_given_back() -> None:
    seeds = {draw_seed() for _ in range(20)}
    assert len(seeds) > 15
    assert all(0 <= seed < 2**31 for seed in seeds)
