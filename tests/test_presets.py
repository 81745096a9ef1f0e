"""Settings by name: what a preset is, that flags win over it, and what `train` takes without one."""

from pathlib import Path

import pytest

from simple_dqn import flags, main, rules
from simple_dqn.config import Config
from simple_dqn.flags import listing
from simple_dqn.presets import PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_names_settings_that_agree(name: str) -> None:
    assert PRESETS[name].keys() <= Config().flags().keys()
    rules.check(Config.from_flags(PRESETS[name]))


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_holds_what_its_flags_would_take(name: str) -> None:
    words = [word for key, value in PRESETS[name].items() for word in (f"--{key}", str(value))]
    assert flags.parser("train.sh", "Train.").parse(words) == PRESETS[name]


def test_simple_dqn_is_what_the_flags_promise() -> None:
    assert Config.from_flags(PRESETS["simple_dqn"]) == Config()


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    """Return the settings that `train --print_config` shows, by name."""
    assert main.run(["train", "pong", *words, "--print_config", "true"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("  --")]
    return {line[0].removeprefix("--"): line[1] for line in lines}


def test_flags_win_and_the_outcome_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    shown = printed(capsys, "--preset", "rainbow", "--n_step", "5", "--noisy", "false")
    assert (shown["n_step"], shown["noisy"], shown["double"]) == ("5", "false", "true")
    assert shown.keys() == Config().flags().keys() - {"game"}
    assert not list(tmp_path.iterdir())


def test_without_a_name_it_is_the_quick_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys) == printed(capsys, "--preset", "quick") != printed(capsys, "--preset", "nature")


def test_what_is_listed_can_be_given_again() -> None:
    config = Config.from_flags({**PRESETS["quick"], "csv_file": "x.csv"})
    lines = [line.split()[:2] for line in listing(config).splitlines() if line.startswith("  --")]
    words = [word for name, value in lines if value != "none" for word in (name, value)]
    given = flags.parser("train.sh", "Train.").parse(words)
    assert Config.from_flags(given) == config


def test_an_unknown_preset_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["train", "pong", "--preset", "slow"]) == 2
    assert "'quick'" in capsys.readouterr().err


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
