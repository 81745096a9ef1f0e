"""The keys; a player that is watched; each frame with its own score; the panel, pixel by pixel."""

import itertools
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import ale_py
import numpy as np
import pygame
import pytest
from numpy.typing import NDArray

from simple_dqn.agent import Player
from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import as_played, make
from simple_dqn.environment.interface import NO_ACTION, Environment, Frame
from simple_dqn.random_streams import stream
from simple_dqn.types import QValues, States
from simple_dqn.watch import overlay as panel
from simple_dqn.watch import player as module
from simple_dqn.watch.overlay import Overlay
from simple_dqn.watch.player import HINTS, Controls, FrameFollower, View, WatchedPlayer, nearest_action

ALL = (
    "NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN", "UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT", "UPFIRE",
    "RIGHTFIRE", "LEFTFIRE", "DOWNFIRE", "UPRIGHTFIRE", "UPLEFTFIRE", "DOWNRIGHTFIRE", "DOWNLEFTFIRE",
)  # fmt: skip
PONG = ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")
BREAKOUT, BACKGAMMON = ("NOOP", "FIRE", "RIGHT", "LEFT"), ("FIRE", "RIGHT", "LEFT")
PARTS = itertools.product(("", "UP", "DOWN"), ("", "LEFT", "RIGHT"), ("", "FIRE"))
NEAREST: list[tuple[set[str], tuple[str, ...], str]] = [
    *(({*parts} - {""}, ALL, "".join(parts) or "NOOP") for parts in PARTS),
    ({"UP", "DOWN"}, ALL, "NOOP"), ({"LEFT", "RIGHT", "FIRE"}, ALL, "FIRE"), ({"LEFT", "NOOP"}, ALL, "NOOP"),
    ({"UP"}, PONG, "NOOP"), ({"UP", "LEFT"}, PONG, "LEFT"), ({"DOWN", "RIGHT", "FIRE"}, PONG, "RIGHTFIRE"),
    ({"RIGHT", "FIRE"}, BREAKOUT, "FIRE"), ({"UP", "RIGHT"}, BREAKOUT, "RIGHT"),
    (set(), ("LEFT", "NOOP", "RIGHT"), "NOOP"), ({"LEFT"}, ("0", "1"), "0"),
    ({"1", "LEFT"}, ("0", "1"), "1"), ({"7"}, ("0", "1"), "0"), ({"1", "LEFT"}, PONG, "LEFT"),
]  # fmt: skip


def test_buttons_take_the_nearest_action() -> None:
    for held, actions, taken in NEAREST:
        assert actions[nearest_action(held, actions)] == taken
    assert not set(module.COMMANDS) & module.BUTTONS.keys()
    for held, number in ((set[str](), NO_ACTION), ({"UP"}, NO_ACTION), ({"FIRE"}, 0), ({"LEFT", "UP"}, 2)):
        controls = Controls(alone=True)
        controls.apply(["m"], held)  # which changes nothing: there is no agent
        assert controls.action(BACKGAMMON, can_rest=True) == number
        assert nearest_action(held, ALL, can_rest=True) == nearest_action(held, ALL)
        assert nearest_action(held, BACKGAMMON) >= 0


def test_a_person_takes_over_and_a_short_key_press_counts_once() -> None:
    controls = Controls()
    controls.apply([], {"LEFT"})
    assert controls.action(PONG) is None
    controls.apply(["m"], {"LEFT"})
    assert controls.action(PONG) == PONG.index("LEFT")
    for held in (set[str](), {"FIRE"}, set[str]()):
        controls.apply([], held)
    assert [PONG[controls.action(PONG) or 0] for _ in range(2)] == ["FIRE", "NOOP"]
    controls.apply(["m"], {"LEFT"})
    assert controls.action(PONG) is None


def test_speed_and_volume_stop_at_their_ends_and_switches_switch() -> None:
    controls, speeds = Controls(), []
    for command in "aaaasssssssss":
        controls.apply([command], set())
        speeds.append(controls.speed)
    assert speeds == [0.5, 0.25, 0.125, 0.125, 0.25, 0.5, 1, 2, 4, 8, None, None, None]
    for keys, volume in (("]]]", 0.8), ("]" * 9, 1), ("[" * 20, 0)):
        controls.apply(keys, set())
        assert controls.volume == pytest.approx(volume)
    for keys, switches in (("ovq", (False, True, True)), ("ov", (True, False, True))):
        controls.apply(keys, set())
        assert (controls.overlay, controls.saliency, controls.ended) == switches


CATCH = EnvironmentConfig(game="catch", environment="catch", screen_width=16, screen_height=16)


def environment() -> Environment:
    return make(CATCH, [stream(1, "environment")], training=False)


def predict(states: States) -> QValues:
    sums = states.astype(np.float32).reshape(len(states), -1) @ np.arange(states[0].size, dtype=np.float32)
    return np.stack([np.sin(sums), np.cos(sums), np.sin(2 * sums)], axis=1).astype(np.float32)


def test_a_watched_player_plays_as_a_player_does() -> None:
    player = WatchedPlayer(environment(), predict, 4, stream(1, "exploration"))
    plain = Player(environment(), predict, 4, stream(1, "exploration"))
    player.start()
    plain.start()
    explored = 0
    for _ in range(100):
        one, other = player.step(0.3), plain.step(0.3)
        assert np.array_equal(one.actions, other.actions)
        assert np.array_equal(one.screens, other.screens)
        explored += player.exploring
    assert 0 < explored < 60


@pytest.mark.parametrize("agent", [predict, None])
def test_a_person_chooses_whenever_there_is_one(agent: Any) -> None:
    wanted: list[int | None] = [None]
    player = WatchedPlayer(environment(), agent, 4, stream(1, "exploration"), person=lambda: wanted[0])
    step = player.start()
    for turn in range(60):
        wanted[0] = 2 if turn % 3 else None
        starts = step.resets[0]
        step = player.step(0.0 if agent else 1.0)
        assert player.human == (wanted[0] is not None)
        # Alone, nobody moves unless a person does.
        own = player.qvalues.argmax() if agent and player.qvalues is not None else 0
        assert player.action == (2 if player.human else own)
        assert starts or step.actions[0] == player.action
        assert not player.exploring


class Screening(FrameFollower):
    def __init__(self, config: EnvironmentConfig, exploration_rate: float, gradients: Any = None) -> None:
        super().__init__(exploration_rate)
        self.asked: list[States] = []  # for heat maps
        self.shown: list[tuple[Frame, View, int]] = []  # with the number of the step
        self.states: list[States] = []  # before each step

        def saliency(states: States) -> NDArray[np.float32]:
            self.asked.append(states.copy())
            assert gradients is not None
            return np.array(gradients)

        games = make(as_played(config), [stream(1, "environment")], training=False, watcher=self.watch)
        agent = WatchedPlayer(games, newest, 4, stream(1, "exploration"), saliency)
        self.rewards, self._heat = 0.0, gradients is not None
        self.steps = self.follow(agent)

    def show(self, frame: Frame) -> None:
        self.rewards += frame.reward
        self.shown.append((frame, self.view(frame, self._heat), len(self.states)))


def newest(states: States) -> QValues:
    """Return Q-values that tell the newest screen of a state."""
    return np.repeat(states[:, -1].mean(axis=(1, 2))[:, np.newaxis], 6, axis=1).astype(np.float32)


@pytest.mark.parametrize("scale", [0, 1])
def test_a_frame_is_shown_with_the_choice_and_the_heat_map_of_its_state(scale: int) -> None:
    """A game of Catch has eight frames and pays with its last, which shows it; the next begins at 0."""
    gradients = scale * np.random.default_rng(0).normal(size=(1, 4, 5, 6)).astype(np.float32)
    screening = Screening(CATCH, 0.0, gradients)
    for _ in itertools.islice(screening.steps, 40):
        screening.states.append(screening.player.states.copy())
    frames = screening.shown
    assert len(frames) == 40
    expected = np.abs(gradients[0]).max(axis=0) / (np.abs(gradients).max() or 1)
    for number, (_, view, step) in enumerate(frames):
        if number % 8 == 0:  # the first of a game: nobody has chosen
            assert (view.action, view.qvalues, view.heat_map) == (NO_ACTION, None, None)
            continue
        assert view.qvalues is not None
        assert view.qvalues[0] == newest(screening.states[step - 1])[0, 0]
        np.testing.assert_allclose(np.array(view.heat_map), expected)
        assert np.array_equal(screening.asked[number - number // 8 - 1], screening.states[step - 1])
    assert len(screening.asked) == 35  # once for each state
    games = [[view.score for _, view, _ in frames[first : first + 8]] for first in range(0, 40, 8)]
    assert all(scores[:7] == [0] * 7 for scores in games)
    assert [scores[7] for scores in games] == screening.scores


@pytest.mark.parametrize(
    ("agent", "heat", "idle"),
    [(predict, newest, ()), (predict, None, ("v: saliency",)), (None, None, ("m: you/agent", "v: saliency"))],
)
def test_the_keys_that_do_nothing_are_not_named(agent: Any, heat: Any, idle: tuple[str, ...]) -> None:
    screening = Screening(CATCH, 0.0)
    screening.player = WatchedPlayer(environment(), agent, 4, stream(1, "exploration"), heat)
    view = screening.view(Frame.silent(np.zeros((16, 16), np.uint8)), heat_map=False)
    named = [word for pair in view.hints for word in pair if word]
    assert named == [word for word in HINTS if word not in idle]


def test_the_score_is_that_of_each_frame_within_a_step() -> None:
    """Points are won in one of the four frames of a step, and are shown from this frame on."""
    screening = Screening(EnvironmentConfig(game="space_invaders"), 1.0)
    next(screening.steps)
    within = 0
    for _ in range(120):
        shown, before, rewards = len(screening.shown), screening.score, screening.rewards
        next(screening.steps)
        assert screening.score == before + screening.rewards - rewards
        scores = [view.score for _, view, _ in screening.shown[shown:]]
        assert len(scores) == 4
        assert scores[-1] == screening.score
        within += len(set(scores)) > 1
    assert within, "points were won before the last frame of a step"


PICTURE = np.random.default_rng(0).integers(0, 256, (210, 160, 3), dtype=np.uint8)
Q = np.array([0.0, 0.5, 1.0, 0.25], np.float32)
VIEW = View(BREAKOUT, score=-3, lives=2, exploration_rate=0.05, action=2, qvalues=Q)


def pixels(image: NDArray[np.uint8], color: panel.Color) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = (image == np.array(color, np.uint8)).all(axis=2)
    return same


@pytest.mark.parametrize("scale", [1, 3])
def test_the_game_is_shown_exactly_and_the_panel_has_room_for_18_actions(scale: int) -> None:
    overlay = Overlay(scale)
    image = overlay.draw(PICTURE, VIEW)
    assert image.dtype == np.uint8
    assert image.shape[0] == 210 * scale
    assert image.shape[1] > 160 * scale
    assert image.shape[1] % 2 == 0
    assert np.array_equal(image[:, : 160 * scale], PICTURE.repeat(scale, axis=0).repeat(scale, axis=1))
    copy = image.copy()
    many = replace(VIEW, action_names=("DOWNRIGHTFIRE",) * 18, qvalues=np.zeros(18, np.float32), action=17)
    image, first = overlay.draw(PICTURE, many), image
    assert np.array_equal(first, copy), "a new array for each picture"
    assert pixels(image[150 * scale :, 160 * scale :], panel.BADGES[False][1]).any()
    assert pixels(image[-3:, 160 * scale :], panel.BACKGROUND).all()
    hinted = Overlay(scale, hints=True).draw(PICTURE, many)
    differs = (hinted != image).any(axis=(1, 2))
    assert differs[190 * scale : -3].any()
    assert not differs[: 70 * scale].any(), "the key hints move the lines above the actions"
    overlay.fit(small := np.zeros((36, 50, 3), np.uint8), 1536, 864)
    assert overlay.scale == 16, "the panel of a small game is too small to read"
    other = Overlay(scale).draw(small, VIEW)
    assert other.shape[0] == 36 * scale
    assert other.shape[1] > 60 * scale


def test_bars_are_as_long_as_the_values_are_good_and_the_chosen_one_is_marked() -> None:
    image = Overlay(3).draw(PICTURE * 0, VIEW)[150:, 480:]  # below the badge
    track = 210  # pixels: 240 less 15 at each side
    assert pixels(image, panel.BADGES[False][1]).sum(axis=1).max() == pytest.approx(track, abs=8)
    idle = np.sort(np.unique(pixels(image, panel.IDLE_BAR).sum(axis=1)))
    assert idle[-1] == pytest.approx(track / 2, abs=8)
    assert np.abs(idle - track / 4).min() <= 8
    exploring = Overlay(3).draw(PICTURE * 0, replace(VIEW, exploring=True))[150:, 480:]
    assert pixels(exploring, panel.EXPLORING).any()
    assert not pixels(exploring, panel.BADGES[False][1]).any()
    for human in (False, True):  # who plays
        image = Overlay(3).draw(PICTURE * 0, replace(VIEW, human=human, qvalues=None, action=-1))
        assert pixels(image, panel.BADGES[human][1]).sum() > 500
        assert pixels(image, panel.BADGES[not human][1]).sum() == 0


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


def test_facts_and_letters() -> None:
    assert VIEW.facts == {"score": "-3", "lives": "2", "ε": "0.05", "speed": "1×"}
    alone = replace(VIEW, score=1234560, lives=0, exploration_rate=None, qvalues=None, human=True)
    assert alone.facts == {"score": "1234560", "lives": "–", "ε": "–", "speed": "1×"}
    overlay = Overlay(1)
    first = overlay.draw(PICTURE, replace(VIEW, score=1))
    assert not np.array_equal(overlay.draw(PICTURE, replace(VIEW, score=1, action_names=("0",) * 4)), first)
    pygame.quit()  # as Gymnasium's CartPole does when it closes
    assert np.array_equal(overlay.draw(PICTURE, replace(VIEW, score=1)), first)
    assert not np.array_equal(overlay.draw(PICTURE, replace(VIEW, score=-1234567)), first)


def test_bars_show_the_distance_to_the_best_action_on_a_scale_that_narrows_again() -> None:
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
    view = View(names, score=1234560, lives=3, action=17, qvalues=qvalues)
    # A terminal whose colors can be read: `<f>` and `<b>` in place of its codes.
    marks: Any = SimpleNamespace(normal="<n>", color_rgb=lambda *_: "<f>", on_color_rgb=lambda *_: "<b>")
    lines = panel.panel_lines(marks, view, Overlay(1).bars(view))
    for line in lines:
        assert line.startswith("<n>")
        assert all(part.startswith("<f><b>") for part in line.split("<n>")[1:])
    words = [re.sub("<.>", "", line) for line in lines]
    assert words[1].startswith("score 1234560")
    assert {len(line) for line in words[3:]} == {panel.PANEL_COLUMNS}
    assert [line[:14].rstrip() for line in words[4:]] == [*names, *HINTS[::2]]
    assert all(line[13] == " " for line in words[4:])
