import itertools

import pytest

from simple_dqn.watch.keys import BUTTONS, COMMANDS, nearest_action

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


def test_no_key_means_two_things() -> None:
    assert not COMMANDS.keys() & BUTTONS.keys()
