"""The layers of the package: who may import whom, and which package alone uses a library."""

import ast
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

PROJECT = Path(__file__).parents[1]
SOURCE = PROJECT / "src" / "simple_dqn"

# Imports run downwards only, and nothing imports its own layer, but for the lowest. So the core, which is DQN
# itself, runs without the tools and without a cluster: `run` and the verbs join them.
LAYERS = [
    "types config presets errors command_line machine random_streams rules files own_code",
    "samplers",
    "environment replay statistics snapshot",
    "networks device",
    "guided optimizers",
    "dqn",
    "agent",
    "schedules evaluation watch",
    "cluster plot",
    "run",
    "doctor",
    "verbs",
    "api",
    "main",
    "sweep",
]
LAYER_OF = {name: layer for layer, names in enumerate(LAYERS) for name in names.split()}
NETWORK = "dqn networks optimizers device guided"
# Library -> the files and folders of src/simple_dqn that may import it, or paths from the project.
OWNERS = {
    "torch": f"{NETWORK} statistics verbs",
    "ale_py": "environment scripts/emulator.py scripts/probe_rules.py",
    "gymnasium": "environment own_code",
    "cv2": "environment",
    "matplotlib": "plot",
    "bokeh": "nvis/",
    "nvis": "verbs nvis/",
    "pygame": "watch",
    "blessed": "watch",
    "onnxruntime": "verbs",
    "tqdm": "statistics watch nvis/",
    "av": "watch",
    "ray": "cluster sweep",
    "psutil": "machine",
    "yaml": "command_line",
    "warp": "environment src/atari2600",
    "atari2600": "environment src/atari2600 scripts/",
    "lz4": "replay snapshot",
}


@cache
def tree(path: Path) -> ast.AST:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> set[str]:
    """Return the dotted names of all modules that a file imports, wherever in it."""
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


def own(names: set[str]) -> set[str]:
    return {name.split(".")[1] for name in names if name.startswith("simple_dqn.")} & LAYER_OF.keys()


def libraries(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


IMPORTS = {path: imports(path) for path in SOURCE.rglob("*.py") if package_of(path) != "__init__"}


def test_imports_run_downwards() -> None:
    assert {package_of(path) for path in IMPORTS} == LAYER_OF.keys()
    upwards = [
        f"{path.relative_to(SOURCE)} imports {other}"
        for path, names in IMPORTS.items()
        for other in own(names) - {package_of(path)}
        if LAYER_OF[other] >= max(1, LAYER_OF[package_of(path)])
    ]
    assert not upwards


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    modules = {
        ".".join(("simple_dqn", *path.relative_to(SOURCE).with_suffix("").parts)): names
        for path, names in IMPORTS.items()
        if path.name != "__init__.py"
    }
    graph = {name: (found & modules.keys()) - {name} for name, found in modules.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_each_library_has_one_owner() -> None:
    folders = ("src", "nvis", "scripts")
    users = [path for folder in folders for path in (PROJECT / folder).rglob("*.py")]
    used = {path: libraries(imports(path)) for path in users}
    for library, owners in OWNERS.items():
        allowed = tuple(
            str(PROJECT / owner) if "/" in owner else str(SOURCE / owner) for owner in owners.split()
        )
        found = [path for path, names in used.items() if library in names]
        assert found, f"no file uses {library}"
        assert not [str(path) for path in found if not str(path).startswith(allowed)], library


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
    builders = {
        package_of(path)
        for path in IMPORTS
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in objects
    }
    assert builders == {"run", "cluster"}  # an actor on another machine builds the network that it acts by
