"""An actor's first errors against a loop, and against those of the network itself."""

import numpy as np
import pytest

from simple_dqn.cluster.first_errors import first_errors

GAMMA = 0.9


def slowly(
    t: int, game: int, rewards: np.ndarray, terminals: np.ndarray, starts: np.ndarray, taken: np.ndarray,
    best: np.ndarray, n_step: int,
) -> float:  # fmt: skip
    total, factor = 0.0, 1.0
    for row in range(t, t + n_step):
        total += factor * rewards[row, game]
        factor *= GAMMA
        if terminals[row, game]:
            factor = 0.0
            break
        if row + 1 < t + n_step and starts[row + 1, game]:
            break
    return float(abs(total + factor * best[row + 1, game] - taken[t, game]))


@pytest.mark.parametrize("n_step", [1, 2, 5])
def test_errors_are_those_of_a_loop(n_step: int) -> None:
    rng, rows, games = np.random.default_rng(0), 40, 3
    rewards, taken = (rng.normal(size=(rows, games)).astype(np.float32) for _ in range(2))
    best = rng.normal(size=(rows + 1, games)).astype(np.float32)
    terminals, starts = (rng.random((rows, games)) < 0.2 for _ in range(2))
    errors = first_errors(rewards, terminals, starts, taken, best, GAMMA, n_step)
    assert errors.dtype == np.float32
    expected = [
        [slowly(t, game, rewards, terminals, starts, taken, best, n_step) for game in range(games)]
        for t in range(rows - n_step + 1)
    ]
    np.testing.assert_allclose(errors, expected, rtol=1e-5, atol=1e-6)
