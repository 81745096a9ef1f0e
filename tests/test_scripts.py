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
"-m pip config list") echo "$FAKE_SETTINGS" ;;
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
        pipe = subprocess.PIPE
        return subprocess.Popen(
            words, cwd=cwd or self.folder, env=self.environment | extra, stdout=pipe, stderr=pipe, text=True,
            start_new_session=True,
        )  # fmt: skip

    def run(self, *words: str | Path, cwd: Path | None = None, **extra: str) -> tuple[int, str, str]:
        process = self.start(*words, cwd=cwd, **extra)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def assert_set_up(self, *calls: str) -> None:
        """Start it, which succeeds; then these are all calls of "venv" and "pip" so far."""
        assert self.run("./train.sh")[0] == 0
        log = Path(self.environment["CALLS"]).read_text()
        assert [line.split()[0] for line in log.splitlines()] == [*calls]


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
    kept = {name: one for name, one in os.environ.items() if not name.startswith(("PYTHON", "SIMPLE_DQN"))}
    path = f"{tools}{os.pathsep}{kept['PATH']}"
    return Project(
        folder,
        kept | {"PATH": path, "CALLS": str(tmp_path / "calls"), "FAKE_PIP": "true", "FAKE_SETTINGS": ""},
    )


@pytest.fixture
def ready(project: Project) -> Project:
    """A copy that is set up."""
    assert project.run("scripts/setup.sh", "requirements.txt")[0] == 0
    return project


def fake_python(path: Path, text: str = FAKE_PYTHON.format(real=sys.executable)) -> None:
    path.write_text(text)
    path.chmod(0o755)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


def test_every_argument_arrives_also_through_a_link_and_exit_codes_are_passed(
    ready: Project, tmp_path: Path
) -> None:
    here = tmp_path / "elsewhere"
    here.mkdir()
    (here / "types.py").write_text("raise SystemExit('a file of the current folder was imported')")
    (here / "learn").symlink_to(ready.folder / "train.sh")
    scripts: list[tuple[str | Path, str, str]] = [(ready.folder / f"{verb}.sh", verb, "0") for verb in VERBS]
    for script, verb, code in [*scripts, ("./learn", "train", "2"), ("./learn", "train", "130")]:
        status, out, err = ready.run(script, *AWKWARD, code, cwd=here)
        assert (status, err) == (int(code), "")
        assert json.loads(out) == [[verb, *AWKWARD, code], str(here), str(ready.folder), str(script)]


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_script_reaches_python(ready: Project, name: signal.Signals) -> None:
    process = ready.start("./train.sh", "wait")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(name)
    process.communicate(timeout=30)
    assert process.returncode == -name


def test_the_first_start_sets_up_and_later_ones_do_where_something_is_new_or_gone(project: Project) -> None:
    status, out, err = project.run("./train.sh", "pong")
    assert (status, json.loads(out)[0]) == (0, ["train", "pong"])  # standard output is the verb's alone
    assert err.startswith("First start: making .venv")
    project.assert_set_up("venv", "pip")
    with (project.folder / "requirements.txt").open("a") as file:
        file.write("another==1.0\n")
    for _ in range(2):
        project.assert_set_up("venv", "pip", "pip")
    python = project.folder / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3.11")
    project.assert_set_up("venv", "pip", "pip", "venv", "pip")


@pytest.mark.parametrize(
    ("settings", "size"),
    [("global.no-color='1'", "3 GB"), (":env:.extra-index-url='https://example.org/whl/cpu'", "0.4 GB")],
)
def test_the_size_of_the_download_is_told_before_it_begins(
    project: Project, settings: str, size: str
) -> None:
    _, _, err = project.run("./train.sh", FAKE_SETTINGS=settings, FAKE_PIP="echo pip begins")
    before, begins, _ = err.partition("pip begins")
    assert begins
    assert re.findall(r"download (?:about )?([\d.]+ GB)", before) == [size]


def test_the_page_runs_in_the_environment_of_the_project(ready: Project, tmp_path: Path) -> None:
    (ready.folder / "examples").mkdir()
    (ready.folder / "examples" / "dqn.py").write_text("import sys; print(sys.argv[1:], sys.path[0])")
    status, out, err = ready.run(ready.folder / "dqn.sh", *AWKWARD, cwd=tmp_path)
    assert (status, err) == (0, "")
    assert out.startswith(f"{AWKWARD} ")
    assert str(tmp_path) != out.split()[-1]


def test_a_failed_installation_is_told_and_begun_anew(project: Project) -> None:
    status, out, err = project.run("./train.sh", FAKE_PIP="echo no network; exit 1")
    assert (status, out) == (2, "")
    *_, told, last = err.splitlines()
    assert told == "no network"
    assert last.startswith("./train.sh: pip could not install the packages")
    project.assert_set_up("venv", "pip", "venv", "pip")


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
    project.assert_set_up("venv", "pip", "venv", "pip")


def test_starts_at_the_same_time_set_up_once(project: Project, tmp_path: Path) -> None:
    slow = f"touch '{tmp_path}/installing'; sleep 0.5"
    first = project.start("./train.sh", FAKE_PIP=slow)
    wait_for(tmp_path / "installing")
    status, _, err = project.run("./test.sh", FAKE_PIP=slow)
    first.communicate(timeout=30)
    assert (first.returncode, status) == (0, 0)
    assert err.splitlines() == ["Another start is setting up .venv: waiting for it to end."]
    project.assert_set_up("venv", "pip")


def test_where_no_python_can_be_used_a_line_says_so(project: Project, tmp_path: Path) -> None:
    """There is none, it is too old or lacks `venv`, or `PYTHON` names none."""
    bare = tmp_path / "bare"  # with the tools that the scripts use
    bare.mkdir()
    for tool in ("bash", "cmp", "cp", "dirname", "env", "mkdir", "readlink", "rm"):
        (bare / tool).symlink_to(str(shutil.which(tool)))

    def complaint(**environment: Any) -> str:
        status, out, err = project.run("./train.sh", **environment)
        assert (status, out, len(err.splitlines())) == (2, "", 1)
        assert not (project.folder / ".venv" / "bin" / "python").exists()
        return err

    assert "no Python 3.11 or newer was found" in complaint(PATH=str(bare))
    wrong = complaint(PYTHON="/nowhere/my python")
    assert wrong.startswith("./train.sh: PYTHON=/nowhere/my python is not a Python 3.11 or newer")
    fake_python(bare / "python3.11", "#!/bin/sh\nexit 1\n")
    assert "no Python 3.11" in complaint(PATH=str(bare))
    fake_python(bare / "python3", "#!/bin/sh\nexit 3\n")
    assert "python3 lacks its venv module" in complaint(PATH=str(bare))
    fake_python(bare / "python3")
    assert project.run("./train.sh", PATH=str(bare))[0] == 0


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
