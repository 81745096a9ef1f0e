"""The layers of the package; and what GitHub, pre-commit, Docker and `gpu_evidence.sh` name is there."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command_line import PROJECT

SOURCE = PROJECT / "src" / "simple_dqn"
# Imports run downwards only, and nothing imports its own layer, but for the lowest. So the core, which is DQN
# itself, runs without the tools and without a cluster: `run` and the verbs join them.
LAYERS = (
    "types config presets errors command_line machine random_streams rules files own_code | samplers "
    "value_heads | environment replay statistics snapshot | networks device hub | guided optimizers | dqn | "
    "agent | schedules evaluation watch | cluster plot | run | doctor | verbs | api | main | sweep"
)
LAYER_OF = {name: layer for layer, names in enumerate(LAYERS.split("|")) for name in names.split()}
NETWORK = "dqn networks value_heads optimizers device guided"
# Library -> the files and folders of src/simple_dqn that may import it, or paths from the project.
OWNERS = {
    "torch": f"{NETWORK} statistics verbs", "ale_py": "environment scripts/",
    "gymnasium": "environment own_code", "cv2": "environment", "matplotlib": "plot",
    "bokeh": "scripts/curves.py nvis/", "nvis": "verbs", "pygame": "watch", "blessed": "watch",
    "onnxruntime": "verbs", "tqdm": "statistics watch nvis/", "av": "watch", "ray": "cluster sweep",
    "psutil": "machine", "yaml": "command_line", "warp": "environment src/atari2600/",
    "atari2600": "environment src/atari2600/ scripts/", "lz4": "replay snapshot", "huggingface_hub": "hub",
    "safetensors": "verbs",
}  # fmt: skip


@cache
def tree(path: Path) -> ast.AST:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            assert node.module
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def owner_of(path: Path, owners: Sequence[str]) -> str:
    """Return the one of `owners` that `path` belongs to, or else `path` from the project."""
    place = str(path.relative_to(PROJECT))
    package = package_of(path) if path.is_relative_to(SOURCE) else ""
    return next((one for one in owners if one == package or ("/" in one and place.startswith(one))), place)


def libraries(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


IMPORTS = {path: imports(path) for path in SOURCE.rglob("*.py") if package_of(path) != "__init__"}


def test_imports_run_downwards_and_in_no_circle() -> None:
    assert {package_of(path) for path in IMPORTS} == LAYER_OF.keys()
    for path, names in IMPORTS.items():
        ours = {name.split(".")[1] for name in names if name.startswith("simple_dqn.")} & LAYER_OF.keys()
        for other in ours - {package_of(path)}:
            assert LAYER_OF[other] < max(1, LAYER_OF[package_of(path)]), f"{path} imports {other}"
    files = {path: names for path, names in IMPORTS.items() if path.name != "__init__.py"}
    name_of = {path: ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in files}
    modules = {name_of[path]: names for path, names in files.items()}
    graph = {name: (found & modules.keys()) - {name} for name, found in modules.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_each_library_has_one_owner() -> None:
    folders = ("src", "nvis", "scripts")
    users = [path for folder in folders for path in (PROJECT / folder).rglob("*.py")]
    used = {path: libraries(imports(path)) for path in users}
    for library, owners in OWNERS.items():
        found = {owner_of(path, owners.split()) for path, names in used.items() if library in names}
        assert found == {*owners.split()}, library


def test_examples_the_page_and_the_emulator_stand_alone() -> None:
    for path in (PROJECT / "examples").glob("*.py"):
        assert not libraries(imports(path)) & {"examples", "tests", "benchmarks"}
    page = libraries(imports(PROJECT / "examples" / "dqn.py"))
    assert page <= {"ale_py", "cv2", "numpy", "torch"} | sys.stdlib_module_names
    assert not [path for path, names in IMPORTS.items() if "examples" in libraries(names)]
    emulator = set[str]().union(*(imports(path) for path in (PROJECT / "src" / "atari2600").rglob("*.py")))
    assert not libraries(emulator) & {"simple_dqn", "nvis", "torch", "ale_py"}


def test_only_the_run_builds_the_objects() -> None:
    objects = {"ReplayMemory", "DeepQNetwork", "Agent"}
    nodes = [(package_of(path), node) for path in IMPORTS for node in ast.walk(tree(path))]
    calls = [(package, node.func) for package, node in nodes if isinstance(node, ast.Call)]
    builders = {package for package, one in calls if isinstance(one, ast.Name) and one.id in objects}
    assert builders == {"run", "cluster"}  # an actor on another machine builds the network that it acts by


MAKEFILE = (PROJECT / "Makefile").read_text()
WORKFLOWS = sorted((PROJECT / ".github" / "workflows").glob("*.yml"))


def jobs(path: Path) -> list[dict[str, Any]]:
    return [*yaml.safe_load(path.read_text())["jobs"].values()]


def commands(job: dict[str, Any]) -> list[str]:
    return [line for step in job["steps"] for line in step.get("run", "").splitlines()]


def check_command(line: str) -> None:
    """Require of one line of shell that its target of make, or its script, exists."""
    program, *words = line.split()
    if program == "make":
        for word in words:
            assert re.search(rf"^{word}:", MAKEFILE, re.MULTILINE), f"the Makefile has no target {word}"
    elif "/" in program and not program.startswith(".venv"):
        assert os.access(PROJECT / program, os.X_OK), f"{program} is no program"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_the_commands_of_a_workflow_exist(path: Path) -> None:
    lines = [line for job in jobs(path) for line in commands(job)]
    assert any(line.startswith("make ") for line in lines)
    for line in lines:
        check_command(line)


def test_the_hooks_are_the_checks_of_make_lint() -> None:
    (source,) = yaml.safe_load((PROJECT / ".pre-commit-config.yaml").read_text())["repos"]
    entries = [hook["entry"].removesuffix(" --force-exclude") for hook in source["hooks"]]
    recipe = MAKEFILE.partition("\nlint: dev\n")[2].replace("$(python)", ".venv/bin/python")
    assert entries == [line.strip().removesuffix(" --check") for line in recipe.splitlines()][:3]
    (job,) = jobs(PROJECT / ".github" / "workflows" / "tests.yml")
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={job['strategy']['matrix']['python'][0]}"


def test_the_files_and_commands_of_the_dockerfile_exist() -> None:
    text = re.sub(r"^#.*\n", "", (PROJECT / "Dockerfile").read_text(), flags=re.MULTILINE)
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line]
    assert steps[0][0] == "FROM"
    for name, words in steps:
        if name == "COPY":
            assert all((PROJECT / word).exists() for word in words.split()[:-1])
        elif name in ("RUN", "CMD"):
            check_command(words if name == "RUN" else " ".join(yaml.safe_load(words)))
    ignored = (PROJECT / ".dockerignore").read_text().splitlines()
    assert {".git", ".venv*"} <= {*ignored}
    kept = [line.removeprefix("!") for line in ignored if line.startswith("!") and "*" not in line]
    assert all((PROJECT / name).exists() for name in kept)


SCRIPT = PROJECT / "scripts" / "gpu_evidence.sh"
MIB = 1 << 20


def start(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    command = [str(SCRIPT), *words]
    return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not (PROJECT / ".git").exists(), reason="the project is no clone")
def test_what_is_to_be_copied_is_there_and_fits() -> None:
    done = start("list")
    assert done.returncode == 0, done.stderr
    folders = done.stdout.split("git sparse-checkout set ")[1].splitlines()[0].split()
    listed = ["git", "ls-files", "-z", "--", *folders, ":(glob)*"]
    files = subprocess.run(listed, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.split("\0")
    sizes = {name: (PROJECT / name).stat().st_size for name in files if name}
    assert {name.split("/")[0] for name in sizes if "/" in name} == set(folders)
    assert sum(sizes.values()) < 14 * MIB  # of 64, so that a part of 50 travels along
    script = SCRIPT.read_text()
    assert {*re.findall(r"(?:tests|benchmarks|scripts|src)/[\w/]+\.\w+", script)} <= sizes.keys()
    pieces = re.findall(r"^    (\d)\)", script, re.MULTILINE)
    assert {*re.findall(r"gpu_evidence.sh (\d)", done.stdout)} == {*pieces}


@pytest.mark.parametrize(("words", "environment"), [
    ((), {}), (("7",), {}), (("1",), {"DEVICE": "tpu"}), (("1",), {"PYTHON": "false"}),
], ids=str)  # fmt: skip
def test_bad_input_is_one_line(words: tuple[str, ...], environment: dict[str, str]) -> None:
    done = start(*words, **environment)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_pieces_run_without_a_gpu_and_measure_nothing_twice(tmp_path: Path) -> None:
    warp = pytest.importorskip("warp", reason="NVIDIA Warp is not installed")
    warp.init()
    folder, out = tmp_path / "evidence", tmp_path / "out"
    out.mkdir()
    settings = {"DEVICE": "cpu", "SMALL": "1", "FOLDER": str(folder), "OUT": str(out)}
    settings["WARP_CACHE_PATH"] = str(Path(warp.config.kernel_cache_dir).parent)  # compiled once
    seen = []
    for _ in range(2):
        for piece in ("3", "6"):
            done = start(piece, **settings)
            assert done.returncode == 0, done.stderr + done.stdout
        seen.append({path.name: path.stat().st_mtime_ns for path in folder.glob("*_*.txt")})
    assert seen[0] == seen[1]
    assert seen[0].keys() == {"games_2.txt", "games_4.txt"}
    assert "1024 steps in" in (out / "figures.md").read_text()
    assert (out / "state_00").stat().st_size < 16 * MIB
