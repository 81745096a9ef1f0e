"""The tree of sums against the sums themselves, added up one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simple_dqn.replay_memory.sum_tree import WIDTH, Masses, SumTree

SIZES = st.one_of(st.integers(1, 100), st.sampled_from((WIDTH - 1, WIDTH, WIDTH + 1, WIDTH**2, WIDTH**2 + 1)))


def changed(tree: SumTree, masses: Masses, changes: int, rng: np.random.Generator, whole: bool) -> None:
    """Change some masses again and again, in the tree and in the list."""
    size = len(masses)
    for _ in range(changes):
        places = rng.choice(size, rng.integers(0, size + 1), replace=False)
        values = rng.integers(0, 5, len(places)).astype(np.float64)
        values *= 1 if whole else rng.random(len(places)) ** 9
        masses[places] = values
        tree.set(places, values)


@given(size=SIZES, changes=st.integers(0, 6), seed=st.integers(0, 10**6))
@settings(max_examples=200)
def test_what_is_found_is_what_a_plain_sum_finds(size: int, changes: int, seed: int) -> None:
    rng, tree, masses = np.random.default_rng(seed), SumTree(size), np.zeros(size)
    changed(tree, masses, changes, rng, whole=True)  # whole numbers are added without rounding
    sums = masses.cumsum()
    assert tree.total == sums[-1]
    np.testing.assert_array_equal(tree.masses[:size], masses)
    if not tree.total:
        return
    points = np.concatenate((rng.random(100) * tree.total, np.arange(tree.total)))
    places, found = tree.find(points)
    np.testing.assert_array_equal(places, np.searchsorted(sums, points, side="right"))
    np.testing.assert_array_equal(found, masses[places])


@given(size=SIZES, changes=st.integers(1, 6), seed=st.integers(0, 10**6))
@settings(max_examples=200)
def test_rounding_finds_no_place_without_mass(size: int, changes: int, seed: int) -> None:
    rng, tree, masses = np.random.default_rng(seed), SumTree(size), np.zeros(size)
    changed(tree, masses, changes, rng, whole=False)
    assert tree.total == pytest.approx(masses.sum(), rel=1e-12)
    if not tree.total:
        return
    edges = masses.cumsum()
    points = np.concatenate((rng.random(100) * tree.total, edges, np.nextafter(edges, 0), [0, tree.total]))
    places, found = tree.find(np.clip(points, 0, tree.total))
    assert (places < size).all()
    assert (found > 0).all()
    np.testing.assert_array_equal(found, masses[places])


@given(size=SIZES, changes=st.integers(1, 6), seed=st.integers(0, 10**6))
@settings(max_examples=100)
def test_a_tree_depends_on_its_masses_alone(size: int, changes: int, seed: int) -> None:
    rng, tree, masses = np.random.default_rng(seed), SumTree(size), np.zeros(size)
    changed(tree, masses, changes, rng, whole=False)
    at_once = SumTree(size)
    at_once.set(np.arange(size), masses)
    assert at_once.total == tree.total
    for ours, theirs in zip(at_once._levels, tree._levels, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("size", [1, WIDTH, 1000, 100_000])
def test_it_hardly_takes_more_than_the_masses(size: int) -> None:
    assert 8 * size <= SumTree(size).nbytes <= 8 * (size + 3 * WIDTH) * (1 + 1 / (WIDTH - 1))
