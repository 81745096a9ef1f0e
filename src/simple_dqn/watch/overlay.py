"""Draws the enlarged game, and beside it a panel with the agent's Q-values.

It draws in memory, for windows, films and screenshots, and needs no display.
"""

from functools import cache, lru_cache
from typing import TypeAlias

import numpy as np
import pygame
from numpy.typing import NDArray

from simple_dqn.environment.interface import Picture
from simple_dqn.watch.watched_player import HeatMap, View

Colour: TypeAlias = tuple[int, int, int]

BACKGROUND: Colour = (17, 19, 24)
TRACK: Colour = (35, 39, 48)
FAINT: Colour = (122, 130, 146)
BRIGHT: Colour = (232, 235, 241)
IDLE_BAR: Colour = (72, 84, 106)
BADGES: dict[bool, tuple[str, Colour]] = {  # by whether a person plays
    False: ("AGENT PLAYS", (52, 196, 178)),
    True: ("YOU PLAY", (247, 168, 56)),
}
EXPLORING: Colour = (226, 98, 132)

PANEL_SHARE = 8 / 21  # the panel's width over the picture's height: half the width of an Atari picture
SPREAD_KEPT = 0.998  # of the bars' scale, per picture: it halves in 6 s
HEAT_OPACITY = 235  # of 255, where the heat map is hottest


class BarScale:
    """The scale of the bars, which show how much worse than the best action each action is.

    The best action's bar is full. An empty bar stands for the largest difference of the last seconds. A scale
    from zero would hide the differences, which are small compared to the Q-values; a separate scale for each
    state would make every difference look the same.
    """

    def __init__(self) -> None:
        self._spread = 0.0

    def lengths(self, qvalues: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the length of each bar, float64 [A] from 0 to 1, for the `qvalues` [A] of one picture."""
        worse = float(qvalues.max()) - qvalues.astype(np.float64)
        self._spread = max(float(worse.max()), self._spread * SPREAD_KEPT)
        return 1 - worse / (self._spread or 1.0)


class Overlay:
    """Draws the pictures of one game, whose Q-values set the scale of the bars."""

    def __init__(self, scale: int, panel: bool = True) -> None:
        """Enlarge the game by `scale`; without `panel` a small badge shows who plays."""
        self.scale = scale
        self.panel = panel
        self._bars = BarScale()
        self._heat: tuple[HeatMap, pygame.Surface] | None = None  # the last one and its surface

    def size(self, picture: Picture) -> tuple[int, int]:
        """Return the width and height of the drawing of `picture`, in pixels."""
        height, width = picture.shape[0] * self.scale, picture.shape[1] * self.scale
        return width + (2 * round(height * PANEL_SHARE / 2) if self.panel else 0), height

    def draw(self, picture: Picture, view: View) -> NDArray[np.uint8]:
        """Return the drawing of `paint` as a new array, uint8 [height, width, 3]."""
        canvas = self.paint(picture, view)
        pixels = np.frombuffer(bytearray(pygame.image.tobytes(canvas, "RGB")), np.uint8)
        return pixels.reshape(canvas.get_height(), canvas.get_width(), 3)

    def paint(self, picture: Picture, view: View) -> pygame.Surface:
        """Return a new surface that shows `picture`, uint8 [height, width, 3], and `view`."""
        canvas = pygame.Surface(self.size(picture), depth=32)
        canvas.fill(BACKGROUND)
        game = self.paint_game(picture, view.heat_map)
        canvas.blit(game, (0, 0))
        if self.panel:
            panel = canvas.get_rect()
            panel.left, panel.width = game.get_width(), panel.width - game.get_width()
            self._paint_panel(canvas.subsurface(panel), view)
        else:
            _paint_small_badge(canvas, view)
        if view.message:
            _paint_message(canvas, game.get_rect(), view.message)
        return canvas

    def paint_game(self, picture: Picture, heat_map: HeatMap | None) -> pygame.Surface:
        """Return a new surface with `heat_map` over `picture`; the frames of a step share one map."""
        game = pygame.image.frombuffer(picture.tobytes(), picture.shape[1::-1], "RGB")
        game = pygame.transform.scale_by(game.convert(pygame.Surface((1, 1), depth=32)), self.scale)
        if heat_map is not None:
            size = game.get_size()
            if self._heat is None or self._heat[0] is not heat_map or self._heat[1].get_size() != size:
                self._heat = (heat_map, _heat_surface(heat_map, size))
            game.blit(self._heat[1], (0, 0))
        return game

    def _paint_panel(self, panel: pygame.Surface, view: View) -> None:
        unit = panel.get_height() / 42  # a line of text and its space
        edge = round(unit)
        inner = panel.get_rect().inflate(-2 * edge, -2 * edge)
        badge = pygame.Rect(inner.topleft, (inner.width, round(2.4 * unit)))
        _paint_badge(panel, badge, view.human)
        facts = inner.move(0, badge.height + edge)
        bottom = _paint_facts(panel, facts, unit, view)
        rows = pygame.Rect(inner.left, bottom, inner.width, inner.bottom - bottom)
        self._paint_actions(panel, rows, unit, view)

    def _paint_actions(self, panel: pygame.Surface, area: pygame.Rect, unit: float, view: View) -> None:
        """Draw a row for each action: its name and value, and a bar below them."""
        title = "Q-values" if view.qvalues is not None else "actions"
        _write(panel, title, unit, FAINT, area.topleft)
        area = pygame.Rect(area.left, area.top + round(1.8 * unit), area.width, area.height)
        area.height = panel.get_height() - round(unit) - area.top
        if view.qvalues is None:
            lengths = (np.arange(len(view.action_names)) == view.action).astype(np.float64)
        else:
            lengths = self._bars.lengths(view.qvalues)
        pitch = min(2.6 * unit, area.height / len(view.action_names))
        for number, name in enumerate(view.action_names):
            row = pygame.Rect(area.left, area.top + round(number * pitch), area.width, round(pitch))
            colour = colour_of(number, view)
            text, size = BRIGHT if colour else FAINT, row.height * 0.44
            _write(panel, name, size, text, row.topleft)
            if view.qvalues is not None:
                _write(panel, f"{view.qvalues[number]:.3f}", size, text, row.topright, right=True)
            _paint_bar(panel, row, float(lengths[number]), colour or IDLE_BAR)


def _paint_bar(panel: pygame.Surface, row: pygame.Rect, length: float, colour: Colour) -> None:
    """Draw a bar of `length`, from 0 to 1, at the bottom of `row`."""
    thick = max(2, round(row.height * 0.22))
    track = pygame.Rect(row.left, row.top + round(row.height * 0.6), row.width, thick)
    pygame.draw.rect(panel, TRACK, track, border_radius=thick)
    if length > 0:
        track.width = max(thick, round(track.width * length))
        pygame.draw.rect(panel, colour, track, border_radius=thick)


def _heat_surface(heat_map: HeatMap, size: tuple[int, int]) -> pygame.Surface:
    """Return `heat_map` as a surface of `size`, transparent where it is 0."""
    strengths = (255 * np.clip(heat_map, 0, 1)).astype(np.uint8)
    pixels = _heat_colours()[strengths]
    small = pygame.image.frombuffer(pixels.tobytes(), heat_map.shape[::-1], "BGRA")
    return pygame.transform.smoothscale(small, size)


@cache
def _heat_colours() -> NDArray[np.uint8]:
    """Return a colour for each of 256 strengths, from transparent red to opaque yellow; uint8 [256, 4].

    The order is blue, green, red: pygame blends it a hundred times as fast as red, green, blue.
    """
    strength = np.linspace(0, 1, 256)
    red = np.full(256, 255.0)
    green = 255 * np.clip(1.5 * strength - 0.35, 0, 1)
    blue = 255 * np.clip(3 * strength - 2.2, 0, 1)
    return np.stack([blue, green, red, HEAT_OPACITY * strength], axis=1).astype(np.uint8)


def colour_of(number: int, view: View) -> Colour | None:
    """Return the colour of action `number` if it is being taken, else None."""
    if number != view.action:
        return None
    return EXPLORING if view.exploring else BADGES[view.human][1]


def facts(view: View) -> dict[str, str]:
    """Return the values shown above the Q-values, by name."""
    return {
        "score": f"{view.score:g}",
        "lives": str(view.lives) if view.lives else "–",
        "ε": "–" if view.exploration_rate is None else f"{view.exploration_rate:g}",
        "speed": view.speed,
    }


def _paint_badge(surface: pygame.Surface, badge: pygame.Rect, human: bool) -> None:
    words, colour = BADGES[human]
    pygame.draw.rect(surface, colour, badge, border_radius=badge.height // 2)
    text = _text(words, round(badge.height * 0.46), BACKGROUND)
    surface.blit(text, text.get_rect(center=badge.center))


def _paint_small_badge(canvas: pygame.Surface, view: View) -> None:
    height = max(10, canvas.get_height() // 34)
    badge = pygame.Rect(0, 0, round(height * 5.4), height)
    badge.bottomright = (canvas.get_width() - height // 3, canvas.get_height() - height // 3)
    _paint_badge(canvas, badge, view.human)


def _paint_facts(panel: pygame.Surface, area: pygame.Rect, unit: float, view: View) -> int:
    """Draw score, lives, ε and speed, two in a row; return the top of the space below them."""
    for number, (name, value) in enumerate(facts(view).items()):
        left = area.left + (area.width // 2) * (number % 2)
        top = area.top + round(4.2 * unit) * (number // 2)
        _write(panel, name, unit, FAINT, (left, top))
        _write(panel, value, 1.7 * unit, BRIGHT, (left, top + round(1.2 * unit)))
    return area.top + round(9 * unit)


def _paint_message(canvas: pygame.Surface, game: pygame.Rect, words: str) -> None:
    text = _text(words, max(9, game.height // 40), BRIGHT)
    box = text.get_rect().inflate(text.get_height(), text.get_height() // 2)
    box.midbottom = (game.centerx, game.bottom - game.height // 24)
    shade = pygame.Surface(box.size, pygame.SRCALPHA)
    pygame.draw.rect(shade, (*BACKGROUND, 215), shade.get_rect(), border_radius=box.height // 3)
    canvas.blit(shade, box)
    canvas.blit(text, text.get_rect(center=box.center))


def _write(
    surface: pygame.Surface,
    words: str,
    size: float,
    colour: Colour,
    corner: tuple[int, int],
    right: bool = False,
) -> None:
    """Write `words` with their top left corner, or top right one, at `corner`."""
    text = _text(words, max(8, round(size)), colour)
    surface.blit(text, text.get_rect(topright=corner) if right else text.get_rect(topleft=corner))


@lru_cache(maxsize=2048)  # many values repeat
def _text(words: str, size: int, colour: Colour) -> pygame.Surface:
    pygame.font.init()  # again, as an environment's close() may call pygame.quit(), which invalidates fonts
    font = pygame.font.Font(None, round(size * 1.45))  # pygame's own font has small letters
    return font.render(words, True, colour)
