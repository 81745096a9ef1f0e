from dataclasses import replace

import numpy as np
import pygame
import pytest
from numpy.typing import NDArray

from simple_dqn.watch.overlay import (
    BACKGROUND,
    BADGES,
    EXPLORING,
    IDLE_BAR,
    BarScale,
    Colour,
    Overlay,
    facts,
)  # fmt: skip
from simple_dqn.watch.watched_player import View

NAMES = ("NOOP", "FIRE", "RIGHT", "LEFT")
PICTURE = np.random.default_rng(0).integers(0, 256, (210, 160, 3), dtype=np.uint8)
VIEW = View(
    action_names=NAMES,
    action=2,
    human=False,
    score=-3,
    lives=2,
    exploration_rate=0.05,
    qvalues=np.array([0.0, 0.5, 1.0, 0.25], np.float32),
)


def pixels(image: NDArray[np.uint8], colour: Colour) -> NDArray[np.bool_]:
    """Return where `image` is of `colour`, bool [height, width]."""
    same: NDArray[np.bool_] = (image == np.array(colour, np.uint8)).all(axis=2)
    return same


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_the_game_is_shown_pixel_by_pixel_at_the_left(scale: int) -> None:
    image = Overlay(scale).draw(PICTURE, VIEW)
    assert image.dtype == np.uint8
    assert image.shape[0] == 210 * scale
    assert image.shape[1] > 160 * scale
    assert image.shape[1] % 2 == 0
    assert np.array_equal(image[:, : 160 * scale], PICTURE.repeat(scale, axis=0).repeat(scale, axis=1))


def test_letters_are_drawn_after_an_environment_has_quit_pygame() -> None:
    overlay = Overlay(1)
    first = overlay.draw(PICTURE, replace(VIEW, score=1))
    pygame.quit()  # as Gymnasium's CartPole does when it closes
    assert np.array_equal(overlay.draw(PICTURE, replace(VIEW, score=1)), first)
    assert not np.array_equal(overlay.draw(PICTURE, replace(VIEW, score=-1234567)), first)


def test_drawing_is_the_callers_to_keep() -> None:
    overlay = Overlay(1)
    one = overlay.draw(PICTURE, VIEW)
    one[:] = 7
    assert not np.array_equal(overlay.draw(PICTURE, VIEW), one)


@pytest.mark.parametrize("human", [False, True])
@pytest.mark.parametrize("panel", [False, True])
def test_the_badge_says_who_plays(human: bool, panel: bool) -> None:
    image = Overlay(3, panel).draw(PICTURE * 0, replace(VIEW, human=human, qvalues=None, action=-1))
    assert pixels(image, BADGES[human][1]).sum() > 500
    assert pixels(image, BADGES[not human][1]).sum() == 0


def test_bars_are_as_long_as_the_values_are_good_and_the_chosen_one_is_marked() -> None:
    image = Overlay(3).draw(PICTURE * 0, VIEW)[150:, 480:]  # below the badge
    track = 210  # pixels: 240 less 15 at each side
    assert pixels(image, BADGES[False][1]).sum(axis=1).max() == pytest.approx(track, abs=8)
    idle = np.sort(np.unique(pixels(image, IDLE_BAR).sum(axis=1)))
    assert idle[-1] == pytest.approx(track / 2, abs=8)
    assert np.abs(idle - track / 4).min() <= 8
    exploring = Overlay(3).draw(PICTURE * 0, replace(VIEW, exploring=True))[150:, 480:]
    assert pixels(exploring, EXPLORING).any()
    assert not pixels(exploring, BADGES[False][1]).any()


def test_the_heat_map_covers_what_is_hot_and_leaves_what_is_cold() -> None:
    heat = np.zeros((84, 84), np.float32)
    heat[30:40, 50:60] = 1
    overlay = Overlay(2)
    warm = overlay.draw(PICTURE, replace(VIEW, heat_map=heat))
    changed = (warm != overlay.draw(PICTURE, VIEW)).any(axis=2)
    rows, columns = np.nonzero(changed)
    assert rows.min() == pytest.approx(30 * 5, abs=8)  # 420 pixels of height over 84
    assert rows.max() == pytest.approx(40 * 5, abs=8)
    assert columns.min() == pytest.approx(50 * 320 / 84, abs=8)
    assert columns.max() == pytest.approx(60 * 320 / 84, abs=8)
    middle = warm[175, round(55 * 320 / 84)]
    assert middle[0] > 200  # hot is bright yellow
    assert middle[1] > 200
    cold = overlay.draw(PICTURE, replace(VIEW, heat_map=np.zeros((84, 84), np.float32)))
    assert np.array_equal(cold[:, :320], overlay.draw(PICTURE, VIEW)[:, :320])


def test_a_new_heat_map_replaces_the_last() -> None:
    overlay, one, other = Overlay(1), np.zeros((84, 84), np.float32), np.ones((84, 84), np.float32)
    cold = overlay.draw(PICTURE, replace(VIEW, heat_map=one))
    assert not np.array_equal(overlay.draw(PICTURE, replace(VIEW, heat_map=other)), cold)


def test_a_message_is_written_over_the_game() -> None:
    quiet, loud = (Overlay(3).draw(PICTURE * 0, replace(VIEW, message=text)) for text in ("", "volume 60%"))
    assert (quiet != loud).any(axis=2)[:, :480].sum() > 300
    assert np.array_equal(quiet[:, 480:], loud[:, 480:])


def test_all_18_actions_have_room() -> None:
    for scale in (1, 2, 3):
        view = replace(
            VIEW, action_names=("DOWNRIGHTFIRE",) * 18, qvalues=np.zeros(18, np.float32), action=17
        )
        image = Overlay(scale).draw(PICTURE, view)
        assert pixels(image[150 * scale :, 160 * scale :], BADGES[False][1]).any()
        assert pixels(image[-3:, 160 * scale :], BACKGROUND).all()


def test_what_is_not_known_is_a_dash() -> None:
    assert facts(VIEW) == {"score": "-3", "lives": "2", "ε": "0.05", "speed": "1×"}
    alone = replace(VIEW, lives=0, exploration_rate=None, qvalues=None, human=True)
    assert facts(alone) == {"score": "-3", "lives": "–", "ε": "–", "speed": "1×"}
    Overlay(2).draw(PICTURE, alone)


def test_other_games_than_ataris_fit() -> None:
    image = Overlay(4).draw(np.zeros((36, 50, 3), np.uint8), VIEW)
    assert image.shape[:2] == (144, 200 + 54)


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
