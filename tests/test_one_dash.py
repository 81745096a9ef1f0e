"""simple_dqn's own spellings: its blog writes `-csv_file FILE`, with one dash."""

import math
from typing import Any

import pytest

from simple_dqn.errors import UserError
from simple_dqn.main import VERBS
from tests.command_line import read

# What a verb cannot do without.
NEEDED = {
    "plot": ["pong.csv"], "doctor": [], "snapshot": ["show", "pong_1.pkl"],
    "resume": ["pong_1.pkl"], "test": ["pong_1.pkl"], "record": ["pong_1.pkl"], "nvis": ["pong_1.pkl"],
}  # fmt: skip


def outcome(verb: str, *words: str) -> dict[str, Any] | str:
    """Return what is read, or the complaint."""
    try:
        return read(verb, [*NEEDED.get(verb, ["pong"]), *words]).given
    except UserError as error:
        return str(error)


def long_flags(verb: str) -> dict[str, list[str]]:
    """Return the long flags of `verb`, each with a value that it takes."""
    if verb == "snapshot":  # Its flags belong to what is to be done.
        return {"--game": ["pong"]}
    return {
        flag: [str(next(iter(action.choices))) if action.choices else ";" if flag == "--delimiter" else "20"]
        if action.nargs != "?" else []
        for action in read(verb, NEEDED.get(verb, ["pong"])).parser._actions
        for flag in action.option_strings
        if flag.startswith("--") and flag != "--help"
    }  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_of_every_verb_goes_with_one_dash(verb: str) -> None:
    flags = long_flags(verb)
    assert bool(flags) == (verb != "doctor")  # which has no flags
    for flag, value in flags.items():
        plain = outcome(verb, flag, *value)
        assert outcome(verb, flag[1:], *value) == plain
        if value:
            assert outcome(verb, f"{flag[1:]}={value[0]}") == plain
        if isinstance(plain, dict):
            assert flag[2:] in plain
        else:
            assert flag in plain or value[0] in plain  # 20 is not in its range


@pytest.mark.parametrize("word", ["-h", "-help", "--help"])
@pytest.mark.parametrize("verb", VERBS)
def test_help_is_help(verb: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        read(verb, [word])
    assert end.value.code is None or end.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: ./{verb}.sh ")


def test_a_flag_that_begins_with_h_is_not_help() -> None:
    assert outcome("train", "-history_length", "3") == {"game": "pong", "history_length": 3}
    message = outcome("train", "-histroy_length", "3")
    assert isinstance(message, str)
    assert "unknown flag --histroy_length: did you mean --history_length?" in message


@pytest.mark.parametrize("flag", ["--min_reward", "-min_reward"])
@pytest.mark.parametrize("value", ["-1", "-1.5", "-.5", "-1e-3", "-1E2", "-inf"])
def test_negative_numbers_are_values(flag: str, value: str) -> None:
    expected = {"game": "pong", "min_reward": float(value)}
    assert outcome("train", flag, value) == outcome("train", f"{flag}={value}") == expected


def test_a_negative_number_belongs_to_the_flag_before_it_alone() -> None:
    given = outcome("train", "label", "-min_reward", "-2", "-max_reward", "-1e0")
    assert given == {"game": "pong", "label": "label", "min_reward": -2.0, "max_reward": -1.0}
    assert "-1 is too small" in str(outcome("train", "-random_seed", "-1"))
    assert "'-nan' is not a number" in str(outcome("train", "-min_reward", "-nan"))
    assert math.isinf(read("train", ["pong", "-min_reward=-inf"]).given["min_reward"])


def test_after_two_dashes_nothing_is_a_flag() -> None:
    assert outcome("train", "--", "-label") == {"game": "pong", "label": "-label"}


@pytest.mark.parametrize("dashes", ["-", "--"])
def test_the_csv_of_a_plot_may_have_its_flag(dashes: str) -> None:
    plain = read("plot", ["results/pong.csv", "--fields", "meanq,meancost"]).given
    words = [f"{dashes}csv_file", "results/pong.csv", f"{dashes}fields", "meanq,meancost"]
    assert read("plot", words).given == plain
