import numpy as np

from simple_dqn.watch.bars import BarScale


def test_bars_show_how_much_worse_than_the_best_an_action_is() -> None:
    scale = BarScale()
    assert np.allclose(scale.lengths(np.array([3.0, 1.0, 2.0], np.float32)), [1, 0, 0.5])
    narrower = scale.lengths(np.array([-5.0, -5.5, -5.0], np.float32))
    assert np.allclose(narrower, [1, 0.75, 1], atol=0.01)


def test_the_scale_narrows_again() -> None:
    scale = BarScale()
    scale.lengths(np.array([0.0, 8.0], np.float32))
    for _ in range(2000):
        lengths = scale.lengths(np.array([0.0, 1.0], np.float32))
    assert np.allclose(lengths, [0, 1])


def test_equal_values_have_full_bars() -> None:
    assert np.array_equal(BarScale().lengths(np.ones(3, np.float32)), [1, 1, 1])
