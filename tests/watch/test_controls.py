import pytest

from simple_dqn.watch.controls import Controls
from simple_dqn.watch.keys import Command

NAMES = ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")


def test_the_controls_change_hands() -> None:
    controls = Controls()
    controls.take([], {"LEFT"})
    assert controls.action(NAMES) is None
    controls.take([Command.TAKE_OVER], {"LEFT"})
    assert controls.human
    assert controls.message() == "you play"
    assert controls.action(NAMES) == NAMES.index("LEFT")
    controls.take([Command.TAKE_OVER], {"LEFT"})
    assert controls.action(NAMES) is None


def test_a_tap_between_two_steps_counts_once() -> None:
    controls = Controls(alone=True)
    for held in (set[str](), {"FIRE"}, set[str]()):
        controls.take([], held)
    assert NAMES[controls.action(NAMES) or 0] == "FIRE"
    assert NAMES[controls.action(NAMES) or 0] == "NOOP"


def test_alone_nobody_else_can_play_nor_be_looked_into() -> None:
    controls = Controls(alone=True)
    controls.take([Command.TAKE_OVER, Command.SALIENCY], set())
    assert controls.human
    assert not controls.saliency
    assert "no agent" in controls.message()


def test_speed_and_volume_stop_at_their_ends() -> None:
    controls = Controls()
    speeds = []
    for command in [Command.SLOWER] * 4 + [Command.FASTER] * 9:
        controls.take([command], set())
        speeds.append(controls.speed)
    assert speeds == [0.5, 0.25, 0.125, 0.125, 0.25, 0.5, 1, 2, 4, 8, None, None, None]
    assert controls.speed_name == "max"
    controls.take([Command.LOUDER] * 3, set())
    assert controls.volume == pytest.approx(0.8)
    controls.take([Command.LOUDER] * 9, set())
    assert controls.volume == 1
    controls.take([Command.QUIETER] * 20, set())
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
    controls.take([Command.OVERLAY, Command.SALIENCY, Command.SCREENSHOT, Command.QUIT], set())
    assert (controls.overlay, controls.saliency, controls.screenshot, controls.ended) == (
        False,
        True,
        True,
        True,
    )
    controls.take([Command.OVERLAY, Command.SALIENCY], set())
    assert (controls.overlay, controls.saliency) == (True, False)
