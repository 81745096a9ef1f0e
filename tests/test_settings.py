"""The settings of a command: presets, files, and the order of the sources, against values written here."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from simple_dqn import command_line, main, rules
from simple_dqn.command_line import parser_of_settings
from simple_dqn.config import SETTINGS, Config, Share
from simple_dqn.config import words as as_flags
from simple_dqn.errors import UserError
from simple_dqn.main import VERBS
from simple_dqn.presets import PRESETS
from simple_dqn.snapshot import Snapshot
from simple_dqn.verbs.play import ONE_GAME, PLAYS_ONLY, settings_of_agent
from simple_dqn.verbs.settings import resolve
from tests.command_line import read

# Flags of a run in which every source below can be told from the others.
RUN = {
    "workers": 8, "processes": 2, "schedule": "concurrent", "synchronize": True, "random_seed": 7,
    "frame_skip": 3,
}  # fmt: skip
PROJECT = Path(__file__).parents[1]
QUICK = PRESETS["quick"]
ALONE = {"schedule": "serial", "synchronize": None, "train_steps": 0}
ONE = {**ALONE, "workers": 1, "processes": 0, "threads": 1, "random_seed": None}
APE_X = {"exploration_rate_start": 0.4, "exploration_rate_end": 0.4, "exploration_spread": 7.0}
ACTORS = {"cluster": "local", "actors": 2}
SERIAL = {"schedule": "serial", "processes": 0}

# flags given by hand, flags of the snapshot, what the verb fixes -> settings unlike the defaults
CASES: list[tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any], dict[str, Any]]] = [
    ({}, None, {}, QUICK),
    ({"preset": "simple_dqn", "workers": 3}, None, {"csv_file": "a"}, {"workers": 3, "csv_file": "a"}),
    ({"learning_rate": 0.5, "csv_file": "b"}, None, {"csv_file": "a"},
     {**QUICK, "learning_rate": 0.5, "csv_file": "b"}),
    ({"target_steps": 0}, None, {}, {**QUICK, **SERIAL, "target_steps": 0}),
    ({"workers": 1}, None, {}, {**QUICK, **SERIAL, "workers": 1}),
    ({"concurrent": True}, None, {}, {**QUICK, "schedule": "concurrent", "processes": 0}),
    ({"workers": 1, "overlap": True}, None, {}, {**QUICK, "workers": 1, "processes": 0}),
    ({"preset": "rainbow", "double": False}, None, {}, {**PRESETS["rainbow"], "target_rule": "max"}),
    ({"preset": "fast_dqn"}, None, {}, PRESETS["fast_dqn"]),
    ({"preset": "fast_dqn", "cluster": "auto"}, None, {},
     {**PRESETS["fast_dqn"], **APE_X, "cluster": "auto", "schedule": "serial"}),
    (ACTORS, None, {}, {**QUICK, **APE_X, **ACTORS, **SERIAL}),
    ({**ACTORS, "exploration_spread": 1.0}, None, {},
     {**QUICK, **APE_X, **ACTORS, **SERIAL, "exploration_spread": 1.0}),
    ({"cluster": "local", "preset": "nature"}, None, {}, {**PRESETS["nature"], "cluster": "local"}),
    ({}, RUN, {}, RUN),
    ({"epochs": 3}, RUN, {"random_seed": None, "epochs": 2}, {**RUN, "random_seed": None, "epochs": 3}),
    ({"random_seed": 1, "concurrent": True}, RUN, PLAYS_ONLY,
     {**RUN, **ALONE, "random_seed": 1, "schedule": "concurrent"}),
    ({}, RUN, ONE_GAME, {**RUN, **ONE}),
    ({"random_starts": 5}, None, {**ONE_GAME, "random_starts": 0},
     {**QUICK, **ONE, "sampler": "uniform", "random_starts": 5}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "snapshot", "fixed", "expected"), CASES)
def test_the_later_source_wins(
    given: dict[str, Any], snapshot: dict[str, Any] | None, fixed: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert resolve(given, snapshot, fixed).flags() == {**Config().flags(), **expected}


def test_other_games_than_ataris_have_defaults_of_their_own() -> None:
    config = resolve({"game": "catch", "environment": "catch", "max_reward": 5.0})
    assert config.environment.frame_skip == 1
    assert (config.network.min_reward, config.network.max_reward) == (-math.inf, 5.0)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ("plot", "doctor", "snapshot")])
def test_the_help_of_a_verb_fits_on_a_screen(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.run([verb, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 110
    assert lines[0].startswith(f"usage: simple-dqn {verb} ")
    start = f"example: simple-dqn {verb} "
    (example,) = [line for line in lines if line.startswith(start)]
    read(verb, example.removeprefix(start).split())
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
    given = {"snapshot": Path("snapshots/pong_1.pkl"), "load_weights": "./snapshots/pong_1.pkl"}
    assert resolve(given, {}).run.load_weights == given["load_weights"]
    with pytest.raises(UserError, match=r"the weights come from snapshots/pong_1.pkl"):
        resolve({**given, "load_weights": "snapshots/pong_2.pkl"}, {})


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_names_settings_that_agree_and_its_agents_play_with_any_number_of_games(name: str) -> None:
    assert PRESETS[name].keys() <= Config().flags().keys()
    rules.check(Config.from_flags(PRESETS[name]))
    words = [word for key, value in PRESETS[name].items() for word in (f"--{key}", str(value))]
    assert parser_of_settings("train.sh", "Train.").parse(words) == PRESETS[name]
    trained = Config.from_flags({"game": "pong", **PRESETS[name]}).flags()
    for fixed in (PLAYS_ONLY, ONE_GAME):
        for given in ({}, {"workers": 3}):
            settings_of_agent(Path("pong_1.pkl"), Snapshot("pong", 1, 6, 0, trained, {}), given, fixed)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    """Return the settings that `train --print_config` shows, by name."""
    assert main.run(["train", "pong", *words, "--print_config", "true"]) == 0
    settings: dict[str, str] = yaml.load(capsys.readouterr().out, yaml.BaseLoader)["settings"]
    return {name: value for name, value in settings.items() if name != "game"}


def test_flags_win_and_the_outcome_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    shown = printed(capsys, "--preset", "rainbow", "--n_step", "5", "--noisy", "false")
    assert (shown["n_step"], shown["noisy"], shown["target_rule"]) == ("5", "false", "double")
    assert shown.keys() == Config().flags().keys() - {"game"}
    assert not list(tmp_path.iterdir())


def test_without_a_name_it_is_the_quick_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys) == printed(capsys, "--preset", "quick") != printed(capsys, "--preset", "nature")
    for words, told in (("pong --preset slow", "'quick'"), ("--epochs 1", "required: game"),
                        ("pong --config no.yaml", "cannot read no.yaml")):  # fmt: skip
        assert main.run(["train", *words.split()]) == 2
        assert told in capsys.readouterr().err


def test_the_page_of_settings_has_every_preset_as_it_is() -> None:
    page = (PROJECT / "docs" / "settings.md").read_text(encoding="utf-8")
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if "|" in line]
    start = next(number for number, cells in enumerate(lines) if cells[0] == "setting")
    header, rows = lines[start], lines[start + 2 :]
    assert header[1:] == list(PRESETS)
    names = [row[0].strip("`") for row in rows]
    assert set(names) == {name for preset in PRESETS.values() for name in preset}
    defaults = Config().flags()
    for name, row in zip(names, rows, strict=True):
        for preset, cell in zip(PRESETS, row[1:], strict=True):
            if preset == "simple_dqn":
                assert name not in PRESETS[preset]
                if name != "synchronize":  # its default depends on the number of workers
                    assert cell == shown(defaults[name])
            else:
                assert cell == (shown(PRESETS[preset][name]) if name in PRESETS[preset] else ""), name


def shown(value: object) -> str:
    """Return a setting as the page shows it."""
    if isinstance(value, bool | Share):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float) and 0 < abs(value) < 1e-3:
        mantissa, exponent = f"{value:e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:g}" if isinstance(value, float) else str(value)


SHORT = [
    "--environment", "catch", "--screen_width", "36", "--screen_height", "36", "--random_steps", "60",
    "--train_steps", "40", "--test_steps", "0", "--epochs", "1", "--replay_size", "100", "--batch_size", "4",
    "--target_steps", "8", "--backend", "cpu", "--threads", "1",
]  # fmt: skip


def test_a_run_writes_its_settings_they_repeat_it_and_a_resume_renews_them(
    tmp_path: Path, start: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(".", "train", "catch", "--preset", "nature", *SHORT) == 0
    assert capsys.readouterr().err.splitlines()[0].endswith("Preset nature")
    file = tmp_path / "results" / "catch.yaml"
    text = file.read_text()
    assert "preset: nature\n" in text
    assert "  epochs: 1  # nature: 200\n" in text
    assert "  n_step: 1\n" in text
    assert start(".", "train", "catch", "again", "--config", str(file)) == 0
    one, other = (Snapshot.load(tmp_path / "snapshots" / f"catch{name}_1.pkl") for name in ("", "_again"))
    assert one.fingerprint == other.fingerprint
    assert start(".", "resume", "snapshots/catch_1.pkl", "--epochs", "2") == 0
    assert "Preset nature\n" in capsys.readouterr().err
    assert "preset: nature\n" in file.read_text()
    assert "  epochs: 2  # nature: 200\n" in file.read_text()
    assert {path.name for path in tmp_path.glob("results/*.yaml")} == {"catch.yaml", "catch_again.yaml"}
    # Without its checkpoints and its file, it goes on from the weights, and the defaults are the measure.
    shutil.rmtree(tmp_path / "snapshots" / "catch_checkpoint")
    file.unlink()
    assert start(".", "resume", "snapshots/catch_2.pkl", "--epochs", "3") == 0
    assert "preset: simple_dqn\n" in file.read_text()
    assert "  color_averaging: false  # simple_dqn: true\n" in file.read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "line 1"),
        *((text, "there is no key `settings`") for text in ("", "settings: 3\n", "learning_rate: 1\n")),
        ("settings:\n  epoks: 1\n", "unknown setting epoks: did you mean epochs"),
        ("settings:\n  epochs: [1]\n", "epochs has no single value"),
        ("preset: [quick]\nsettings:\n  epochs: 1\n", "there is no preset"),
        ("foo: 5\nsettings:\n  epochs: 1\n", "unknown key foo"),
        ('settings:\n  "\\e[2J\\n": 1\n', r"unknown setting \x1b[2J\n"),
        *((f"settings:\n  epochs: {word}\n", "not a whole number") for word in ("0x10", "1:30", "~", "many")),
        (f"settings:\n  random_seed: {'9' * 5000}\n", "random_seed: "),
        ("settings:\n  epochs: !!python/object/apply:os.abort []\n", "epochs has no single value"),
        ("settings:\n  epochs: !!python/name:os.abort x\n", "epochs: 'x' is not"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nsettings:\n  epochs: *b\n", "unknown key a"),
        ("settings: &s\n  epochs: 1\n  <<: *s\n", "recursive"),
        ("settings: " + "{a: " * 5000, "recursion"),
        ("settings:\n  epochs: 1\n" + "#" * 70_000, "70,022 bytes, more than 65,536"),
        ('settings:\n  load_weights: "a\\0b"\n', "load_weights: "),
        ('settings:\n  load_weights: "\\ud83d"\n', "load_weights: "),
        ("settings:\n  game: pong\n  environment: /tmp/x.py:X\n", "FILE.py:CLASS is gone"),
    ],
)
def test_a_foreign_file_is_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    (tmp_path / "x.yaml").write_text(text)
    assert main.run(["train", "pong", "--config", str(tmp_path / "x.yaml"), "--print_config"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


@pytest.mark.parametrize("word", [
    "/tmp/\N{GRINNING FACE}/ä.rom", "a: #b", "\x1b[2J\n", "\x85\u2028", 'a"\\b', " ", "~", "010", "-", "null",
    "\ue000",
])  # fmt: skip
def test_a_word_is_read_as_it_was_written(tmp_path: Path, word: str) -> None:
    config = Config.from_flags({"load_weights": word, "game": word})
    (tmp_path / "x.yaml").write_text(command_line.listing(config, "quick"), "utf-8")
    found = command_line.read(str(tmp_path / "x.yaml"))
    assert (found["load_weights"], found["game"]) == (word, word)


@pytest.mark.parametrize(
    ("file", "words", "expected"),
    [
        ("preset: nature\n", ["--preset", "rainbow"], {"preset": "rainbow", "n_step": 2}),
        ("preset: rainbow\n", ["--n_step", "5"], {"preset": "rainbow", "n_step": 5}),
        ("", ["--preset", "nature", "--workers", "3"], {"preset": "nature", "n_step": 2, "workers": 3}),
    ],
)
def test_a_file_lies_over_a_preset_and_below_the_flags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, words: list[str], expected: dict[str, Any]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(f"{file}settings:\n  n_step: 2\n  display_screen: false\n")
    assert main.run(["train", "pong", "--config", str(path), "--print_config", *words]) == 0
    path.write_text(capsys.readouterr().out)
    found = command_line.read(str(path))
    assert found == {**found, **PRESETS[expected["preset"]], **expected}
