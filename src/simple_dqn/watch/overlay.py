"""Draws the enlarged game, and a panel with the agent's Q-values: as pixels in memory, or as text."""

from functools import cache, lru_cache
from typing import TypeAlias

import blessed
import numpy as np
import pygame
from numpy.typing import NDArray
from pygame import Rect, Surface

from simple_dqn.environment.interface import Picture
from simple_dqn.errors import printable
from simple_dqn.watch.player import HeatMap, View

Color: TypeAlias = tuple[int, int, int]

BACKGROUND: Color = (17, 19, 24)
TRACK: Color = (35, 39, 48)
FAINT: Color = (122, 130, 146)
BRIGHT: Color = (232, 235, 241)
IDLE_BAR: Color = (72, 84, 106)
EXPLORING: Color = (226, 98, 132)
BADGES: dict[bool, tuple[str, Color]] = {  # by whether a person plays
    False: ("AGENT PLAYS", (52, 196, 178)),
    True: ("YOU PLAY", (247, 168, 56)),
}

NAME, BAR, VALUE = 14, 6, 7  # columns of each part of an action's line in a terminal
PANEL_COLUMNS = NAME + BAR + VALUE
EIGHTHS = " ▏▎▍▌▋▊▉"  # of a cell, from the left
PANEL_SHARE = 8 / 21  # the panel's width over the picture's height: half the width of an Atari picture
SPREAD_KEPT = 0.998  # of the bars' scale, per picture: it halves in 6 s
HEAT_OPACITY = 235  # of 255, where the heat map is hottest


class Overlay:
    """Draws the pictures of one game, whose Q-values set the scale of the bars."""

    def __init__(self, scale: int, hints: bool = False) -> None:
        """Enlarge the game by `scale`; a `panel` beside it, unless set to False, has the keys if `hints`."""
        self.scale, self.panel, self._spread, self._hints = scale, True, 0.0, hints

    def bars(self, view: View) -> list[float]:
        """Return the length of each action's bar in the next picture, from 0 to 1; without an agent 1 or 0.

        The best action's bar is full, and an empty one stands for the largest difference of the last seconds.
        """
        if view.qvalues is None:
            return [float(number == view.action) for number in range(len(view.action_names))]
        worse = float(view.qvalues.max()) - view.qvalues.astype(np.float64)
        self._spread = max(float(worse.max()), self._spread * SPREAD_KEPT)
        return [float(length) for length in 1 - worse / (self._spread or 1.0)]

    def fit(self, picture: Picture, width: float, height: float) -> None:
        """Set the largest scale, up to 16, at which the drawing of `picture` fits; in pixels."""
        rows, columns = picture.shape[:2]
        wide = columns + rows * PANEL_SHARE * self.panel
        self.scale = max(1, min(16, int(height / rows), int((width + 1) / wide)))  # + 1: `size` rounds

    def size(self, picture: Picture) -> tuple[int, int]:
        """Return the width and height of the drawing of `picture`, in pixels."""
        height, width = picture.shape[0] * self.scale, picture.shape[1] * self.scale
        return width + (2 * round(height * PANEL_SHARE / 2) if self.panel else 0), height

    def draw(self, picture: Picture, view: View) -> NDArray[np.uint8]:
        """Return the drawing of `paint` as a new array, uint8 [height, width, 3]."""
        return pygame.surfarray.array3d(self.paint(picture, view)).swapaxes(0, 1).copy()

    def paint(self, picture: Picture, view: View) -> Surface:
        """Return a new surface that shows `picture`, uint8 [height, width, 3], and `view`."""
        canvas = Surface(self.size(picture), depth=32)
        canvas.fill(BACKGROUND)
        game = self.paint_game(picture, view.heat_map)
        canvas.blit(game, (0, 0))
        if self.panel:
            width = canvas.get_width() - game.get_width()
            self._paint_panel(canvas.subsurface((game.get_width(), 0, width, canvas.get_height())), view)
        return canvas

    def paint_game(self, picture: Picture, heat_map: HeatMap | None) -> Surface:
        """Return a new surface with `heat_map` over `picture`."""
        game = pygame.image.frombuffer(picture.tobytes(), picture.shape[1::-1], "RGB")
        game = pygame.transform.scale_by(game.convert(Surface((1, 1), depth=32)), self.scale)
        if heat_map is not None:
            pixels = _heat_colors()[(255 * np.clip(heat_map, 0, 1)).astype(np.uint8)]
            heat = pygame.image.frombuffer(pixels.tobytes(), heat_map.shape[::-1], "BGRA")
            game.blit(pygame.transform.smoothscale(heat, game.get_size()), (0, 0))
        return game

    def _paint_panel(self, panel: Surface, view: View) -> None:
        """Draw the badge; score, lives, ε and speed, two in a row; the actions; and the keys."""
        unit = panel.get_height() / 42  # a line of text and its space
        edge = round(unit)
        area = panel.get_rect().inflate(-2 * edge, -2 * edge)
        badge, (words, who) = Rect(area.topleft, (area.width, round(2.4 * unit))), BADGES[view.human]
        pygame.draw.rect(panel, who, badge, border_radius=badge.height // 2)
        _write(panel, words, badge.height * 0.46, BACKGROUND, center=badge.center)
        top = badge.bottom + edge
        for number, (name, value) in enumerate(view.facts.items()):
            place = area.left + (area.width // 2) * (number % 2), top + round(4.2 * unit) * (number // 2)
            _write(panel, name, unit, FAINT, topleft=place)
            _write(panel, value, 1.7 * unit, BRIGHT, topleft=(place[0], place[1] + round(1.2 * unit)))
        top += round(9 * unit)
        title = "actions" if view.qvalues is None else "Q-values"
        _write(panel, title, unit, FAINT, topleft=(area.left, top))
        top += round(1.8 * unit)
        bottom = panel.get_height() - edge
        for left, right in reversed(view.hints if self._hints else []):
            bottom -= round(1.3 * unit)
            line = bottom + edge // 2
            _write(panel, left, 0.8 * unit, FAINT, topleft=(area.left, line))
            _write(panel, right, 0.8 * unit, FAINT, topleft=(area.left + area.width // 2, line))
        pitch = min(2.6 * unit, (bottom - top) / len(view.action_names))
        actions = zip(actions_of(view), self.bars(view), strict=True)
        for number, ((name, value, color), length) in enumerate(actions):
            row = Rect(area.left, top + round(number * pitch), area.width, round(pitch))
            bright, size = BRIGHT if color else FAINT, row.height * 0.44
            thick = max(2, round(row.height * 0.22))
            _write(panel, name, size, bright, topleft=row.topleft)
            _write(panel, value, size, bright, topright=row.topright)
            track = Rect(row.left, row.top + round(row.height * 0.6), row.width, thick)
            pygame.draw.rect(panel, TRACK, track, border_radius=thick)
            if length > 0:
                track.width = max(thick, round(track.width * length))
                pygame.draw.rect(panel, color or IDLE_BAR, track, border_radius=thick)


@cache
def _heat_colors() -> NDArray[np.uint8]:
    """Return a color for each of 256 strengths, from transparent red to opaque yellow; uint8 [256, BGRA]."""
    strength, red = np.linspace(0, 1, 256), np.full(256, 255.0)
    green = 255 * np.clip(1.5 * strength - 0.35, 0, 1)
    blue = 255 * np.clip(3 * strength - 2.2, 0, 1)
    # pygame blends this order a hundred times as fast as red, green, blue.
    return np.stack([blue, green, red, HEAT_OPACITY * strength], axis=1).astype(np.uint8)


def actions_of(view: View) -> list[tuple[str, str, Color | None]]:
    """Return the name, the Q-value and the color of each action; None: it is not being taken."""
    names = view.action_names
    values = [""] * len(names) if view.qvalues is None else [f"{value:.3f}" for value in view.qvalues]
    taken = EXPLORING if view.exploring else BADGES[view.human][1]
    colors = [taken if number == view.action else None for number in range(len(names))]
    return list(zip(names, values, colors, strict=True))


def _write(surface: Surface, words: str, size: float, color: Color, **place: tuple[int, int]) -> None:
    """Write `words` where `place` says, such as topleft=(x, y)."""
    text = _text(words, max(8, round(size)), color)
    surface.blit(text, text.get_rect(**place))


@lru_cache(maxsize=2048)  # many values repeat
def _text(words: str, size: int, color: Color) -> Surface:
    pygame.font.init()  # again: an environment's `close` may call `pygame.quit`, which invalidates every font
    font = pygame.font.Font(None, round(size * 1.45))  # pygame's own font has small letters
    return font.render(words, True, color)


def panel_lines(terminal: blessed.Terminal, view: View, lengths: list[float]) -> list[str]:
    """Return the panel's lines of `PANEL_COLUMNS` columns: badge, facts, an action in each, and the keys."""

    def paint(words: str, color: Color, behind: Color = BACKGROUND) -> str:
        return f"{terminal.normal}{terminal.color_rgb(*color)}{terminal.on_color_rgb(*behind)}{words}"

    words, color = BADGES[view.human]
    facts = []
    for name, value in view.facts.items():
        width = PANEL_COLUMNS // 2 - len(name) - 1
        facts.append(paint(f"{name} ", FAINT) + paint(f"{value:<{width}}"[:width], BRIGHT))
    badge, empty = paint(f"{words:^{PANEL_COLUMNS}}", BACKGROUND, color), paint(" " * PANEL_COLUMNS, BRIGHT)
    lines = [badge, facts[0] + facts[1], facts[2] + facts[3], empty]
    for (name, value, taken), length in zip(actions_of(view), lengths, strict=True):
        text, (cells, eighths) = BRIGHT if taken else FAINT, divmod(round(length * BAR * 8), 8)
        bar = paint(f"{'█' * cells + EIGHTHS[eighths]:<{BAR}}"[:BAR], taken or IDLE_BAR, TRACK)
        word = paint(f"{printable(name)[: NAME - 1]:<{NAME}}", taken or text)
        lines.append(word + bar + paint(f"{value:>{VALUE}}"[:VALUE], text))
    half = PANEL_COLUMNS - PANEL_COLUMNS // 2
    keys = [f"{left:<{half}}{right:<{PANEL_COLUMNS - half}}" for left, right in view.hints]
    return lines + [paint(words, FAINT) for words in keys]
