import itertools

import pytest

from simple_dqn.environment.interface import NO_ACTION
from simple_dqn.watch.controls import BUTTONS, COMMANDS, Controls, nearest_action

ALL = (
    "NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN", "UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT", "UPFIRE",
    "RIGHTFIRE", "LEFTFIRE", "DOWNFIRE", "UPRIGHTFIRE", "UPLEFTFIRE", "DOWNRIGHTFIRE", "DOWNLEFTFIRE",
)  # fmt: skip
PONG = ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")
BREAKOUT = ("NOOP", "FIRE", "RIGHT", "LEFT")


def test_each_of_the_18_actions_has_its_buttons() -> None:
    for vertical, horizontal, fire in itertools.product(
        ("", "UP", "DOWN"), ("", "LEFT", "RIGHT"), ("", "FIRE")
    ):
        name = vertical + horizontal + fire or "NOOP"
        assert ALL[nearest_action({vertical, horizontal, fire} - {""}, ALL)] == name


@pytest.mark.parametrize(
    ("held", "actions", "taken"),
    [
        ({"UP", "DOWN"}, ALL, "NOOP"),
        ({"LEFT", "RIGHT", "FIRE"}, ALL, "FIRE"),
        ({"LEFT", "NOOP"}, ALL, "NOOP"),
        ({"UP"}, PONG, "NOOP"),
        ({"UP", "LEFT"}, PONG, "LEFT"),
        ({"DOWN", "RIGHT", "FIRE"}, PONG, "RIGHTFIRE"),
        ({"RIGHT", "FIRE"}, BREAKOUT, "FIRE"),
        ({"UP", "RIGHT"}, BREAKOUT, "RIGHT"),
        (set(), ("LEFT", "NOOP", "RIGHT"), "NOOP"),
        ({"LEFT"}, ("0", "1"), "0"),
    ],
)
def test_other_combinations_take_the_nearest_action(
    held: set[str], actions: tuple[str, ...], taken: str
) -> None:
    assert actions[nearest_action(held, actions)] == taken


@pytest.mark.parametrize(
    ("held", "taken"), [(set(), NO_ACTION), ({"UP"}, NO_ACTION), ({"FIRE"}, 0), ({"LEFT", "UP"}, 2)]
)  # fmt: skip
def test_without_a_key_no_button_is_pressed_even_where_no_action_is_called_so(
    held: set[str], taken: int
) -> None:
    backgammon = ("FIRE", "RIGHT", "LEFT")
    controls = Controls(alone=True)
    controls.apply([], held)
    assert controls.action(backgammon, can_rest=True) == taken
    assert nearest_action(held, ALL, can_rest=True) == nearest_action(held, ALL)
    assert nearest_action(held, backgammon) >= 0


def test_no_key_means_two_things() -> None:
    assert not set(COMMANDS) & BUTTONS.keys()


def test_the_controls_change_hands() -> None:
    controls = Controls()
    controls.apply([], {"LEFT"})
    assert controls.action(PONG) is None
    controls.apply(["m"], {"LEFT"})
    assert controls.human
    assert controls.message() == "you play"
    assert controls.action(PONG) == PONG.index("LEFT")
    controls.apply(["m"], {"LEFT"})
    assert controls.action(PONG) is None


def test_a_tap_between_two_steps_counts_once() -> None:
    controls = Controls(alone=True)
    for held in (set[str](), {"FIRE"}, set[str]()):
        controls.apply([], held)
    assert PONG[controls.action(PONG) or 0] == "FIRE"
    assert PONG[controls.action(PONG) or 0] == "NOOP"


def test_alone_nobody_else_can_play_nor_be_looked_into() -> None:
    controls = Controls(alone=True)
    controls.apply(["m", "v"], set())
    assert controls.human
    assert not controls.saliency
    assert "no agent" in controls.message()


def test_speed_and_volume_stop_at_their_ends() -> None:
    controls = Controls()
    speeds = []
    for command in ["a"] * 4 + ["s"] * 9:
        controls.apply([command], set())
        speeds.append(controls.speed)
    assert speeds == [0.5, 0.25, 0.125, 0.125, 0.25, 0.5, 1, 2, 4, 8, None, None, None]
    assert controls.speed_name == "max"
    controls.apply(["]"] * 3, set())
    assert controls.volume == pytest.approx(0.8)
    controls.apply(["]"] * 9, set())
    assert controls.volume == 1
    controls.apply(["["] * 20, set())
    assert controls.volume == 0
    assert controls.message() == "volume 0%"


def test_a_message_goes_after_a_while() -> None:
    controls = Controls()
    controls.say("hello")
    shown = [controls.message() for _ in range(200)]
    assert shown[0] == "hello"
    assert shown[-1] == ""


def test_switches() -> None:
    controls = Controls()
    controls.apply(["o", "v", "f12", "q"], set())
    assert (controls.overlay, controls.saliency, controls.screenshot, controls.ended) == (
        False,
        True,
        True,
        True,
    )
    controls.apply(["o", "v"], set())
    assert (controls.overlay, controls.saliency) == (True, False)
