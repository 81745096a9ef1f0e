"""The settings of a command, verb by verb, against the values written out here."""

from pathlib import Path
from typing import Any

import pytest

from simple_dqn import main
from simple_dqn.command_line import parser_of_settings
from simple_dqn.config import SETTINGS, Config, Share
from simple_dqn.config import words as as_flags
from simple_dqn.errors import UserError
from simple_dqn.presets import PRESETS
from simple_dqn.rules import CHECKPOINT_SHAPE, differing
from simple_dqn.verbs.settings import VERBS, check_source, preset, settings_for

# Flags of a run in which every source below can be told from the others.
RUN = {
    "workers": 8, "processes": 2, "schedule": "concurrent", "synchronize": True, "random_seed": 7,
    "frame_skip": 3,
}  # fmt: skip
PROJECT = Path(__file__).parents[1]
QUICK = PRESETS["quick"]
ALONE = {"schedule": "serial", "synchronize": None, "cluster": "none", "actors": 1, "train_steps": 0}
ONE = {**ALONE, "workers": 1, "processes": 0, "threads": 1, "play_games": 0, "random_seed": None}
APE_X = {"exploration_rate_start": 0.4, "exploration_rate_end": 0.4, "exploration_spread": 7.0}
SHORT = {"replay_size": 10_000, "epochs": 1}
ACTORS = {"cluster": "local", "actors": 2}

# verb, flags given by hand, flags of the snapshot, what else the verb fixes -> settings unlike the defaults
CASES: list[tuple[str, dict[str, Any], dict[str, Any] | None, dict[str, Any], dict[str, Any]]] = [
    ("train", {}, None, {}, QUICK),
    ("train", {"preset": "simple_dqn"}, None, {}, {}),
    ("train", {"preset": "simple_dqn", "workers": 3}, None, {"csv_file": "a"},
     {"workers": 3, "csv_file": "a"}),
    ("train", {"learning_rate": 0.5, "csv_file": "b"}, None, {"csv_file": "a"},
     {**QUICK, "learning_rate": 0.5, "csv_file": "b"}),
    ("train", {"target_steps": 0}, None, {},
     {**QUICK, "target_steps": 0, "schedule": "serial", "processes": 0}),
    ("train", {"workers": 1}, None, {}, {**QUICK, "workers": 1, "schedule": "serial", "processes": 0}),
    ("train", {"concurrent": True}, None, {},
     {**QUICK, "schedule": "concurrent", "processes": 0}),
    ("train", {"workers": 1, "overlap": True}, None, {}, {**QUICK, "workers": 1, "processes": 0}),
    ("train", {"preset": "fast_dqn"}, None, {}, PRESETS["fast_dqn"]),
    ("train", {"preset": "fast_dqn", "cluster": "auto"}, None, {},
     {**PRESETS["fast_dqn"], **APE_X, "cluster": "auto", "schedule": "serial"}),
    ("train", ACTORS, None, {}, {**QUICK, **APE_X, **ACTORS, "schedule": "serial", "processes": 0}),
    ("train", {**ACTORS, "exploration_spread": 1.0}, None, {},
     {**QUICK, **APE_X, **ACTORS, "exploration_spread": 1.0, "schedule": "serial", "processes": 0}),
    ("train", {"cluster": "local", "preset": "nature"}, None, {}, {**PRESETS["nature"], "cluster": "local"}),
    ("sweep", {}, None, {}, QUICK),
    ("sweep", {"preset": "rainbow", "double": False}, None, {}, {**PRESETS["rainbow"], "target_rule": "max"}),
    ("resume", {}, RUN, {}, RUN),
    ("resume", {"epochs": 3}, RUN, {"random_seed": None, "epochs": 2},
     {**RUN, "random_seed": None, "epochs": 3}),
    ("test", {}, RUN, {"game": "pong"}, {**RUN, **ALONE, "random_seed": None, "game": "pong"}),
    ("test", {"random_seed": 1, "concurrent": True}, RUN, {},
     {**RUN, **ALONE, "random_seed": 1, "schedule": "concurrent"}),
    ("play", {}, RUN, {}, {**RUN, **ONE}),
    ("play", {}, None, {"game": "pong", "random_starts": 0},
     {**QUICK, **ONE, "sampler": "uniform", "game": "pong", "random_starts": 0}),
    ("play", {"random_starts": 5}, None, {"random_starts": 0},
     {**QUICK, **ONE, "sampler": "uniform", "random_starts": 5}),
    ("record", {}, RUN, {}, {**RUN, **ONE, "play_games": 1}),
    ("record", {"play_games": 4}, RUN, {}, {**RUN, **ONE, "play_games": 4}),
    ("nvis", {"frame_skip": 5}, RUN, {}, {**RUN, **ONE, "frame_skip": 5}),
    ("profile_train", {}, None, {}, {**SHORT, "random_steps": 1000, "train_steps": 1000, "test_steps": 0}),
    ("profile_test", {}, None, {}, {**SHORT, "random_steps": 0, "train_steps": 0, "test_steps": 1000}),
    ("profile_random", ACTORS, None, {},
     {**SHORT, **ACTORS, "random_steps": 1000, "train_steps": 0, "test_steps": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "given", "snapshot", "fixed", "expected"), CASES)
def test_the_later_source_wins(
    verb: str,
    given: dict[str, Any],
    snapshot: dict[str, Any] | None,
    fixed: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    assert settings_for(verb, given, snapshot, fixed).flags() == {**Config().flags(), **expected}


def test_every_verb_with_settings_is_in_the_table_and_fixes_known_ones() -> None:
    assert {verb for verb, *_ in CASES} == set(VERBS)
    assert set().union(*(verb.fixed for verb in VERBS.values())) <= set(Config().flags())


def test_a_preset_that_is_not_given_gives_no_settings() -> None:
    assert preset({}) == {}
    assert "schedule" not in preset({"preset": "fast_dqn", "cluster": "local"})


def test_settings_that_must_match() -> None:
    flags = Config().flags()
    assert set(CHECKPOINT_SHAPE) <= set(flags)
    assert differing(CHECKPOINT_SHAPE, flags, flags) == []
    assert differing(CHECKPOINT_SHAPE, {"workers": 2, "keep": 9}, flags) == ["workers"]


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_fits_on_a_screen(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.run([verb, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 110
    assert lines[0].startswith(f"usage: simple-dqn {verb} ")
    example, most_used = VERBS[verb].example, VERBS[verb].most_used.split()
    assert f"example: simple-dqn {verb} {example}" in lines
    for name in most_used:
        assert [line for line in lines if line.startswith(f"  --{name}")], name
    for word in example.split():
        assert not word.startswith("snapshots/trained") or (PROJECT / word).exists()


def test_the_help_shows_the_values_of_a_plain_run(capsys: pytest.CaptureFixture[str]) -> None:
    for verb, words in (("train", "(default: 0.0003)"), ("resume", "(default: the snapshot's)")):
        with pytest.raises(SystemExit):
            main.run([verb, "--help"])
        (line,) = [line for line in capsys.readouterr().out.splitlines() if "--learning_rate " in line]
        assert line.endswith(words)


def test_all_of_the_help_has_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.run(["train", "--help", "all"])
    text = capsys.readouterr().out
    assert not [name for name in SETTINGS.keys() - {"game", "imports"} if f"--{name} " not in text]


def test_a_share_of_the_run_becomes_a_number_that_a_longer_run_keeps() -> None:
    length = {"epochs": 10, "train_steps": 1000, "train_frequency": 5, "train_repeat": 2}
    shares = ["--exploration_decay_steps", "10%", "--learning_rate_decay_updates=0.5%"]
    config = Config.from_flags({**parser_of_settings("train", "").parse(shares), **length})
    assert config.agent.exploration_decay_steps == 1000
    assert config.network.learning_rate_decay_updates == 20
    assert Config.from_flags({**config.flags(), "epochs": 20}).agent.exploration_decay_steps == 1000
    assert as_flags({"exploration_decay_steps": Share(12.5)}) == ["--exploration_decay_steps=12.5%"]


def test_load_weights_may_name_the_snapshot_itself() -> None:
    check_source({"snapshot": Path("snapshots/pong_1.pkl"), "load_weights": "./snapshots/pong_1.pkl"})
    with pytest.raises(UserError, match=r"the weights come from snapshots/pong_1.pkl"):
        check_source({"snapshot": Path("snapshots/pong_1.pkl"), "load_weights": "snapshots/pong_2.pkl"})
