"""Settings of a sweep as a file: what is printed can be read, by a sweep and by a training."""

from pathlib import Path

import pytest

from simple_dqn import main
from simple_dqn.settings_file import read


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Return the files that `--print_config` prints, one for each setting."""
    assert main.run([*words, "--print_config"]) == 0
    return capsys.readouterr().out.split("---\n")


def test_each_setting_is_printed_as_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--compare", "plain=", "other=--double true --preset nature"]
    files = printed(capsys, "sweep", "pong", "breakout", "--n_step", "3", *settings)
    found = []
    for text in files:
        path = tmp_path / "settings.yaml"
        path.write_text(text)
        found.append(read(str(path)))
    assert [(one["preset"], one["n_step"], one["target_rule"], one["game"]) for one in found] == [
        ("quick", 3, "max", "pong"), ("nature", 3, "double", "pong"),
    ]  # fmt: skip


def test_a_sweep_begins_with_the_settings_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(printed(capsys, "train", "pong", "--preset", "rainbow", "--random_seed", "7")[0])
    command = ["sweep", "breakout", "--config", str(path), "--n_step", "5"]
    (text,) = printed(capsys, *command)
    (tmp_path / "sweep.yaml").write_text(text)
    expected = {**read(str(path)), "game": "breakout", "n_step": 5, "random_seed": None, "backend": "cpu"}
    assert read(str(tmp_path / "sweep.yaml")) == expected


def test_a_file_lies_over_a_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("settings:\n  n_step: 7\n")
    (text,) = printed(capsys, "sweep", "pong", "--config", str(path), "--preset", "nature")
    (tmp_path / "sweep.yaml").write_text(text)
    found = read(str(tmp_path / "sweep.yaml"))
    assert {name: found[name] for name in ("preset", "n_step", "network", "batch_size")} == {
        "preset": "nature", "n_step": 7, "network": "nature", "batch_size": 32,
    }  # fmt: skip
    assert main.run(["sweep", "pong", "--config", str(path), "--compare", "a=--preset nature"]) == 2
    assert "--config lies over the presets of --compare" in capsys.readouterr().err
