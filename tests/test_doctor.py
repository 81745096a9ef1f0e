"""doctor.sh: every check on a sound machine, each failing in turn, and what it leaves behind: nothing."""

import logging
import os
import shutil
import signal
import sys
import threading
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest
from ale_py.roms import get_rom_path

from simple_dqn import doctor
from simple_dqn.doctor import CHECKS, Check, Finding, Level, examine, main, trial_of
from simple_dqn.errors import UserError

Disk = namedtuple("Disk", "total used free")
Prepare = Callable[[pytest.MonkeyPatch, Path], object]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that is in order."""
    for folder in ("snapshots", "results", "videos", "roms"):
        (tmp_path / folder).mkdir()
    (tmp_path / "requirements.txt").write_text("# pinned\nnumpy>=1\n")
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    return tmp_path


def found(name: str, home: Path) -> Finding:
    ((_, finding),) = examine({name: CHECKS[name]}, home)
    return finding


def sound(opens: bool) -> Prepare:
    def prepare(patch: pytest.MonkeyPatch, _home: Path) -> None:
        patch.setenv("SDL_AUDIODRIVER", "dummy" if opens else "none such")

    return prepare


def broken_roms(patch: pytest.MonkeyPatch, home: Path) -> None:
    shipped = get_rom_path("pong")
    assert shipped
    copies = shutil.copytree(shipped.parent, home / "copies")
    (copies / "pong.bin").write_bytes(b"not pong")
    patch.setenv("ALE_ROMS_DIR", str(copies))


def lock(line: str) -> Prepare:
    return lambda _patch, home: (home / "requirements.txt").write_text(f"{line}\n")


def attribute(name: str, value: object) -> Prepare:
    return lambda patch, _home: patch.setattr(name, value)


def free_memory(count: float) -> Prepare:
    return attribute("simple_dqn.doctor.available_memory", lambda: count)


def free_disk(count: float) -> Prepare:
    return attribute("shutil.disk_usage", lambda _path: Disk(1e12, 0, count))


def gpus(*names: str) -> Prepare:
    return attribute("simple_dqn.device.gpus", lambda: list(names))


def video(driver: str) -> Prepare:
    return lambda patch, _home: patch.setenv("SDL_VIDEODRIVER", driver)


# Check, what is done to the machine, how bad that is, and words of the line that tells it.
CASES: list[tuple[str, Prepare, Level, str]] = [
    ("packages", lock("no-such-package==1.0"), Level.ERROR, "missing: no-such-package"),
    ("packages", lock("numpy==0.1"), Level.WARNING, "instead of 0.1"),
    ("packages", lambda _, home: (home / "requirements.txt").unlink(), Level.WARNING, "to compare with"),
    ("memory", free_memory(100e9), Level.OK, "--replay_size up to 21,890,000 fits"),
    ("memory", free_memory(1e9), Level.OK, "--replay_size up to 210,000 fits"),
    ("memory", free_memory(4e8), Level.WARNING, "for 100,000 give --replay_compression lz4"),
    ("memory", free_memory(1e8), Level.ERROR, "close other programs, or give --replay_compression lz4"),
    ("GPU", gpus("H200", "H200"), Level.OK, "0: H200, 1: H200"),
    ("GPU", gpus(), Level.WARNING, "on the CPU"),
    ("display", video("dummy"), Level.OK, "windows can be opened"),
    ("display", video("none such"), Level.WARNING, "play.sh plays in the terminal"),
    ("sound", sound(opens=True), Level.OK, "there is a sound device"),
    ("sound", sound(opens=False), Level.WARNING, "play.sh is silent"),
    ("ROMs", lambda *_: None, Level.OK, "each with the correct MD5"),
    ("ROMs", broken_roms, Level.ERROR, "wrong MD5: pong: install ale-py again"),
    ("disk", free_disk(90e9), Level.OK, "90 GB are free"),
    ("disk", free_disk(9e9), Level.OK, "9 GB are free"),
    ("disk", free_disk(2e9), Level.WARNING, "make room for 3 GB, or lower --replay_size"),
    ("disk", free_disk(9e8), Level.ERROR, "make room"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "prepare", "level", "words"), CASES, ids=[f"{case[0]}-{case[3]}" for case in CASES]
)
def test_each_check_tells_what_is_wrong_and_what_to_do(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str, prepare: Prepare, level: Level, words: str
) -> None:
    prepare(monkeypatch, home)
    finding = found(name, home)
    assert finding.level is level, finding
    line = finding.line(name)
    assert words in line
    assert "\n" not in line
    assert bool(finding.advice) is (level is not Level.OK)


def test_every_check_has_a_case() -> None:
    assert {case[0] for case in CASES} == set(CHECKS)


def test_a_check_that_breaks_is_an_error_of_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if torch were broken.
    monkeypatch.setitem(sys.modules, "simple_dqn.device", None)
    finding = found("GPU", home)
    assert finding.level is Level.ERROR
    assert "ModuleNotFoundError" in finding.text or "ImportError" in finding.text
    assert "remove .venv" in finding.advice
    assert found("disk", home).level is not Level.ERROR


def test_the_log_is_still_meanwhile_and_only_then(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    def talk(_home: Path) -> Finding:
        logging.getLogger("simple_dqn.anything").error("said")
        return Finding(Level.OK, "fine")

    list(examine({"talk": talk}, home))
    logging.getLogger("simple_dqn.anything").error("heard")
    assert [record.message for record in caplog.records] == ["heard"]


def only(monkeypatch: pytest.MonkeyPatch, **checks: Check) -> None:
    monkeypatch.setattr("simple_dqn.doctor.CHECKS", checks)


def test_warnings_are_no_failure_and_errors_are(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_home: Path) -> Finding:
        raise UserError("it does not work: fix it")

    warned = {"a": lambda _: Finding(Level.OK, "fine"), "b": lambda _: Finding(Level.WARNING, "so", "do")}
    only(monkeypatch, **warned)
    main(["--trial_seconds", "0"], "doctor.sh")
    only(monkeypatch, **warned, c=refuse)
    with pytest.raises(SystemExit) as raised:
        main(["--trial_seconds", "0"], "doctor.sh")
    assert raised.value.code == 1
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == [["ok", "a", "fine"], ["warning", "b", "so:", "do"]]
    assert lines[-1][:2] == ["error", "c"]


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("-1", "-1 is too small: give at least 0"),
        ("soon", "'soon' is not a number"),
        ("nan", "'nan' is not a number"),
        ("4000", "4000 is too large: give at most 3600"),
    ],
)
def test_the_length_of_the_trial_is_a_sensible_number(word: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        main(["--trial_seconds", word], "doctor.sh")


def test_it_leaves_nothing_behind(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")
    before = sorted(home.rglob("*"))
    main(["--trial_seconds", "6"], "doctor.sh")
    assert sorted(home.rglob("*")) == before
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == [*CHECKS, "speed"]
    assert " steps/s of training by quick: " in lines[-1]
    assert not any(line.startswith("error") for line in lines)


@pytest.mark.parametrize(("rate", "level"), [(99.0, Level.WARNING), (101.0, Level.OK)])
def test_a_slow_machine_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, rate: float, level: Level
) -> None:
    monkeypatch.setattr(doctor, "steps_per_second", lambda _config, _seconds: rate)
    finding = trial_of(20)(home)
    assert finding.level is level
    assert f"{rate:.0f} steps/s of training by quick: 3.{'4' if rate < 100 else '3'} minutes" in finding.text


def test_a_trial_too_short_to_learn_in_says_so(home: Path) -> None:
    with pytest.raises(UserError, match="raise --trial_seconds"):
        trial_of(1e-6)(home)


def test_a_signal_ends_the_trial_as_it_ends_a_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timer = threading.Timer(4, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        trial_of(100)(home)
    timer.join()
