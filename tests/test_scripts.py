"""The scripts through a real shell, in a copy of the project, with a Python that only pretends to install."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HOME = Path(__file__).resolve().parents[1]
VERBS = (
    "train", "resume", "test", "play", "record", "plot", "nvis", "snapshot", "doctor", "sweep",
    "profile_train", "profile_test", "profile_random",
)  # fmt: skip
AWKWARD = ["a b.rom", "", "*", "--flag=$HOME", "it's", 'say "x"', "back\\slash"]

# Stands in for Python. It writes down that a venv or an installation was asked for, and does neither;
# $FAKE_PIP is what pip does: a shell command. Everything else is the real Python's.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
*ensurepip*) echo "$0" ;;
"-m venv "*) echo venv >>"$CALLS" && mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip "*) shift 2 && echo "pip $*" >>"$CALLS" && eval "$FAKE_PIP" ;;
*) exec '{real}' "$@" ;;
esac
"""

# Stands in for the program: tells what reached it, and ends with the exit code that it was given, if any.
FAKE_MAIN = """
import json, os, sys, time
words = [os.environ[name] for name in ("SIMPLE_DQN_HOME", "SIMPLE_DQN_PROGRAM")]
print(json.dumps([sys.argv[1:], os.getcwd(), *words]), flush=True)
if sys.argv[-1] == "wait":
    time.sleep(60)
sys.exit(int(sys.argv[-1]) if sys.argv[-1].isdigit() else 0)
"""


@dataclass
class Project:
    """A copy of the scripts, whose set-up is pretended."""

    folder: Path
    environment: dict[str, str]

    def start(self, *words: str | Path, cwd: Path | None = None, **extra: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [str(word) for word in words],
            cwd=cwd or self.folder,
            env=self.environment | extra,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str | Path, cwd: Path | None = None, **extra: str) -> tuple[int, str, str]:
        process = self.start(*words, cwd=cwd, **extra)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def calls(self) -> list[str]:
        """Return what set-ups have asked for so far: "venv" and "pip", in order."""
        log = Path(self.environment["CALLS"])
        return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def project(tmp_path: Path) -> Project:
    folder, tools = tmp_path / "the project", tmp_path / "bin"
    (folder / "src" / "simple_dqn").mkdir(parents=True)
    (folder / "src" / "simple_dqn" / "main.py").write_text(FAKE_MAIN)
    shutil.copytree(HOME / "scripts", folder / "scripts")
    for source in [*HOME.glob("*.sh"), *HOME.glob("requirements*.txt")]:
        shutil.copy(source, folder)
    tools.mkdir()
    fake_python(tools / "python3.11")
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SIMPLE_DQN"))
    }
    path = f"{tools}{os.pathsep}{kept['PATH']}"
    return Project(folder, kept | {"PATH": path, "CALLS": str(tmp_path / "calls"), "FAKE_PIP": "true"})


@pytest.fixture
def ready(project: Project) -> Project:
    """A copy that is set up."""
    assert project.run("scripts/setup.sh", "requirements.txt")[0] == 0
    return project


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """A folder for PATH with the tools that the scripts use, and no Python."""
    folder = tmp_path / "bare"
    folder.mkdir()
    for tool in ("bash", "cmp", "cp", "dirname", "env", "mkdir", "readlink", "rm"):
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    return folder


def fake_python(path: Path, text: str = FAKE_PYTHON.format(real=sys.executable)) -> None:
    path.write_text(text)
    path.chmod(0o755)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


def test_every_argument_arrives_as_it_was_given(ready: Project, tmp_path: Path) -> None:
    here = tmp_path / "elsewhere"
    here.mkdir()
    (here / "types.py").write_text("raise SystemExit('a file of the current folder was imported')")
    for verb in VERBS:
        script = ready.folder / f"{verb}.sh"
        status, out, err = ready.run(script, *AWKWARD, cwd=here)
        assert (status, err) == (0, "")
        assert json.loads(out) == [[verb, *AWKWARD], str(here), str(ready.folder), str(script)]


def test_a_script_works_through_a_link_and_passes_exit_codes(ready: Project, tmp_path: Path) -> None:
    (tmp_path / "learn").symlink_to(ready.folder / "train.sh")
    for code in (0, 2, 130):
        status, out, _ = ready.run("./learn", str(code), cwd=tmp_path)
        assert status == code
        assert json.loads(out) == [["train", str(code)], str(tmp_path), str(ready.folder), "./learn"]


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_script_reaches_python(ready: Project, name: signal.Signals) -> None:
    process = ready.start("./train.sh", "wait")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(name)
    process.communicate(timeout=30)
    assert process.returncode == -name


def test_the_first_start_sets_up_and_goes_on(project: Project) -> None:
    status, out, err = project.run("./train.sh", "pong")
    assert (status, json.loads(out)[0]) == (0, ["train", "pong"])  # standard output is the verb's alone
    assert err.startswith("First start: making .venv")
    assert project.calls() == ["venv", "pip"]


def test_changed_requirements_are_installed_once(ready: Project) -> None:
    with (ready.folder / "requirements.txt").open("a") as file:
        file.write("another==1.0\n")
    ready.run("./train.sh")
    ready.run("./train.sh")
    assert ready.calls() == ["venv", "pip", "pip"]


def test_a_failed_installation_is_told_and_begun_anew(project: Project) -> None:
    status, out, err = project.run("./train.sh", FAKE_PIP="echo no network; exit 1")
    assert (status, out) == (2, "")
    assert err.splitlines()[-2:] == ["no network", err.splitlines()[-1]]
    assert err.splitlines()[-1].startswith("./train.sh: pip could not install the packages")
    assert project.run("./train.sh")[0] == 0
    assert project.calls() == ["venv", "pip", "venv", "pip"]


@pytest.mark.parametrize(("name", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_an_interrupted_installation_is_begun_anew(
    project: Project, tmp_path: Path, name: signal.Signals, status: int
) -> None:
    # Not by `touch`: a shell that is interrupted while a program of its own ends well goes on with the next.
    process = project.start("./train.sh", FAKE_PIP=f": >'{tmp_path}/installing'; exec sleep 60")
    wait_for(tmp_path / "installing")
    os.killpg(process.pid, name)
    process.communicate(timeout=30)
    assert process.returncode == status
    assert project.run("./train.sh")[0] == 0
    assert project.calls() == ["venv", "pip", "venv", "pip"]


def test_starts_at_the_same_time_set_up_once(project: Project, tmp_path: Path) -> None:
    slow = f"touch '{tmp_path}/installing'; sleep 0.5"
    first = project.start("./train.sh", FAKE_PIP=slow)
    wait_for(tmp_path / "installing")
    status, _, err = project.run("./test.sh", FAKE_PIP=slow)
    first.communicate(timeout=30)
    assert (first.returncode, status) == (0, 0)
    assert err.splitlines() == ["Another start is setting up .venv: waiting for it to end."]
    assert project.calls() == ["venv", "pip"]


def test_a_venv_whose_python_is_gone_is_made_anew(ready: Project) -> None:
    python = ready.folder / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3.11")
    assert ready.run("./train.sh")[0] == 0
    assert ready.calls() == ["venv", "pip", "venv", "pip"]


def test_where_no_python_can_be_used_a_line_says_so(project: Project, bare_path: Path) -> None:
    """There is none, it is too old or lacks `venv`, or `PYTHON` names none."""

    def complaint(**environment: Any) -> str:
        status, out, err = project.run("./train.sh", **environment)
        assert (status, out, len(err.splitlines())) == (2, "", 1)
        assert not (project.folder / ".venv" / "bin" / "python").exists()
        return err

    assert "no Python 3.11 or newer was found" in complaint(PATH=str(bare_path))
    wrong = complaint(PYTHON="/nowhere/my python")
    assert wrong.startswith("./train.sh: PYTHON=/nowhere/my python is not a Python 3.11 or newer")
    fake_python(bare_path / "python3.11", "#!/bin/sh\nexit 1\n")
    assert "no Python 3.11" in complaint(PATH=str(bare_path))
    fake_python(bare_path / "python3", "#!/bin/sh\nexit 3\n")
    assert "python3 lacks its venv module" in complaint(PATH=str(bare_path))
    fake_python(bare_path / "python3")
    assert project.run("./train.sh", PATH=str(bare_path))[0] == 0


def pins(name: str) -> dict[str, str]:
    lines = [line for line in (HOME / name).read_text().splitlines() if not line.startswith(("#", "--"))]
    for line in lines:
        assert re.fullmatch(r"[\w.-]+==[\w.]+", line), f"{line} is not an exact version that fits every build"
    return {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in lines}


def test_the_lock_files_meet_the_ranges_of_the_project() -> None:
    project = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]
    run, dev = pins("requirements.txt"), pins("requirements-dev.txt")
    assert not run.keys() & dev.keys()
    for ranges, lock in [
        (project["dependencies"], run),
        (project["optional-dependencies"]["dev"], run | dev),
    ]:
        for wanted in map(Requirement, ranges):
            assert wanted.specifier.contains(lock[canonicalize_name(wanted.name)]), wanted
