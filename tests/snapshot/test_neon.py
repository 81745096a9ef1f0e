"""Snapshots of the original simple_dqn.

`data/breakout_1.pkl` is Neon 2.6's own file without the optimizer's memory, its words as Python 2 wrote them;
`data/breakout_1_expected.npz` holds four states and the Q-values that Neon computed for them.
"""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from simple_dqn import main
from simple_dqn.config import BackendConfig, Config, NetworkConfig
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.errors import UserError
from simple_dqn.networks import NETWORKS
from simple_dqn.snapshot import Snapshot

DATA = Path(__file__).parents[1] / "data"
PYTHON2 = DATA / "breakout_1.pkl"
Model = dict[str, Any]


@pytest.fixture
def model() -> Model:
    """Return what Neon wrote, by Python's own unpickler."""
    loaded: Model = pickle.loads(PYTHON2.read_bytes(), encoding="latin1")
    return loaded


def matrices(model: Model) -> list[NDArray[np.float32]]:
    return [layer["params"]["W"] for layer in model["model"]["config"]["layers"] if "params" in layer]


def new(model: Model) -> Model:
    """Return Neon 2's layout, with RMSProp's memory."""
    for layer in model["model"]["config"]["layers"]:
        if "params" in layer:
            layer["states"] = [layer["params"]["W"] ** 2]
    return model


def old(model: Model) -> Model:
    """Return the layout of Neon 1.1: a list of the layers that learn, whose `params` are the weights."""
    return {
        "layer_params_states": [{"params": w, "states": [w**2]} for w in matrices(model)],
        "epoch_index": 2,
    }


def between(model: Model) -> Model:
    """Return the layout between: the old list, with the weights called W."""
    return {"layer_params_states": [{"params": {"W": w}, "states": []} for w in matrices(model)]}


def as_numpy1(content: bytes) -> bytes:
    """Return a pickle by numpy 2 as numpy 1 wrote it; the words after a protocol of 2 have no length."""
    return content.replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def write(path: Path, model: Model, protocol: int = 2) -> Path:
    path.write_bytes(as_numpy1(pickle.dumps(model, protocol)))
    return path


def qvalues(snapshot: Snapshot, states: NDArray[np.uint8]) -> NDArray[np.float32]:
    config = Config.from_flags(snapshot.flags)
    network = DeepQNetwork(
        snapshot.actions,
        config.memory.history_length,
        (config.environment.screen_height, config.environment.screen_width),
        config.network,
        BackendConfig(backend="cpu", threads=1),
        np.random.default_rng(0),
        spec=NETWORKS[config.network.network],
    )
    network.set_weights(snapshot.weights)
    return network.predict(states)


def expect_neons_values(snapshot: Snapshot) -> None:
    expected = np.load(DATA / "breakout_1_expected.npz")
    np.testing.assert_allclose(qvalues(snapshot, expected["states"]), expected["qvalues"], rtol=0, atol=1e-5)


def test_every_network_of_the_table_can_be_chosen() -> None:
    choices = NetworkConfig.__dataclass_fields__["network"].metadata["choices"]
    assert tuple(choices) == tuple(NETWORKS)
    assert NetworkConfig().network == "nature"


def test_neons_values_from_python_2() -> None:
    snapshot = Snapshot.load(PYTHON2)
    assert (snapshot.game, snapshot.epoch, snapshot.actions) == ("breakout", 1, 4)
    assert snapshot.total_train_steps == 250_000
    assert snapshot.flags["network"] == "neon"
    expect_neons_values(snapshot)


@pytest.mark.parametrize("layout", [new, old, between])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_neons_values_from_every_layout(
    tmp_path: Path, model: Model, layout: Callable[[Model], Model], protocol: int
) -> None:
    snapshot = Snapshot.load(write(tmp_path / "space_invaders_126.whatever", layout(model), protocol))
    assert (snapshot.game, snapshot.epoch) == ("space_invaders", 126)
    expect_neons_values(snapshot)


def test_converted_it_is_ours_and_predicts_the_same(tmp_path: Path, model: Model) -> None:
    source, target = tmp_path / "strange name.bin", tmp_path / "breakout_77.pkl"
    write(source, new(model))
    assert main.run(["snapshot", "convert", str(source), str(target)]) == 2
    assert not target.exists()
    assert main.run(["snapshot", "convert", str(source), str(target), "--game", "breakout"]) == 0
    assert target.read_bytes().startswith(b"PK")
    snapshot = Snapshot.load(target)
    assert (snapshot.game, snapshot.epoch) == ("breakout", 0)
    expect_neons_values(snapshot)
    before = target.read_bytes()
    assert main.run(["snapshot", "convert", str(PYTHON2), str(target)]) == 2
    assert target.read_bytes() == before


def test_show_says_what_is_in_it(tmp_path: Path, model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "space_invaders_my_run_126.pkl", model)
    assert main.run(["snapshot", "show", str(path)]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert (rows["game"], rows["epoch"], rows["--network"]) == ("space_invaders", "126", "neon")
    assert rows["hidden.dense1.weight"].startswith("512 x 3136,")


def test_it_is_tested_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--play_games", "1", "--max_game_frames", "400", "--backend", "cpu", "--threads", "1"]
    assert main.run(["test", str(PYTHON2), *arguments]) == 0
    assert "breakout: " in capsys.readouterr().out


def test_training_goes_on_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Model) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    path = write(tmp_path / "breakout_1.pkl", old(model))
    steps = ["--train_steps", "20", "--test_steps", "10", "--random_steps", "40", "--replay_size", "500"]
    assert main.run(["resume", str(path), *steps, "--epochs", "2", "--backend", "cpu", "--threads", "1"]) == 0
    went_on = Snapshot.load(tmp_path / "breakout_2.pkl")
    assert (went_on.epoch, went_on.total_train_steps, went_on.flags["network"]) == (2, 250_020, "neon")
    assert went_on.weights.keys() == Snapshot.load(path).weights.keys()


@pytest.mark.parametrize("name", ["weights.pkl", "breakout.pkl", "breakout_x.pkl"])
def test_a_name_without_game_and_epoch(tmp_path: Path, model: Model, name: str) -> None:
    with pytest.raises(UserError, match=r"rename it GAME_EPOCH\.pkl"):
        Snapshot.load(write(tmp_path / name, model))
    assert Snapshot.load(tmp_path / name, "breakout").game == "breakout"


def test_other_screens_are_found_where_the_file_tells_them(tmp_path: Path, model: Model) -> None:
    dense = model["model"]["config"]["layers"][6]["params"]
    dense["W"] = dense["W"][:, : 64 * 1 * 3]
    path = write(tmp_path / "breakout_1.pkl", model)
    with pytest.raises(UserError, match="192 inputs"):
        Snapshot.load(path)
    model["train_input_shape"] = (4, 36, 52)
    flags = Snapshot.load(write(path, model)).flags
    assert (flags["history_length"], flags["screen_height"], flags["screen_width"]) == (4, 36, 52)


def without_a_layer(model: Model) -> None:
    del model["model"]["config"]["layers"][4]


def with_biases(model: Model) -> None:
    model["model"]["config"]["layers"][0]["params"]["bias"] = np.zeros(32, np.float32)


def with_other_filters(model: Model) -> None:
    model["model"]["config"]["layers"][0]["params"]["W"] = np.zeros((257, 32), np.float32)


def with_other_units(model: Model) -> None:
    model["model"]["config"]["layers"][8]["params"]["W"] = np.zeros((4, 511), np.float32)


def with_integers(model: Model) -> None:
    model["model"]["config"]["layers"][8]["params"]["W"] = np.zeros((4, 512), np.int32)


def without_arrays(model: Model) -> None:
    model["model"]["config"]["layers"][8]["params"]["W"] = [0.0] * 512


def with_nan(model: Model) -> None:
    weights = model["model"]["config"]["layers"][2]["params"]["W"].copy()
    weights[5, 6] = np.nan
    model["model"]["config"]["layers"][2]["params"]["W"] = weights


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without_a_layer, "4 layers with weights, not 5"),
        (with_biases, "'bias' beside its weights"),
        (with_other_filters, r"convolution 1 has weights \(257, 32\)"),
        (with_other_units, r"\(4, 511\)"),
        (with_integers, "weights int32"),
        (without_arrays, "is not of simple_dqn's network"),
        (with_nan, "hidden.conv2.weight' hold NaN"),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_other_networks_are_refused(
    tmp_path: Path, model: Model, change: Callable[[Model], None], words: str
) -> None:
    change(model)
    with pytest.raises(UserError, match=words) as refusal:
        Snapshot.load(write(tmp_path / "breakout_1.pkl", model))
    assert "\n" not in str(refusal.value)
