"""The scripts through a real shell, with a Python that only pretends to install; the distributions."""

import email
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import textwrap
import time
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import simple_dqn
from simple_dqn.main import VERBS

HOME = Path(__file__).resolve().parents[1]
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
    fakes = {"PATH": path, "CALLS": str(tmp_path / "calls"), "FAKE_PIP": "true", "FAKE_SETTINGS": ""}
    return Project(folder, kept | fakes)


@pytest.fixture
def ready(project: Project) -> Project:
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


def test_every_argument_arrives_also_through_a_link(ready: Project, tmp_path: Path) -> None:
    here = tmp_path / "elsewhere"
    here.mkdir()
    (here / "types.py").write_text("raise SystemExit('a file of the current folder was imported')")
    (here / "learn").symlink_to(ready.folder / "train.sh")
    (ready.folder / "examples").mkdir()  # the page runs by the same environment
    (ready.folder / "examples" / "dqn.py").write_text("import sys; print(sys.argv[1:], sys.path[0])")
    status, out, err = ready.run(ready.folder / "dqn.sh", *AWKWARD, cwd=here)
    assert (status, err) == (0, "")
    assert out.startswith(f"{AWKWARD} ")
    assert not out.endswith("/examples\n")  # so no file beside the page is imported
    scripts: list[tuple[str | Path, str, str]] = [(ready.folder / f"{verb}.sh", verb, "0") for verb in VERBS]
    for script, verb, code in [*scripts, ("./learn", "train", "2"), ("./learn", "train", "130")]:
        status, out, err = ready.run(script, *AWKWARD, code, cwd=here)
        assert (status, err) == (int(code), "")
        assert json.loads(out) == [[verb, *AWKWARD, code], str(here), str(ready.folder), str(script)]


def test_a_folder_that_was_deleted_is_named(ready: Project, tmp_path: Path) -> None:
    enter = f"mkdir '{tmp_path}/gone' && cd '{tmp_path}/gone' && rmdir '{tmp_path}/gone'"
    for script in ("train.sh pong", "dqn.sh pong", "bench.sh replay"):
        status, _, err = ready.run("bash", "-c", f"{enter}; exec '{ready.folder}'/{script}")
        assert status == 2
        assert err.endswith(f"{script.split()[0]}: the current folder no longer exists: change to another\n")


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_script_reaches_python(ready: Project, name: signal.Signals) -> None:
    process = ready.start("./train.sh", "wait")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(name)
    process.communicate(timeout=30)
    assert process.returncode == -name


def test_a_start_installs_what_is_missing_or_outdated(project: Project) -> None:
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


@pytest.mark.parametrize(("settings", "size"), [
    ("global.no-color='1'", "3 GB"), (":env:.extra-index-url='https://example.org/whl/cpu'", "0.4 GB"),
])  # fmt: skip
def test_the_size_of_the_download_is_told_before(project: Project, settings: str, size: str) -> None:
    _, _, err = project.run("./train.sh", FAKE_SETTINGS=settings, FAKE_PIP="echo pip begins")
    before, begins, _ = err.partition("pip begins")
    assert begins
    assert re.findall(r"Downloading (?:about )?([\d.]+ GB)", before) == [size]


def test_a_failed_installation_is_told_and_begun_anew(project: Project) -> None:
    status, out, err = project.run("./train.sh", FAKE_PIP="echo no network; exit 1")
    assert (status, out) == (2, "")
    *_, told, last = err.splitlines()
    assert told == "no network"
    assert last.startswith("./train.sh: pip could not install the packages")
    project.assert_set_up("venv", "pip", "venv", "pip")


@pytest.mark.parametrize(("name", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_interrupted_set_up(project: Project, tmp_path: Path, name: signal.Signals, status: int) -> None:
    # Not by `touch`: a shell that is interrupted while a program of its own ends well goes on with the next.
    process = project.start("./train.sh", FAKE_PIP=f": >'{tmp_path}/installing'; exec sleep 60")
    wait_for(tmp_path / "installing")
    os.killpg(process.pid, name)
    process.communicate(timeout=30)
    assert process.returncode == status
    project.assert_set_up("venv", "pip", "venv", "pip")


def test_starts_at_the_same_time_set_up_once(project: Project, tmp_path: Path) -> None:
    until_end = f"for _ in $(seq 3000); do [ -e '{tmp_path}/end' ] && break; sleep 0.01; done"
    slow = f"touch '{tmp_path}/installing'; {until_end}"
    first = project.start("./train.sh", FAKE_PIP=slow)
    wait_for(tmp_path / "installing")
    second = project.start("./test.sh")
    assert second.stderr is not None
    told = second.stderr.readline()
    (tmp_path / "end").touch()
    told += second.stderr.read()
    for process in (first, second):
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert told == "Another start is setting up .venv: waiting for it to end.\n"
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
    extras = project["optional-dependencies"]
    for ranges, lock in ((project["dependencies"], run), (extras["dev"], run | dev)):
        for wanted in map(Requirement, ranges):
            assert wanted.specifier.contains(lock[canonicalize_name(wanted.name)]), wanted


# Files there belong to the user, even if they are under git.
OPEN_FOLDERS = ("roms", "snapshots", "results", "videos")
KEPT_THERE = ("README.md", ".gitkeep")


def sources() -> list[str]:
    command = ["git", "-C", str(HOME), "ls-files"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not (HOME / ".git").exists():
        pytest.skip("this is no checkout of git, which knows the files")
    paths = map(Path, done.stdout.splitlines())
    ours = (path for path in paths if path.parts[0] not in OPEN_FOLDERS or path.name in KEPT_THERE)
    return sorted(str(path) for path in ours if (HOME / path).exists())


def build(kind: str, folder: Path) -> Path:
    """Return a wheel or an sdist, built from a copy of the sources: building leaves files behind."""
    copy = folder / "copy"
    for name in sources():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HOME / name, copy / name)
    (copy / "results" / "pong.csv").write_text("a user's\n")
    (copy / "tests" / "__pycache__").mkdir()
    (copy / "tests" / "__pycache__" / "x.pyc").write_bytes(b"")
    code = f"from setuptools import build_meta; print(build_meta.build_{kind}({str(folder)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.mark.nightly
def test_the_wheel_holds_the_three_packages_and_says_what_it_is(wheel: Path) -> None:
    folders = ("src/simple_dqn/", "src/atari2600/", "nvis/")
    expected = {name.removeprefix("src/") for name in sources() if name.startswith(folders)}
    assert {"atari2600/starts.json", "simple_dqn/py.typed", "simple_dqn/human_scores.csv"} <= expected
    with zipfile.ZipFile(wheel) as file:
        assert {name for name in file.namelist() if ".dist-info/" not in name} == expected
        notes = f"simple_dqn-{simple_dqn.__version__}.dist-info"
        about = email.message_from_bytes(file.read(f"{notes}/METADATA"))
        assert file.read(f"{notes}/licenses/LICENSE") == (HOME / "LICENSE").read_bytes()
        assert b"simple-dqn = simple_dqn.main:console" in file.read(f"{notes}/entry_points.txt")
    assert (about["Version"], about["License-Expression"]) == (simple_dqn.__version__, "MIT")


def test_a_script_ends_without_a_word_when_its_reader_quits() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, HOME / "scripts" / "size.py"], stdout=writing, stderr=-1, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


@pytest.mark.nightly
def test_the_source_distribution_holds_every_source(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as file:
        names = {member.name.split("/", 1)[1] for member in file.getmembers() if member.isfile()}
    made = {name for name in names if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert names - made == set(sources())


@pytest.mark.nightly
def test_the_library_works_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    """What pip installed for these tests is lent to it, all but the project."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    packages = tmp_path / "venv" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    lent = [path for path in sys.path if path.endswith("-packages")]
    (packages / "lent.pth").write_text("\n".join(lent))
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", str(wheel)], check=True)
    code = """
        import simple_dqn
        run = simple_dqn.train("catch", preset="simple_dqn", environment="catch", screen_width=36,
            screen_height=36, random_steps=300, train_steps=50, test_steps=20, epochs=1, replay_size=500,
            threads=1, on_phase_end=print)
        assert len(simple_dqn.load(run.snapshots[-1]).evaluate(games=2).games) == 2
        import simple_dqn.main
        assert simple_dqn.main.run(["nvis", str(run.snapshots[-1])]) == 0
        print(simple_dqn.__file__)
    """
    here = tmp_path / "here"
    here.mkdir()
    kept = {name: one for name, one in os.environ.items() if not name.startswith(("SIMPLE_DQN", "PYTHON"))}
    command = [str(python), "-c", textwrap.dedent(code)]
    done = subprocess.run(command, cwd=here, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(str(packages))
    assert sorted(path.name for path in here.iterdir()) == ["results", "snapshots"]


@pytest.mark.nightly
def test_versions_agree_everywhere() -> None:
    version, log = simple_dqn.__version__, (HOME / "CHANGELOG.md").read_text().splitlines()
    assert f"\nversion: {version}\n" in (HOME / "CITATION.cff").read_text()
    headings = [line.split()[1] for line in log if line.startswith("## ")]
    assert next(heading for heading in headings if heading != "Unreleased") == version
    # The ranges allow every Python that is promised.
    project = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]
    least = tuple(map(int, project["requires-python"].removeprefix(">=").split(".")))
    named = [line.rsplit(" ", 1)[1] for line in project["classifiers"] if "Python :: 3." in line]
    assert min(tuple(map(int, one.split("."))) for one in named) == least
