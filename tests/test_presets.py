"""Settings by name: what a preset is, that flags win over it, and what `train` takes without one."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from simple_dqn import main, rules, settings_file
from simple_dqn.command_line import parser_of_settings
from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.presets import PRESETS
from simple_dqn.snapshot import Snapshot
from simple_dqn.verbs.settings import settings_for, settle


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_names_settings_that_agree_and_its_agents_play_with_any_number_of_games(name: str) -> None:
    assert PRESETS[name].keys() <= Config().flags().keys()
    rules.check(Config.from_flags(PRESETS[name]))
    words = [word for key, value in PRESETS[name].items() for word in (f"--{key}", str(value))]
    assert parser_of_settings("train.sh", "Train.").parse(words) == PRESETS[name]
    trained = Config.from_flags({"game": "pong", **PRESETS[name]}).flags()
    for verb in ("test", "play", "record", "nvis"):
        for given in ({}, {"workers": 3}):
            settle(settings_for(verb, given, trained), log=False)


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


def test_games_of_actors_explore_as_in_ape_x_unless_told_otherwise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ("exploration_rate_start", "exploration_rate_end", "exploration_spread")
    alone = [printed(capsys)[name] for name in names]
    on_cluster = ["--cluster", "local", "--actors", "2"]
    assert [printed(capsys, *on_cluster)[name] for name in names] == ["0.4", "0.4", "7.0"]
    told = printed(capsys, *on_cluster, "--exploration_rate_end", "0.1")
    assert [told[name] for name in names] == ["0.4", "0.1", "7.0"]
    # A game alone can be unlike none.
    lonely = printed(capsys, "--cluster", "local", "--workers", "1")
    assert [lonely[name] for name in names] == alone


def test_the_page_of_settings_has_every_preset_as_it_is() -> None:
    page = (Path(__file__).parents[1] / "docs" / "settings.md").read_text(encoding="utf-8")
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
    if isinstance(value, bool):
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


def test_a_run_writes_its_settings_and_they_repeat_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    assert main.run(["train", "catch", "--preset", "simple_dqn", *SHORT]) == 0
    first = capsys.readouterr().err.splitlines()[0]
    assert first.endswith("Preset simple_dqn")
    file = tmp_path / "results" / "catch.yaml"
    text = file.read_text()
    assert "  epochs: 1  # simple_dqn: 200\n" in text
    assert "  n_step: 1\n" in text
    assert "preset: simple_dqn\n" in text
    assert main.run(["train", "catch", "again", "--config", str(file)]) == 0
    assert main.run(["train", "--config", str(file), "--epochs", "2"]) == 0
    snapshots = [Snapshot.load(tmp_path / "snapshots" / f"catch{name}.pkl") for name in ("_again_1", "_1")]
    assert snapshots[0].fingerprint == snapshots[1].fingerprint
    assert (tmp_path / "snapshots" / "catch_2.pkl").exists()
    assert (tmp_path / "results" / "catch.1.yaml").read_text() == text


def test_a_resumed_run_renews_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    assert main.run(["train", "catch", "--preset", "nature", *SHORT]) == 0
    file, snapshot = tmp_path / "results" / "catch.yaml", tmp_path / "snapshots" / "catch_1.pkl"
    capsys.readouterr()
    assert main.run(["resume", str(snapshot), "--epochs", "2"]) == 0
    assert "Preset nature\n" in "".join(capsys.readouterr().err.splitlines(keepends=True)[:4])
    assert "preset: nature\n" in file.read_text()
    assert "  epochs: 2  # nature: 200\n" in file.read_text()
    assert [path.name for path in tmp_path.glob("results/*.yaml")] == ["catch.yaml"]
    # Without its checkpoints and its file, it goes on from the weights, and the defaults are the measure.
    shutil.rmtree(tmp_path / "snapshots" / "catch_checkpoint")
    file.unlink()
    again = tmp_path / "snapshots" / "catch_2.pkl"
    assert main.run(["resume", str(again), "--epochs", "3"]) == 0
    assert "preset: simple_dqn\n" in file.read_text()
    assert "  color_averaging: false  # simple_dqn: true\n" in file.read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "line 1"),
        ("hello", "line 1: there is no key `settings`"),
        ("settings:\n  epochs: 1\n  epoks: 1\n", "line 3: unknown setting epoks: did you mean epochs"),
        ("settings:\n  epochs: many\n", "line 2: epochs: 'many'"),
        ("settings:\n  epochs: [1]\n", "line 2: epochs has no single value"),
        ("settings:\n  [epochs]: 1\n", "line 2: its key has no single value"),
        ("preset: [quick]\nsettings:\n  epochs: 1\n", "line 1: preset has no single value"),
        ("preset: quik\nsettings:\n  epochs: 1\n", "line 1: there is no preset quik"),
        ("learning_rate: 1\n", "line 1: there is no key `settings`"),
        ("foo: 5\nsettings:\n  epochs: 1\n", "line 1: unknown key foo"),
        ("settings:\n  epochs: 1\npresets: quick\n", "line 3: unknown key presets"),
        ("settings: 3\n", "line 1: there is no key `settings`"),
        ("", "line 1: there is no key `settings`"),
        ("settings:\n  help: all\n", "line 2: unknown setting help"),
        ("settings:\n  epochs=1 --config: x\n", "line 2: unknown setting epochs=1 --config"),
        ('settings:\n  "\\e[2J\\n": 1\n', r"line 2: unknown setting \x1b[2J\n"),
        ("settings:\n  1: 2\n  ~: 3\n", "line 2: unknown setting 1"),
        ("settings:\n  epochs: 1\n  epochs: 2\n", "line 3: epochs is there twice"),
        ("settings: {epochs: 1}\nsettings: {}\n", "line 2: settings is there twice"),
        ("settings:\n  epochs: 010\n", "line 2: epochs: 010 is not a decimal number"),
        ("settings:\n  epochs: 0x10\n", "line 2: epochs: 0x10 is not a decimal number"),
        ("settings:\n  epochs: 1:30\n", "line 2: epochs: 1:30 is not a decimal number"),
        ("settings:\n  epochs: 2026-11-26\n", "line 2: epochs: '2026-11-26' is not a"),
        ("settings:\n  epochs: ~\n", "line 2: epochs: 'none' is not a whole number"),
        (f"settings:\n  random_seed: {'9' * 5000}\n", "line 2: random_seed: "),
        ("settings:\n  epochs: !!python/object/apply:os.abort []\n", "line 2: epochs has no single value"),
        (
            "settings:\n  epochs: !!python/name:os.abort 3\n",
            "line 2: epochs has the tag tag:yaml.org,2002:py",
        ),
        ("settings:\n  epochs: !new 3\n", "line 2: epochs has the tag !new"),
        ("settings:\n  epochs: *x\n", "line 2: found undefined alias 'x'"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nsettings:\n  epochs: *b\n", "line 2: epochs has no single value"),
        ("settings: &s\n  epochs: 1\n  <<: *s\n", "line 3: its key has the tag tag:yaml.org,2002:merge"),
        ("settings:\n  epochs: 1\n---\nsettings:\n", "line 3: but found another document"),
        ("settings:\n  " + "- " * 5000, "its brackets are nested too deeply"),
        ("settings: " + "{a: " * 5000, "its brackets are nested too deeply"),
        ("settings:\n  epochs: 1\n" + "#" * 70_000, "70,022 bytes, more than 65,536"),
        ('settings:\n  load_weights: "a\\0b"\n', "line 2: load_weights: "),
        ('settings:\n  load_weights: "\\ud83d"\n', "line 2: load_weights: "),
        ("settings:\n\tepochs: 1\n", "line 2: found character '\\t' that cannot start any token"),
        ("settings:\n  epochs: \x07\n", "line 1: "),
        ("settings:\n  game: pong\n  environment: /tmp/x.py:X\n", "FILE.py:CLASS is gone"),
    ],
)
def test_a_foreign_file_is_refused_by_line_and_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    (tmp_path / "x.yaml").write_text(text)
    assert main.run(["train", "pong", "--config", str(tmp_path / "x.yaml")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


@pytest.mark.parametrize("word", [
    "/tmp/\N{GRINNING FACE}/ä.rom", "a: #b", "\x1b[2J\n", "\x85\u2028", 'a"\\b', " ", "~", "010", "-", "null",
    "\ue000",
])  # fmt: skip
def test_a_word_is_read_as_it_was_written(tmp_path: Path, word: str) -> None:
    config = Config.from_flags({"load_weights": word, "game": word})
    (tmp_path / "x.yaml").write_text(settings_file.listing(config, "quick"), "utf-8")
    found = settings_file.read(str(tmp_path / "x.yaml"))
    assert (found["load_weights"], found["game"]) == (word, word)
    (tmp_path / "x.yaml").write_text('settings:\n  game: "\\ud83d\\ude00"\n')  # two halves of a character
    assert settings_file.read(str(tmp_path / "x.yaml"))["game"] == "\N{GRINNING FACE}"


def test_the_preset_in_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    assert settings_file.preset_in(path) == "simple_dqn"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(UserError, match=r"cannot read .*x.yaml: it is not a text file: move it away"):
        settings_file.preset_in(path)
    path.write_text("preset: nature\nsettings: [\n")
    assert settings_file.preset_in(path) == "nature"


@pytest.mark.parametrize(
    ("file", "words", "expected"),
    [
        ("preset: nature\n", [], {"preset": "nature", "n_step": 2}),
        ("preset: nature\n", ["--preset", "rainbow"], {"preset": "rainbow", "n_step": 2}),
        ("preset: rainbow\n", ["--n_step", "5"], {"preset": "rainbow", "n_step": 5}),
        ("", [], {"preset": "quick", "n_step": 2}),
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
    found = settings_file.read(str(path))
    assert found == {**found, **PRESETS[expected["preset"]], **expected}
