"""The wheel and the source distribution, built without a network: what is in them, and that they work."""

import email
import os
import shutil
import subprocess
import sys
import tarfile
import textwrap
import tomllib
import zipfile
from pathlib import Path

import pytest

import simple_dqn

pytestmark = pytest.mark.nightly

HOME = Path(__file__).parents[1]
# What lies there is the users', whoever put it under git.
OPEN_FOLDERS = ("roms", "snapshots", "results", "videos")
KEPT_THERE = ("README.md", ".gitkeep")


def sources() -> list[str]:
    """Return the files that git knows, as paths from the project's folder."""
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


def test_the_source_distribution_holds_every_source(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as file:
        names = {member.name.split("/", 1)[1] for member in file.getmembers() if member.isfile()}
    made = {name for name in names if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert names - made == set(sources())


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
        import numpy as np, simple_dqn
        run = simple_dqn.train("catch", preset="simple_dqn", environment="catch", screen_width=36,
            screen_height=36, random_steps=300, train_steps=50, test_steps=20, epochs=1, replay_size=500,
            threads=1, on_phase_end=print)
        agent = simple_dqn.load(run.snapshots[-1])
        assert len(agent.evaluate(games=2).games) == 2
        states = np.zeros((2, 4, 36, 36), np.uint8)
        assert agent.q_values(states).shape == (2, 3)
        assert agent.act(states, epsilon=0.05).shape == (2,)
        assert [step.over for step in agent.play()][-1]
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
