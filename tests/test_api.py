"""The Python API against the command line that it stands for."""

import copy
import json
import logging
import os
import pickle
import re
import shutil
import signal
import textwrap
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args, get_type_hints

import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import FrameStackObservation

import simple_dqn
from simple_dqn import main, random_streams, statistics
from simple_dqn.config import REGISTERED, SETTINGS, EnvironmentConfig, words
from simple_dqn.dqn import TARGET_RULES, double_targets, max_targets
from simple_dqn.environment import make as make_games
from simple_dqn.environment.interface import GameVector
from simple_dqn.networks import Convolution, Dense, NetworkSpec, ResidualSection, uniform_by_inputs
from simple_dqn.samplers import Prioritized, Uniform
from simple_dqn.snapshot import Snapshot
from simple_dqn.snapshot.saver import locked
from simple_dqn.statistics import Point, Writer
from tests.command_line import CATCH, NEON, PROJECT, Capsys, Logs, Patch, Start, nightly, python, rows, watch

pytestmark = pytest.mark.usefixtures("home")
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
TINY = NetworkSpec((Convolution(4, 8, 4), Dense(8)), biases=True, initializer=uniform_by_inputs)


class OtherDraw(Uniform):
    def draw(self, count: int) -> Any: ...  # type: ignore[override]


class NoWriter:
    def __init__(self, path: Path, settings: Any, resumed: bool) -> None: ...


async def late(target: Any, config: Any, transitions: Any, noise: Any) -> None: ...


def yielding(target: Any, config: Any, transitions: Any, noise: Any) -> Any:
    yield noise


REGISTERS: list[tuple[str, Any, Any]] = [
    ("network", simple_dqn.register_network, TINY),
    ("target_rule", simple_dqn.register_target_rule, max_targets),
    ("sampler", simple_dqn.register_sampler, Uniform),
    ("track", simple_dqn.register_track, lambda path, settings, resumed: Writer()),
]


@pytest.fixture(scope="session")
def snapshot(trained: Path) -> Path:
    return trained / "snapshots" / "catch_1.pkl"


def states(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(256, size=(count, 4, 36, 36), dtype=np.uint8)


def test_what_is_not_needed_is_not_loaded(home: Path) -> None:
    code = """
        import sys, simple_dqn
        assert not {'numpy', 'torch', 'cv2'} & set(sys.modules)
        import simple_dqn.verbs.train
        from simple_dqn import config, errors, run
        settings = config.Config.from_flags({'game': 'pong', 'csv_file': 'pong.csv'})
        run.make_statistics(settings, errors.Interrupt())
        assert not {'wandb', 'trackio', 'tensorboard', 'torch', 'simple_dqn.api'} & set(sys.modules)
        simple_dqn.make('catch', environment='catch').reset()
        try:
            simple_dqn.load(SNAPSHOT, minimal_action_set=False)
        except simple_dqn.UserError:
            assert 'torch' not in sys.modules
        else:
            raise AssertionError
        simple_dqn.load(SNAPSHOT)
        assert 'torch' in sys.modules
    """
    code = textwrap.dedent(code).replace("SNAPSHOT", repr(str(NEON)))
    done = python("-P", "-c", code, cwd=home)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["docs/api.md", nightly("README.md")])
def test_the_example_of_a_page_runs(page: str, capsys: Capsys) -> None:
    """With a shorter game or fewer games than on the page."""
    example = next(block for block in CODE.findall((PROJECT / page).read_text()) if "evaluate" in block)
    example = example.replace('"pong", epochs=20', '"catch", **CATCH').replace("games=10", "games=1")
    example = example.replace('"snapshots/', f'"{PROJECT}/snapshots/')
    exec(compile(example, page, "exec"), {"CATCH": CATCH})
    assert "Scores(mean=" in capsys.readouterr().out


def test_every_public_name_is_there_and_documented() -> None:
    for name in simple_dqn.__all__:
        public = getattr(simple_dqn, name)
        assert name in dir(simple_dqn)
        assert not callable(public) or name == "UserError" or "Example:" in public.__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        simple_dqn.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_a_training_is_that_of_the_command_line(snapshot: Path, home: Path, caplog: Logs) -> None:
    rows: list[dict[str, Any]] = []
    run = simple_dqn.train("catch", label="here", on_phase_end=rows.append, **{**CATCH, "test_steps": 40})
    assert run.snapshots == [home / "snapshots" / "catch_here_1.pkl"]
    assert Snapshot.load(run.snapshots[0]).fingerprint == Snapshot.load(snapshot).fingerprint
    assert run.csv_file == home / "results" / "catch_here.csv"
    assert list(rows[0]) == run.csv_file.read_text().splitlines()[0].split(",")
    assert [row["phase"] for row in rows] == ["random", "train", "test"]
    assert run.mean_reward == rows[-1]["average_reward"]
    # The settings of that run take the place of a preset.
    config = str(snapshot.parents[1] / "results" / "catch.yaml")
    run = simple_dqn.train("catch", label="again", config=config, resume=True, epochs=1)
    assert "There is no checkpoint" in caplog.text
    assert Snapshot.load(run.snapshots[0]).fingerprint == Snapshot.load(snapshot).fingerprint


def test_ctrl_c_ends_a_training_and_a_test(snapshot: Path, home: Path, monkeypatch: Patch) -> None:
    with pytest.raises(KeyboardInterrupt):
        simple_dqn.train("catch", on_phase_end=lambda _: signal.raise_signal(signal.SIGINT), **CATCH)
    assert not list(home.glob("snapshots/*.pkl"))  # the phase of random play was the last
    closed: list[object] = []  # a bar that is left would be drawn again after every later line of the log
    monkeypatch.setattr("simple_dqn.statistics.writers.Console.close", lambda bar: closed.append(bar))
    monkeypatch.setattr("simple_dqn.evaluation.Tester.play", lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        simple_dqn.load(snapshot).evaluate(games=1)
    assert len(closed) == 1


@pytest.mark.parametrize(("callback", "left"), [("on_step", [40]), ("on_phase_end", [])])
def test_an_exception_in_a_callback_loses_no_step(callback: str, left: list[int], snapshot: Path) -> None:
    class OwnError(BaseException):
        pass

    def fail(row: dict[str, Any]) -> None:
        if row["phase"] == "train":
            raise OwnError(row["steps"])

    failing: dict[str, Any] = {callback: fail, "every": 20, **CATCH}
    with pytest.raises(OwnError, match="20" if left else "40"):
        simple_dqn.train("catch", **failing)
    called: list[dict[str, Any]] = []
    run = simple_dqn.train("catch", resume=True, every=20, on_step=called.append, **CATCH)
    assert [row["steps"] for row in called] == left
    assert Snapshot.load(run.snapshots[0]).fingerprint == Snapshot.load(snapshot).fingerprint


def test_a_run_that_callbacks_stop_goes_on_and_keeps_the_best_test(home: Path) -> None:
    settings: dict[str, Any] = {**CATCH, "random_steps": 140, "epochs": 3, "test_steps": 40, "keep": "best"}
    ended: list[dict[str, Any]] = []
    called: list[dict[str, Any]] = []
    hearing: dict[str, Any] = {"on_phase_end": ended.append, "on_step": called.append, "every": np.int8(20)}
    whole = simple_dqn.train("catch", label="whole", **hearing, **settings)
    tests = {row["epoch"]: row["average_reward"] for row in ended if row["phase"] == "test"}
    best = whole.snapshots[max(tests, key=lambda epoch: tests[epoch]) - 1]
    assert whole.best == home / "snapshots" / "catch_whole_best.pkl"
    assert Snapshot.load(whole.best).fingerprint == Snapshot.load(best).fingerprint
    steps = [(row["phase"], row["steps"], row["total_train_steps"]) for row in called if row["epoch"] < 2]
    assert steps[:9] == [("random", n, 0) for n in range(20, 141, 20)] + [("train", n, n) for n in (20, 40)]
    assert called[0].keys() == ended[0].keys()
    run, stops = simple_dqn.TrainingRun(None, [], None, stopped=True), 0
    while run.stopped:
        run = simple_dqn.train("catch", resume=True, on_phase_end=lambda row: np.bool(True), **settings)
        stops += run.stopped
    assert stops == 7
    assert rows(home / "results" / "catch.csv") == rows(home / "results" / "catch_whole.csv")
    assert run.best
    for one, other in zip([*run.snapshots, run.best], [*whole.snapshots, whole.best], strict=True):
        assert Snapshot.load(one).fingerprint == Snapshot.load(other).fingerprint
    assert str(run.snapshots[-1]) in repr(run)
    simple_dqn.train("catch", **{**settings, "epochs": 1, "keep": 1})
    kept = {path.name for path in home.glob("snapshots/*best*")}
    assert kept == {"catch_before_best.pkl", "catch_whole_best.pkl"}
    assert len([*home.glob("snapshots/catch_checkpoint/run_*.npz")]) == 1


def test_a_callback_that_changes_the_folder_moves_no_file(start: Start, tmp_path: Path) -> None:
    assert start("home", "train", "catch", "--print_config") == 0  # the project's folder is the current one
    (tmp_path / "other").mkdir()
    settings: dict[str, Any] = {**CATCH, "epochs": 2, "csv_file": "mine.csv", "tensorboard": True}
    run = simple_dqn.train("catch", on_phase_end=lambda row: os.chdir(tmp_path / "other"), **settings)
    assert not list((tmp_path / "other").iterdir())
    assert run.snapshots == [tmp_path / "home" / "snapshots" / f"catch_{epoch}.pkl" for epoch in (1, 2)]
    assert run.csv_file == tmp_path / "home" / "mine.csv"
    checkpoints = tmp_path / "home" / "snapshots" / "catch_checkpoint"
    assert not (checkpoints / "lock").exists()
    assert main.run(["resume", str(checkpoints), "--epochs", "3"]) == 0
    assert [row["phase"] for row in rows(run.csv_file)] == ["random", "train", "train", "train"]


def test_a_run_keeps_its_threads_where_a_callback_loads_an_agent(snapshot: Path) -> None:
    seen: list[int] = []

    def load(row: dict[str, Any]) -> None:
        seen.append(torch.get_num_threads())  # an update's sums, and so the weights, depend on it
        simple_dqn.load(snapshot)

    simple_dqn.train("catch", on_phase_end=load, on_step=load, every=30, **{**CATCH, "threads": 2})
    torch.set_num_threads(1)
    assert seen == 5 * [2]


def test_a_run_that_stopped_before_its_first_step_goes_on(home: Path) -> None:
    settings: dict[str, Any] = {**CATCH, "random_steps": 0, "train_steps": 0, "test_steps": 20, "epochs": 2}
    assert simple_dqn.train("catch", on_phase_end=lambda row: True, **settings).stopped
    assert not simple_dqn.train("catch", resume=True, **settings).stopped
    assert [row["phase"] for row in rows(home / "results" / "catch.csv")] == ["test", "test"]


def test_a_run_that_began_with_other_weights_goes_on_with_its_own(snapshot: Path) -> None:
    for epochs in (1, 2):
        run = simple_dqn.train("catch", resume=True, load_weights=snapshot, **{**CATCH, "epochs": epochs})
    assert len(run.snapshots) == 2


def test_a_resumed_run_has_the_same_files_and_preset(home: Path) -> None:
    settings: dict[str, Any] = {**CATCH, "test_steps": 40, "keep": "best"}
    first = simple_dqn.train("catch", csv_file=home / "other" / "x.csv", **settings)
    run = simple_dqn.train("catch", resume=True, epochs=2)
    assert (run.csv_file, run.best) == (home / "other" / "x.csv", first.best)
    assert [row["phase"] for row in rows(home / "other" / "x.csv")][-1] == "test"
    flags: dict[str, Any] = {name: one for name, one in CATCH.items() if name != "network"}
    for epochs in (1, 2):  # the preset's network is for screens
        run = simple_dqn.train("CartPole-v1", resume=True, **{**flags, "epochs": epochs})
    assert len(run.snapshots) == 2


def test_a_complete_run_has_the_same_files(home: Path) -> None:
    run, again = (simple_dqn.train("catch", resume=True, **CATCH) for _ in range(2))
    assert (again.csv_file, again.snapshots) == (run.csv_file, run.snapshots)
    assert again.csv_file == home / "results" / "catch.csv"


def test_imports_are_one_file_or_several(snapshot: Path) -> None:
    file = PROJECT / "examples" / "flappy_bird.py"
    for files in (str(file), file, [file], (str(file), "colorsys")):
        with simple_dqn.make("flappy_bird", imports=files) as games:
            assert games.name == "flappy_bird"
        assert simple_dqn.load(snapshot, imports=files).game == "catch"
        assert simple_dqn.train("catch", imports=files, **CATCH).snapshots


def test_each_run_has_its_own_log_level_unless_the_application_has_a_log(monkeypatch: Patch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "level", logging.WARNING)
    monkeypatch.setattr(root, "handlers", [])
    for level in (logging.INFO, logging.ERROR):
        simple_dqn.train("catch", log_level=logging.getLevelName(level), **CATCH)
        assert root.level == level
    root.handlers = [logging.NullHandler()]
    simple_dqn.train("catch", log_level="INFO", **CATCH)
    assert root.level == logging.ERROR


def test_a_run_without_files_needs_no_lock(home: Path) -> None:
    with locked(home / "snapshots" / "catch"):
        run = simple_dqn.train("catch", save_weights_prefix=None, csv_file=None, **CATCH)
    assert (run.snapshots, run.csv_file) == ([], None)


@pytest.mark.parametrize("flags", [{"replay_size": 10**9}, {"track": "mine"}])
def test_a_run_that_cannot_be_built_closes_its_games(monkeypatch: Patch, flags: dict[str, Any]) -> None:
    closed: list[object] = []
    watch(GameVector, "close", closed.append, monkeypatch)
    simple_dqn.register_track("mine", lambda path, settings, resumed: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(simple_dqn.UserError, match=r"memory|returned None: return a Writer"):
        simple_dqn.train("catch", **{**CATCH, "test_steps": 40, **flags})
    assert len(closed) == 2  # those of training and of tests


def test_an_agent_scores_as_the_verb_and_in_gymnasiums_loop(snapshot: Path, home: Path) -> None:
    flags = {"play_games": 9, "random_seed": 3, "exploration_rate_test": 0.3, "threads": 1}
    assert main.run(["test", str(snapshot), *words(flags), f"--json={home / 'scores.json'}"]) == 0
    agent = simple_dqn.load(snapshot)
    wanted = json.loads((home / "scores.json").read_text())
    assert len({*wanted["scores"]}) > 1
    for _ in range(2):
        scores = agent.evaluate(games=9, seed=3, epsilon=0.3)
        assert scores == (wanted["mean"], wanted["standard_deviation"], wanted["scores"])
    random = simple_dqn.load(snapshot, exploration_rate_test=1.0)
    assert random.evaluate(games=9, seed=3).games == agent.evaluate(games=9, seed=3, epsilon=1).games
    env: Any = simple_dqn.GymnasiumEnv(lambda seed: simple_dqn.make("catch", seed=seed, preset="catch"))
    env = FrameStackObservation(env, 4, padding_type="zero")
    found: list[float] = []
    states, _ = env.reset(seed=2)
    while len(found) < 5:
        states, reward, terminated, _, _ = env.step(agent.act(states[np.newaxis])[0])
        if terminated:
            found.append(reward)
            states, _ = env.reset()
    assert found == agent.evaluate(games=5, seed=2, epsilon=0).games


def test_an_agent_values_states_acts_and_plays(snapshot: Path) -> None:
    agent = simple_dqn.load(str(snapshot), backend="cpu")
    assert (agent.game, agent.actions, agent.action_names) == ("catch", 3, ("LEFT", "NOOP", "RIGHT"))
    assert agent.settings["screen_width"] == 36
    qvalues, actions = agent.q_values(states(5)), agent.act(states(5))
    assert (str(qvalues.dtype), qvalues.shape, str(actions.dtype)) == ("float32", (5, 3), "int64")
    assert (actions == qvalues.argmax(1)).all()
    assert agent.saliency(states(2)[::-1][:1]).shape == (1, 4, 36, 36)  # of any strides
    saliency = agent.saliency(states(5))
    assert (str(saliency.dtype), saliency.shape) == ("float32", (5, 4, 36, 36))
    assert np.abs(saliency).max() > 0
    random = np.concatenate([agent.act(states(5), epsilon=1.0) for _ in range(20)])
    assert set(random.tolist()) == {0, 1, 2}
    for shape in ((36, 36, 3), (36, 36)):
        steps = list(agent.play(frames=len(shape) == 3, epsilon=0))
        assert [step.done for step in steps] == [False] * 6 + [True]
        assert steps[-1].reward in (-1, 1)
        assert all(step.screen.shape == shape and step.action == step.q_values.argmax() for step in steps)
    several = simple_dqn.load(snapshot, backend="cpu", workers=3)  # for `evaluate`: `play` plays one game
    one, same = ([step.action for step in each.play(epsilon=1)] for each in (agent, several))
    assert one == same


def test_agents_can_be_copied_and_pickled(snapshot: Path, home: Path) -> None:
    path = Path(shutil.copy(snapshot, home))
    agent = simple_dqn.load(path, backend="cpu")
    assert "catch, epoch 1, 40 training steps" in repr(agent)
    path.unlink()
    for twin in (copy.copy(agent), copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))):
        assert (twin.q_values(states(5)) == agent.q_values(states(5))).all()
        assert twin.evaluate(games=1) == agent.evaluate(games=1)
        assert (twin.settings, repr(twin)) == (agent.settings, repr(agent))


def test_every_setting_is_a_keyword_that_editors_and_mypy_know() -> None:
    path, share = str | Path | None, int | str
    wanted = {
        name: share if "share_of" in one else path if one["types"] == (str, type(None)) else one["types"]
        for name, one in SETTINGS.items()
    }
    for name, kind in get_type_hints(simple_dqn.Settings).items():
        assert name == "imports" or wanted[name] in (kind, get_args(kind) or (kind,)), name
    assert get_type_hints(simple_dqn.Settings).keys() == wanted.keys() - {"game"}


if TYPE_CHECKING:  # mypy passes the first lines, and needs each `ignore` of the others
    few: simple_dqn.Settings = {"train_steps": 100, "exploration_decay_steps": "10%", "keep": "best"}
    run = simple_dqn.train("pong", "quick", on_step=lambda row: row["epoch"] == 3, every=100, **few)
    agent = simple_dqn.load(run.best or run.snapshots[-1], backend="cpu", synchronize=None)
    value: float = agent.q_values(np.zeros((1, 4, 84, 84), np.uint8)).max() + agent.evaluate(games=3).games[0]
    simple_dqn.train("pong", learning_rate=1, imports=["mine.py"], csv_file=run.csv_file)
    simple_dqn.make("pong", games=2, frame_skip=4).reset().screens.astype(float)
    simple_dqn.train("pong", train_step=3)  # type: ignore[call-arg]
    simple_dqn.train("pong", epochs="many")  # type: ignore[arg-type]
    simple_dqn.train("pong", on_step=3)  # type: ignore[arg-type]
    simple_dqn.load("pong_1.pkl", backand="cpu")  # type: ignore[call-arg]
    simple_dqn.make("pong", frame_skip=1.5)  # type: ignore[arg-type]
    simple_dqn.lod("pong_1.pkl")  # type: ignore[attr-defined]


def test_an_environment_checks_actions_and_restores_its_state() -> None:
    environment, other = (simple_dqn.make("pong", games=2, screen_width=64) for _ in range(2))
    assert environment.reset().screens.shape == (2, 84, 64)
    for actions in ([0, 99], [-1, 0], [0], 1, None, ["a", "b"], [[0], [1, 2]]):
        with pytest.raises(simple_dqn.UserError, match=r"give int64 \[2\] from 0 to 5"):
            environment.step(actions)  # type: ignore[arg-type]
    for _ in range(9):
        environment.step(np.array([5, 0]))
    other.set_state(environment.get_state())  # which begins its games
    assert len({one.step(np.array([5, 0])).screens.tobytes() for one in (environment, other)}) == 1
    for one in (environment, other, other):  # the second time it does nothing
        one.close()
    calls = (environment.reset, partial(environment.step, np.zeros(2, np.int64)), environment.get_state)
    for call in (*calls, partial(other.set_state, {})):
        with pytest.raises(simple_dqn.UserError, match=r"games of pong were closed: call simple_dqn\.make"):
            call()
    assert simple_dqn.make("catch", games=3, preset="strong").games == 3


def test_what_is_wrong_is_told_in_a_line(snapshot: Path) -> None:
    api: Any = simple_dqn  # whose types forbid these calls
    agent, neon = api.load(snapshot), api.load(NEON)
    one_game = partial(api.make, "pong")
    wrong: dict[str, list[Callable[[], object]]] = {  # a part of each message -> calls
        r"give uint8 \[B, 4, 36, 36\]": [
            lambda: agent.q_values(states(2)[:, :3]), lambda: agent.q_values(states(2).astype(np.float32)),
            lambda: agent.q_values(states(0)), lambda: agent.q_values([[1], [1, 2]]), lambda: agent.act(None),
        ],
        "^epsilon: 2 is too large": [
            lambda: agent.act(states(1), epsilon=2), lambda: agent.evaluate(epsilon=2),
        ],
        "^games: .*(whole number|give at least 1)": [
            partial(call, games=games) for call in (agent.evaluate, one_game) for games in (0, None, "ten")
        ],
        "^seed: -1 is too small": [lambda: agent.evaluate(seed=-1), lambda: one_game(seed=-1)],
        "was trained on breakout, not on pong": [lambda: next(neon.play("pong"))],
        "chooses among 4 actions": [lambda: api.load(NEON, minimal_action_set=False)],
        "^path is None": [lambda: api.load(None)],
        "no file can have such a name": [lambda: api.load("a\0")],
        "--exploration": [lambda: api.load(snapshot, exploration=1)],
        "flag --a b=1": [partial(call, "catch", **{"a b": 1}) for call in (api.train, api.make)],
        "--import 3: give a file": [partial(api.make, "pong", imports=given) for given in (3, [3])],
        "cannot be called": [lambda: api.train("", on_step=5), lambda: api.train("", on_phase_end=late)],
        "every is": [partial(api.train, "pong", every=every) for every in (0, 1.5, "many", None, True)],
        "register_target_rule": [lambda: api.train("pong", target_rule="mine")],
        "did you mean pong": [lambda: api.make("pongg")],
        "training is 'no': give True or False": [lambda: api.make("catch", training=cast(Any, "no"))],
        "not one of these games .*: give what get_state returned": [
            partial(one_game().set_state, state) for state in cast(Any, ({}, None))
        ],
        "one game": [lambda: api.GymnasiumEnv(lambda seed: one_game(games=2))],
        "^(game is .*: give text.* with Gymnasium, and give its id|label is .* a path|seed is .*)$": [
            *(partial(api.train, game) for game in (None, 3, "", b"pong", "--help")), lambda: api.make(None),
            lambda: api.train("pong", label="--epochs"), lambda: one_game(seed=None),
            lambda: api.load(snapshot, game=3), lambda: next(agent.play(game=3)),
        ],
        "is for the command line|is not for a training": [
            partial(api.train, "pong", **{name: 2}) for name in ("help", "print_config", "play_games")
        ],
        "(epochs|csv_file) has no single value: give one": [
            partial(api.train, "catch", **one) for one in ({"epochs": [1]}, {"csv_file": b"x"})
        ],
        "games and seed": [partial(api.make, "pong", **{name: 2}) for name in ("workers", "random_seed")],
        "File name too long": [lambda: api.train("catch", environment="catch", csv_file="a" * 300)],
        "positional arguments|not make one": [partial(api.GymnasiumEnv, make) for make in (lambda: 1, int)],
        "cannot name a|up to 100 letters": [
            partial(register, name, entry) for _, register, entry in REGISTERS
            for name in ("auto", "none", "", "a b", "1a", 3, "x" * 300)
        ],
        "of layers with sizes above 0": [
            partial(api.register_network, "x", NetworkSpec(layers, True, uniform_by_inputs))
            for layers in cast(Any, (
                None, ("d",), (Dense,), (Dense(-1),), (Convolution(0, 3, 1),), 51 * (Dense(1),),
                (ResidualSection(1, 10**9),),
            ))
        ],
        "must return an array of the shape": [
            lambda: api.register_network("x", NetworkSpec((Dense(3),), True, lambda *_: np.zeros(3)))
        ],
        r"initializer failed: TypeError: .*argument.*\.py, line \d+\)": [
            lambda: api.register_network("x", NetworkSpec((Dense(3),), True, cast(Any, lambda rng: rng)))
        ],
        "^3 .*: give a ": [partial(register, "x", 3) for _, register, _ in REGISTERS],
        r"give a function|\(target, config": [
            partial(api.register_target_rule, "x", rule) for rule in (int, late, yielding, lambda target: 0)
        ],
        r"\(self, count, steps, rng\)": [lambda: api.register_sampler("x", OtherDraw)],
        "subclass of simple_dqn.samplers.Uniform": [lambda: api.register_sampler("x", NoWriter)],
        r"\(path, settings, resumed\)": [lambda: api.register_track("x", lambda path: Writer())],
        "NoWriter is not a Writer": [lambda: api.register_track("x", NoWriter)],
    }  # fmt: skip
    for told, calls in wrong.items():
        for call in calls:
            with pytest.raises(simple_dqn.UserError, match=told) as refusal:
                call()
            assert "\n" not in str(refusal.value)


def test_what_is_registered_is_chosen_by_name_and_recorded(home: Path) -> None:
    called: list[str] = []

    class Counting(Prioritized):
        def draw(self, count: int, steps: int, rng: np.random.Generator) -> Any:
            called.append("draw")
            return super().draw(count, steps, rng)

        def set_errors(self, numbers: Any, errors: Any) -> None:
            called.append("errors")
            super().set_errors(numbers, errors)

    def rule(*arguments: Any) -> Any:
        called.append("rule")
        return double_targets(*arguments)  # which leaves the next action open

    simple_dqn.register_network("tiny", TINY)
    simple_dqn.register_sampler("counting", Counting)
    simple_dqn.register_target_rule("mine", rule)
    names = {"network": "tiny", "sampler": "counting", "target_rule": "mine"}
    run = simple_dqn.train("catch", **{**CATCH, **names})
    saved = Snapshot.load(run.snapshots[0])
    assert {name: saved.flags[name] for name in names} == names
    assert [called.count(name) for name in ("draw", "errors", "rule")] == [10] * 3
    assert simple_dqn.load(run.snapshots[0]).q_values(states(1)).shape == (1, 3)
    # Without the sampler and the rule it plays all the same; without the network it cannot.
    REGISTERED["sampler"].remove("counting")
    REGISTERED["target_rule"].remove("mine")
    assert simple_dqn.load(run.snapshots[0]).evaluate(games=1).games
    with pytest.raises(simple_dqn.UserError, match="--sampler counting is not registered"):
        simple_dqn.train("catch", **{**CATCH, "network": "tiny", "epochs": 2, "resume": True})
    REGISTERED["network"].remove("tiny")
    with pytest.raises(simple_dqn.UserError, match="--network tiny is not registered"):
        simple_dqn.load(run.snapshots[0])
    # A known entry is replaced.
    known = list(REGISTERED["target_rule"])
    simple_dqn.register_target_rule("max", double_targets)
    assert (TARGET_RULES["max"], REGISTERED["target_rule"]) == (double_targets, known)


@pytest.mark.parametrize(("drawn", "told"), [
    (lambda numbers, weights: None, "returned NoneType: return numbers"),
    (lambda numbers, weights: numbers, r"returned int64 \[4\]: return numbers int64 \[4\] and weights"),
    (lambda numbers, weights: (numbers[1:], weights), r"returned int64 \[3\] and float32 \[4\]: return"),
    (lambda numbers, weights: [numbers / 2, 1], r"returned float64 \[4\] and int: return"),
    (lambda numbers, weights: (numbers + 999, weights), r"drew 1\d{3}, which .*: draw numbers from 1 to 64,"),
    (lambda numbers, weights: (numbers * 0, weights), "drew 0, which is no transition"),  # starts a game
    (lambda numbers, weights: (numbers, weights * np.nan), "returned a negative, infinite or NaN weight"),
    (lambda numbers, weights: (numbers, -weights), "returned a negative, infinite or NaN weight"),
])  # fmt: skip
def test_a_sampler_that_draws_no_transitions_is_named(drawn: Callable[..., Any], told: str) -> None:
    class Wrong(Uniform):
        def draw(self, count: int, steps: int, rng: np.random.Generator) -> Any:
            return drawn(*super().draw(count, steps, rng))

    simple_dqn.register_sampler("wrong", Wrong)
    with pytest.raises(simple_dqn.UserError, match=f"--sampler wrong {told}"):
        simple_dqn.train("catch", **CATCH, sampler="wrong")


@pytest.mark.parametrize("returned", [None, torch.zeros(4, 2, 1)])
def test_a_rule_that_returns_no_targets_is_named(returned: Any) -> None:
    simple_dqn.register_target_rule("mine", lambda target, config, transitions, noise: returned)
    with pytest.raises(simple_dqn.UserError, match="--target_rule mine returned"):
        simple_dqn.train("catch", **CATCH, target_rule="mine")


def test_a_tracker_of_ones_own_changes_nothing(snapshot: Path, home: Path, monkeypatch: Patch) -> None:
    heard: list[Any] = []

    class Mine(Writer):
        points = True

        def __init__(self, run: Path, settings: Mapping[str, Any], resumed: bool) -> None:
            heard.append((run, settings["batch_size"], resumed))

        def on_point(self, point: Point) -> None:
            heard.append(point)

        def on_file(self, path: Path) -> None:
            heard.append(path)

    simple_dqn.register_track("mine", Mine)
    monkeypatch.setattr(statistics, "POINT_STEPS", 20)
    run = simple_dqn.train("catch", track="mine", **CATCH)
    assert heard[0] == (home / "results" / "catch", 4, False)
    assert heard[-1] == run.snapshots[0]
    assert [point.step for point in heard[1:-1]] == [20, 40]
    point = heard[1]
    assert point.qvalues.shape == (256, 3)
    assert point.scalars["progress/mean_q"] == pytest.approx(point.qvalues.max(axis=1).mean())
    assert Snapshot.load(run.snapshots[0]).fingerprint == Snapshot.load(snapshot).fingerprint


@pytest.mark.parametrize(("game", "flags"), [
    ("catch", {"environment": "catch"}),
    ("pong", {"max_game_frames": 200, "screen_width": 36, "screen_height": 36}),
])  # fmt: skip
def test_games_are_gymnasiums_too(game: str, flags: dict[str, Any]) -> None:
    env = simple_dqn.GymnasiumEnv(lambda seed: simple_dqn.make(game, seed=seed, **flags))
    check_env(env, skip_render_check=True)
    env.close()
    ours = simple_dqn.make(game, games=3, seed=5, **flags)

    def alone(place: int, seed: int) -> Any:
        config = EnvironmentConfig(game=game, **flags)
        return make_games(config, [random_streams.stream(seed, "test environment", place)], False)

    envs = [partial(simple_dqn.GymnasiumEnv, partial(alone, place)) for place in range(3)]
    theirs = SyncVectorEnv(envs, autoreset_mode=AutoresetMode.NEXT_STEP)
    assert (ours.reset().screens == theirs.reset(seed=[5] * 3)[0]).all()
    rng, ends = np.random.default_rng(0), 0
    for _ in range(60):
        actions = rng.integers(ours.actions, size=3)
        step, other = ours.step(actions), theirs.step(actions)
        one = (step.screens, step.rewards, step.terminals & step.resets, step.truncations)
        for mine, his in zip(one, other[:4], strict=True):
            assert (mine == his).all()
        ends += int(step.resets.sum())
    assert ends
    ours.close()
    theirs.close()


def test_a_copy_of_games_plays_alone_and_processes_are_not_copied() -> None:
    ours = simple_dqn.make("catch", games=2)
    before = str(ours.get_state())
    for twin in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert (bool(twin.step(np.zeros(2, np.int64)).starts.all()), str(ours.get_state())) == (True, before)
    with simple_dqn.make("catch", processes=1) as ours:
        with pytest.raises(simple_dqn.UserError, match="cannot be copied"):
            copy.deepcopy(ours)
        assert ours.reset().starts.all()
    with pytest.raises(simple_dqn.UserError, match="games of catch were closed"):
        ours.reset()


def test_games_without_a_seed_differ() -> None:
    def make(seed: int) -> Any:
        return simple_dqn.make("catch", environment="catch", seed=seed)

    copies = SyncVectorEnv([lambda: simple_dqn.GymnasiumEnv(make)] * 8)
    starts = np.stack([copies.reset()[0] for _ in range(3)], axis=1)  # [games, resets, H, W]
    assert len({each.tobytes() for each in starts}) > 1
    assert len({simple_dqn.GymnasiumEnv(make, seed=3).reset()[0].tobytes() for _ in range(3)}) == 1
