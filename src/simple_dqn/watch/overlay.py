"""The picture that a person is shown: the game, larger, and beside it what the agent thinks.

It is drawn in memory and needs no display: a window shows it, and a film is made of it.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeAlias

import numpy as np
import pygame
from numpy.typing import NDArray

from simple_dqn.environment.interface import Picture
from simple_dqn.watch.bars import BarScale
from simple_dqn.watch.heat import heat_surface
from simple_dqn.watch.mind import HeatMap

Colour: TypeAlias = tuple[int, int, int]

BACKGROUND: Colour = (17, 19, 24)
TRACK: Colour = (35, 39, 48)
FAINT: Colour = (122, 130, 146)
BRIGHT: Colour = (232, 235, 241)
IDLE_BAR: Colour = (72, 84, 106)
PLAYERS: dict[bool, tuple[str, Colour]] = {  # whether a person plays -> the badge
    False: ("AGENT PLAYS", (52, 196, 178)),
    True: ("YOU PLAY", (247, 168, 56)),
}
EXPLORING: Colour = (226, 98, 132)

PANEL_SHARE = 8 / 21  # width of the panel in heights of the picture: half an Atari picture's width


@dataclass(frozen=True)
class View:
    """What there is to say about a moment of a game."""

    action_names: tuple[str, ...]  # A of them
    action: int  # the one that is being taken
    human: bool  # whether a person chose it
    score: float  # game points so far
    lives: int  # left; 0 where there are no lives
    speed: str = "1×"
    exploring: bool = False  # whether the agent chose the action at random
    exploration_rate: float | None = None  # ε; None: there is no agent
    qvalues: NDArray[np.float32] | None = None  # float32 [A]; None: there is no agent
    heat_map: HeatMap | None = None  # float32 [H, W] from 0 to 1, laid over the game; None: it is not
    message: str = ""  # a few words of what just happened


class Overlay:
    """Draws pictures of one game at one scale; their scale of Q-values follows the game."""

    def __init__(self, scale: int, panel: bool = True) -> None:
        """Set up the drawing.

        Args:
            scale: Pixels on each side of a pixel of the game.
            panel: Whether the agent's thoughts stand beside the game; else only a small badge in it.
        """
        pygame.font.init()
        self.scale = scale
        self.panel = panel
        self._bars = BarScale()
        self._heat: tuple[HeatMap, pygame.Surface] | None = None  # the last one, and as it was drawn

    def size(self, picture: Picture) -> tuple[int, int]:
        """Return the width and height, in pixels, of what is drawn around such a `picture`."""
        height, width = picture.shape[0] * self.scale, picture.shape[1] * self.scale
        return width + (_panel_width(height) if self.panel else 0), height

    def draw(self, picture: Picture, view: View) -> NDArray[np.uint8]:
        """Return a fresh array, uint8 [height, width, 3], of what `paint` paints."""
        canvas = self.paint(picture, view)
        pixels = np.frombuffer(bytearray(pygame.image.tobytes(canvas, "RGB")), np.uint8)
        return pixels.reshape(canvas.get_height(), canvas.get_width(), 3)

    def paint(self, picture: Picture, view: View) -> pygame.Surface:
        """Return a fresh surface with the game, its heat map, and what `view` says of it.

        Args:
            picture: uint8 [height, width, 3], in red, green and blue.
            view: What to say.
        """
        canvas = pygame.Surface(self.size(picture), depth=32)
        canvas.fill(BACKGROUND)
        game = self.paint_game(picture, view.heat_map)
        canvas.blit(game, (0, 0))
        if self.panel:
            self._paint_panel(canvas.subsurface(_right_of(game, canvas)), view)
        else:
            _paint_small_badge(canvas, view)
        if view.message:
            _paint_message(canvas, game.get_rect(), view.message)
        return canvas

    def paint_game(self, picture: Picture, heat_map: HeatMap | None) -> pygame.Surface:
        """Return a fresh surface with `picture` alone, and `heat_map` over it if there is one."""
        game = pygame.image.frombuffer(picture.tobytes(), picture.shape[1::-1], "RGB")
        game = pygame.transform.scale_by(game.convert(pygame.Surface((1, 1), depth=32)), self.scale)
        if heat_map is not None:
            game.blit(self._heat_surface(heat_map, game.get_size()), (0, 0))
        return game

    def _heat_surface(self, heat_map: HeatMap, size: tuple[int, int]) -> pygame.Surface:
        """Return `heat_map` as a surface of `size`; the frames of a step share one."""
        if self._heat is None or self._heat[0] is not heat_map or self._heat[1].get_size() != size:
            self._heat = (heat_map, heat_surface(heat_map, size))
        return self._heat[1]

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
        """Draw a row for each action: its name, its value, and a bar below them."""
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
            value = None if view.qvalues is None else float(view.qvalues[number])
            colour = colour_of(number, view)
            self._paint_row(panel, row, name, value, float(lengths[number]), colour)

    def _paint_row(
        self,
        panel: pygame.Surface,
        row: pygame.Rect,
        name: str,
        value: float | None,
        length: float,
        colour: Colour | None,
    ) -> None:
        thick = max(2, round(row.height * 0.22))
        size = row.height * 0.44
        text = BRIGHT if colour else FAINT
        _write(panel, name, size, text, row.topleft)
        if value is not None:
            _write(panel, f"{value:.3f}", size, text, row.topright, right=True)
        track = pygame.Rect(row.left, row.top + round(row.height * 0.6), row.width, thick)
        pygame.draw.rect(panel, TRACK, track, border_radius=thick)
        bar = track.copy()
        bar.width = max(thick, round(track.width * length)) if length > 0 else 0
        if bar.width:
            pygame.draw.rect(panel, colour or IDLE_BAR, bar, border_radius=thick)


def _panel_width(height: int) -> int:
    return 2 * round(height * PANEL_SHARE / 2)


def _right_of(game: pygame.Surface, canvas: pygame.Surface) -> pygame.Rect:
    left = game.get_width()
    return pygame.Rect(left, 0, canvas.get_width() - left, canvas.get_height())


def colour_of(number: int, view: View) -> Colour | None:
    """Return the colour of the action that is being taken; None for others."""
    if number != view.action:
        return None
    return EXPLORING if view.exploring else PLAYERS[view.human][1]


def facts(view: View) -> dict[str, str]:
    """Return what stands above the Q-values, by name."""
    return {
        "score": f"{view.score:g}",
        "lives": str(view.lives) if view.lives else "–",
        "ε": "–" if view.exploration_rate is None else f"{view.exploration_rate:g}",
        "speed": view.speed,
    }


def _paint_badge(surface: pygame.Surface, badge: pygame.Rect, human: bool) -> None:
    words, colour = PLAYERS[human]
    pygame.draw.rect(surface, colour, badge, border_radius=badge.height // 2)
    text = _text(words, round(badge.height * 0.46), BACKGROUND)
    surface.blit(text, text.get_rect(center=badge.center))


def _paint_small_badge(canvas: pygame.Surface, view: View) -> None:
    height = max(10, canvas.get_height() // 34)
    badge = pygame.Rect(0, 0, round(height * 5.4), height)
    badge.bottomright = (canvas.get_width() - height // 3, canvas.get_height() - height // 3)
    _paint_badge(canvas, badge, view.human)


def _paint_facts(panel: pygame.Surface, area: pygame.Rect, unit: float, view: View) -> int:
    """Draw score, lives, ε and speed, two in a row; return where the space below them begins."""
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
    """Write `words` with their top left, or top right, corner at `corner`."""
    text = _text(words, max(8, round(size)), colour)
    surface.blit(text, text.get_rect(topright=corner) if right else text.get_rect(topleft=corner))


@lru_cache(maxsize=2048)  # values come again and again, but not all of them
def _text(words: str, size: int, colour: Colour) -> pygame.Surface:
    return _font(size).render(words, True, colour)


@cache
def _font(size: int) -> pygame.font.Font:
    return pygame.font.Font(None, round(size * 1.45))  # pygame's own font has small letters
