"""The layers of the package: who may import whom."""

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "simple_dqn"
PROJECT = SOURCE.parents[1]

# Imports run downwards only; packages on one layer do not import each other.
LAYERS = [
    {
        "types",
        "config",
        "presets",
        "errors",
        "command_line",
        "conversion",
        "interrupt",
        "profiler",
        "machine",
        "random_streams",
        "rules",
        "settings_file",
        "human_scores",
        "files",
    },
    {"screens", "samplers"},
    {"environment", "replay", "statistics", "snapshot", "device", "value_heads", "weights"},
    {"networks"},
    {"guided", "optimizers"},
    {"dqn"},
    {"agent", "onnx_file"},
    {"schedules", "evaluation", "plot", "watch"},
    {"cluster"},
    {"run", "sweep"},
    {"doctor"},
    {"verbs"},
    {"api"},
    {"main", "tune"},
]
# The core is DQN itself. It runs without the tools and without a cluster: `run` and the verbs join them.
NETWORK = {"dqn", "networks", "value_heads", "optimizers", "weights", "device", "guided", "onnx_file"}
CORE = {"environment", "replay", "dqn", "networks", "value_heads", "optimizers", "agent", "schedules"}
CORE |= {"statistics"}
TOOLS = {"watch", "plot", "nvis", "doctor", "sweep", "tune"}
NOT_FOR_THE_CORE = TOOLS | {"cluster", "run", "verbs", "main"}
# The bottom layer is one package: config and flags build on errors and types.
ONE_PACKAGE = 0
OWNERS = {
    "torch": [*(f"src/simple_dqn/{name}.py" for name in NETWORK), "benchmarks", "examples", "tests"],
    "ale_py": ["src/simple_dqn/environment", "benchmarks", "examples/dqn.py", "scripts/emulator.py", "tests"],
    "gymnasium": ["src/simple_dqn/environment", "benchmarks", "tests"],
    "cv2": ["src/simple_dqn/environment", "benchmarks", "examples/dqn.py", "tests"],
    "matplotlib": ["src/simple_dqn/plot", "benchmarks", "tests"],
    "bokeh": ["nvis", "tests"],
    "pygame": ["src/simple_dqn/watch", "benchmarks", "tests"],
    "blessed": ["src/simple_dqn/watch", "tests"],
    "wandb": ["src/simple_dqn/statistics/trackers.py", "tests"],
    "trackio": ["src/simple_dqn/statistics/trackers.py", "tests"],
    "onnxruntime": ["src/simple_dqn/onnx_file.py", "benchmarks", "tests"],
    "tensorboard": ["src/simple_dqn/statistics", "tests"],
    "tqdm": ["src/simple_dqn/statistics", "src/simple_dqn/watch", "nvis", "benchmarks", "tests"],
    "av": ["src/simple_dqn/watch", "tests"],
    "playwright": ["tests"],
    "ray": ["src/simple_dqn/cluster", "src/simple_dqn/sweep/runner.py", "tests"],
    "optuna": ["src/simple_dqn/tune.py", "tests"],
    "psutil": ["src/simple_dqn/machine.py", "benchmarks", "tests"],
    "yaml": ["src/simple_dqn/settings_file.py", "tests"],
    "warp": ["src/atari2600", "src/simple_dqn/environment/warp_emulator.py", "tests"],
    "atari2600": [
        "src/atari2600",
        "src/simple_dqn/environment/warp_emulator.py",
        "src/simple_dqn/environment/warp_vector.py",
        "scripts",
        "tests",
    ],
    "lz4": ["src/simple_dqn/screens.py", "src/simple_dqn/snapshot", "tests"],
}


def imports(path: Path) -> set[str]:
    """Return the dotted names of all modules that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            assert node.module
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def layer_of(package: str) -> int:
    return next(layer for layer, packages in enumerate(LAYERS) if package in packages)


EXAMPLES = sorted((PROJECT / "examples").glob("*.py"))
SOURCES = [path for path in SOURCE.rglob("*.py") if package_of(path) != "__init__"]


def test_every_room_has_a_layer() -> None:
    assert {package_of(path) for path in SOURCES} == set().union(*LAYERS)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_run_downwards(path: Path) -> None:
    package = package_of(path)
    packages = {name.split(".")[1] for name in imports(path) if name.startswith("simple_dqn.")}
    known = set().union(*LAYERS)
    for other in (packages & known) - {package}:
        same_package = layer_of(other) == layer_of(package) == ONE_PACKAGE
        assert layer_of(other) < layer_of(package) or same_package, f"{package} imports {other}"


def test_the_core_reaches_neither_the_tools_nor_the_cluster() -> None:
    """The modules that the core imports may not import them either."""
    reached, next_packages = set(), set(CORE)
    while next_packages:
        reached |= next_packages
        names = {name for path in SOURCES if package_of(path) in next_packages for name in imports(path)}
        assert not {name for name in names if name.split(".")[0] == "nvis"}
        next_packages = {name.split(".")[1] for name in names if name.startswith("simple_dqn.")} - reached
        next_packages &= set().union(*LAYERS)
    assert reached >= CORE
    assert not reached & NOT_FOR_THE_CORE


def test_games_are_played_without_processes_of_their_own() -> None:
    """Only `make` starts processes; a reader of the games need not enter their folder."""
    folder = SOURCE / "environment"
    users = {path for path in folder.glob("*.py") if any("processes" in name for name in imports(path))}
    assert users == {folder / "__init__.py"}


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    modules = {
        ".".join(("simple_dqn", *path.relative_to(SOURCE).with_suffix("").parts)): imports(path)
        for path in SOURCES
        if path.name != "__init__.py"
    }
    graph = {name: (found & modules.keys()) - {name} for name, found in modules.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError


@pytest.mark.parametrize("library", OWNERS)
def test_each_library_has_one_owner(library: str) -> None:
    users = {
        path.relative_to(PROJECT)
        for folder in ("src", "nvis", "benchmarks", "examples", "scripts", "tests")
        for path in (PROJECT / folder).rglob("*.py")
        if any(name.split(".")[0] == library for name in imports(path))
    }
    strangers = {str(user) for user in users if not str(user).startswith(tuple(OWNERS[library]))}
    assert users, f"nobody uses {library}"
    assert not strangers


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_nothing_imports_an_example_and_it_imports_no_other(path: Path) -> None:
    assert not {name for name in imports(path) if name.split(".")[0] in ("examples", "tests", "benchmarks")}
    assert not [other for other in SOURCES if "examples" in {name.split(".")[0] for name in imports(other)}]


def test_the_page_needs_nothing_of_the_project() -> None:
    libraries = {"ale_py", "cv2", "numpy", "torch"}
    names = {name.split(".")[0] for name in imports(PROJECT / "examples" / "dqn.py")}
    assert names <= libraries | sys.stdlib_module_names


def test_the_algorithm_does_not_know_the_machine() -> None:
    """A reader of the networks and the optimizers never has to open `device.py`."""
    users = {path.name for path in SOURCES if "simple_dqn.device" in imports(path)}
    assert users == {"dqn.py", "doctor.py"}


def test_the_emulator_knows_nothing_of_the_project() -> None:
    emulator = [name for path in (PROJECT / "src" / "atari2600").rglob("*.py") for name in imports(path)]
    assert not [name for name in emulator if name.split(".")[0] in ("simple_dqn", "nvis", "torch", "ale_py")]


def test_only_the_run_builds_the_objects() -> None:
    objects = {"ReplayMemory", "DeepQNetwork", "Agent"}
    builders = {
        package_of(path)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in objects
    }
    assert builders == {"run", "cluster"}  # an actor on another machine builds the network that it acts by
