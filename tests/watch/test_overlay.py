"""The pictures of the game and the panel, pixel by pixel; the panel in a terminal, cell by cell."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import ale_py
import numpy as np
import pygame
import pytest
from numpy.typing import NDArray

from simple_dqn.watch.overlay import (
    BACKGROUND,
    BADGES,
    EXPLORING,
    IDLE_BAR,
    PANEL_COLUMNS,
    Color,
    Overlay,
    panel_lines,
)
from simple_dqn.watch.player import HINTS, View

NAMES = ("NOOP", "FIRE", "RIGHT", "LEFT")
PICTURE = np.random.default_rng(0).integers(0, 256, (210, 160, 3), dtype=np.uint8)
Q = np.array([0.0, 0.5, 1.0, 0.25], np.float32)
VIEW = View(NAMES, score=-3, lives=2, exploration_rate=0.05, action=2, qvalues=Q)


def pixels(image: NDArray[np.uint8], color: Color) -> NDArray[np.bool_]:
    """Return where `image` is of `color`, bool [height, width]."""
    same: NDArray[np.bool_] = (image == np.array(color, np.uint8)).all(axis=2)
    return same


@pytest.mark.parametrize("scale", [1, 3])
def test_the_game_is_shown_pixel_by_pixel_at_the_left_and_18_actions_have_room(scale: int) -> None:
    overlay = Overlay(scale)
    image = overlay.draw(PICTURE, VIEW)
    assert image.dtype == np.uint8
    assert image.shape[0] == 210 * scale
    assert image.shape[1] > 160 * scale
    assert image.shape[1] % 2 == 0
    assert np.array_equal(image[:, : 160 * scale], PICTURE.repeat(scale, axis=0).repeat(scale, axis=1))
    image[:] = 7  # the caller's to keep
    many = replace(VIEW, action_names=("DOWNRIGHTFIRE",) * 18, qvalues=np.zeros(18, np.float32), action=17)
    image = overlay.draw(PICTURE, many)
    assert pixels(image[150 * scale :, 160 * scale :], BADGES[False][1]).any()
    assert pixels(image[-3:, 160 * scale :], BACKGROUND).all()
    hinted = Overlay(scale, hints=True).draw(PICTURE, many)
    differs = (hinted != image).any(axis=(1, 2))
    assert differs[190 * scale : -3].any()
    assert not differs[: 70 * scale].any(), "the key hints move the lines above the actions"
    other = Overlay(scale).draw(np.zeros((36, 50, 3), np.uint8), VIEW)
    assert other.shape[0] == 36 * scale
    assert other.shape[1] > 60 * scale


def test_letters_are_drawn_after_an_environment_has_quit_pygame() -> None:
    overlay = Overlay(1)
    first = overlay.draw(PICTURE, replace(VIEW, score=1))
    pygame.quit()  # as Gymnasium's CartPole does when it closes
    assert np.array_equal(overlay.draw(PICTURE, replace(VIEW, score=1)), first)
    assert not np.array_equal(overlay.draw(PICTURE, replace(VIEW, score=-1234567)), first)


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
    for human in (False, True):  # who plays
        image = Overlay(3).draw(PICTURE * 0, replace(VIEW, human=human, qvalues=None, action=-1))
        assert pixels(image, BADGES[human][1]).sum() > 500
        assert pixels(image, BADGES[not human][1]).sum() == 0


def test_the_heat_map_covers_what_is_hot_and_leaves_what_is_cold() -> None:
    heat, overlay = np.zeros((84, 84), np.float32), Overlay(2)
    heat[30:40, 50:60] = 1
    plain = overlay.draw(PICTURE, VIEW)
    warm = overlay.draw(PICTURE, replace(VIEW, heat_map=heat))
    rows, columns = np.nonzero((warm != plain).any(axis=2))
    edges = [rows.min(), rows.max(), columns.min(), columns.max()]  # 420 x 320 pixels over 84 x 84
    assert edges == pytest.approx([30 * 5, 40 * 5, 50 * 320 / 84, 60 * 320 / 84], abs=8)
    assert (warm[175, round(55 * 320 / 84), :2] > 200).all()  # hot is bright yellow
    cold = overlay.draw(PICTURE, replace(VIEW, heat_map=np.zeros((84, 84), np.float32)))
    assert np.array_equal(cold[:, :320], plain[:, :320])


def test_what_is_not_known_is_a_dash() -> None:
    assert VIEW.facts == {"score": "-3", "lives": "2", "ε": "0.05", "speed": "1×"}
    alone = replace(VIEW, lives=0, exploration_rate=None, qvalues=None, human=True)
    assert alone.facts == {"score": "-3", "lives": "–", "ε": "–", "speed": "1×"}
    Overlay(2).draw(PICTURE, alone)


def test_bars_show_how_much_worse_than_the_best_an_action_is_and_the_scale_narrows_again() -> None:
    overlay = Overlay(1)

    def lengths(*qvalues: float) -> list[float]:
        return overlay.bars(replace(VIEW, qvalues=np.array(qvalues, np.float32)))

    assert lengths(3, 1, 2) == pytest.approx([1, 0, 0.5])
    assert lengths(-5, -5.5, -5) == pytest.approx([1, 0.75, 1], abs=0.01)
    for _ in range(2000):
        narrow = lengths(0, 1)
    assert narrow == pytest.approx([0, 1])
    assert Overlay(1).bars(replace(VIEW, qvalues=np.ones(3, np.float32))) == [1, 1, 1]
    assert Overlay(1).bars(replace(VIEW, qvalues=None)) == [0, 0, 1, 0]


@pytest.mark.parametrize("qvalues", [None, np.linspace(-99, 999, 18, dtype=np.float32)])
def test_every_cell_of_a_terminals_panel_has_its_own_background(qvalues: Any) -> None:
    """On a light terminal, light words without a background could not be read."""
    names = tuple(action.name for action in ale_py.Action.__members__.values())
    view = View(names, score=265, lives=3, action=17, qvalues=qvalues)
    # A terminal whose colors can be read: `<f>` and `<b>` in place of its codes.
    marks: Any = SimpleNamespace(normal="<n>", color_rgb=lambda *_: "<f>", on_color_rgb=lambda *_: "<b>")
    lines = panel_lines(marks, view, Overlay(1).bars(view))
    for line in lines:
        assert line.startswith("<n>")
        assert all(part.startswith("<f><b>") for part in line.split("<n>")[1:])
    words = [re.sub("<.>", "", line) for line in lines]
    assert {len(line) for line in words[3:]} == {PANEL_COLUMNS}
    assert [line[:14].rstrip() for line in words[4:]] == [*names, *(left for left, _ in HINTS)]
    assert all(line[13] == " " for line in words[4:])
