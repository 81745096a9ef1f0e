"""What predicts while the weights stand still: each engine against PyTorch, and the words of refusal."""

import builtins
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import sliding_window_view

from simple_dqn.config import BackendConfig, NetworkConfig
from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.backend import PRECISIONS, Placement, place
from simple_dqn.deepqnetwork.engines import BOUNDS, ENGINES, require_equal
from simple_dqn.deepqnetwork.networks import (
    NATURE,
    NETWORKS,
    Convolution,
    Dense,
    NetworkSpec,
    ResidualSection,
)
from simple_dqn.errors import UserError
from simple_dqn.types import Minibatch, QValues, States

MakeNetwork = Callable[..., DeepQNetwork]
MakeMinibatch = Callable[..., Minibatch]

STATE_SHAPE = (3, 20, 17)
BATCHES = (1, 3)
LAYERS = {
    "convolutions": NetworkSpec(
        (Convolution(6, 5, 3), Convolution(7, 3, 1), Dense(19)), NATURE.biases, NATURE.initializer
    ),
    "without biases": NetworkSpec(
        (Convolution(6, 5, 3), Dense(19)), NETWORKS["neon"].biases, NETWORKS["neon"].initializer
    ),
    "residual sections": NetworkSpec(
        (ResidualSection(4), ResidualSection(6), Dense(19)), NATURE.biases, NATURE.initializer
    ),
}
NORMS: list[dict[str, Any]] = [{}, {"layer_norm": True}, {"batch_norm": True}]
OUTPUTS: list[dict[str, Any]] = [
    {},
    {"dueling": True, "noisy": True},
    {"distributional": "c51", "atoms": 7, "noisy": True},
    {"distributional": "quantile", "quantiles": 5, "dueling": True},
]


@pytest.fixture(scope="module")
def openvino() -> str:
    pytest.importorskip("openvino")
    return "openvino"


def assert_close(ours: QValues, theirs: QValues, datatype: str, reach: float = 0.0) -> None:
    """See that two predictions are equal within the bound, and choose the same but of two near alike."""
    assert ours.dtype == theirs.dtype == np.float32
    off = np.abs(ours - theirs).max()
    assert off <= BOUNDS[PRECISIONS[datatype].hidden] * (np.abs(theirs).max() + 0.01 * reach)
    chosen = np.take_along_axis(theirs, ours.argmax(1)[:, np.newaxis], 1).squeeze(1)
    assert (theirs.max(1) - chosen <= 2 * off).all()


@pytest.mark.parametrize("datatype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_openvino_predicts_what_pytorch_does(
    layers: str,
    norm: dict[str, Any],
    datatype: str,
    openvino: str,
    make_network: MakeNetwork,
    make_minibatch: MakeMinibatch,
) -> None:
    """After updates, as what is fresh is too regular: batch normalisation has the identity to begin with."""
    for number, outputs in enumerate(OUTPUTS):
        settings = {**norm, **outputs, "learning_rate": 0.01, "datatype": datatype, "spec": LAYERS[layers]}
        plain, compiled = (make_network(number, engine=engine, **settings) for engine in ("torch", openvino))
        for network in (plain, compiled):
            for seed in range(3):
                network.train(make_minibatch(seed))
            network.update_target_network()
        for batch in BATCHES:
            states = make_minibatch(batch, size=batch).prestates
            np.testing.assert_array_equal(compiled.predict(states), plain.predict(states))
            for predict in ("predict_to_play", "predict_target"):
                ours, theirs = (getattr(network, predict)(states) for network in (compiled, plain))
                assert_close(
                    ours, theirs, datatype, reach=10.0 if outputs.get("distributional") == "c51" else 0
                )


@pytest.mark.parametrize("network", ["nature", "small"])
def test_many_states_of_full_size(network: str, openvino: str) -> None:
    states = np.random.default_rng(0).integers(0, 256, (256, 4, 64, 64), dtype=np.uint8)
    settings = NetworkConfig(network=network, layer_norm=network == "small")
    plain, compiled = (
        DeepQNetwork(
            6, 4, (64, 64), settings, BackendConfig("cpu", 0, "bfloat16", 1, engine),
            np.random.default_rng(0), spec=NETWORKS[network],
        )
        for engine in ("torch", openvino)
    )  # fmt: skip
    assert_close(compiled.predict_to_play(states), plain.predict_to_play(states), "bfloat16")


@pytest.mark.parametrize("datatype", ["float32", "bfloat16"])
def test_changed_weights_are_seen(
    datatype: str, openvino: str, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = make_network(engine=openvino, datatype=datatype, learning_rate=0.1)
    other = make_network(1, datatype=datatype)
    states = make_minibatch(9).prestates

    def see(target: bool) -> QValues:
        assert_close(network.predict_to_play(states), network.predict(states), datatype)
        return network.predict_target(states) if target else network.predict_to_play(states)

    def changes(change: Callable[[], object], target: bool) -> bool:
        before = see(target)
        change()
        return bool((see(target) != before).any())

    assert changes(lambda: network.train(make_minibatch(0)), target=False)
    assert not changes(lambda: network.train(make_minibatch(1)), target=True)
    assert changes(network.update_target_network, target=True)
    assert_close(network.predict_target(states), network.predict(states), datatype)
    assert changes(lambda: network.set_weights(other.get_weights()), target=False)
    other.train(make_minibatch(2))
    assert changes(lambda: network.set_state(other.get_state()), target=True)
    np.testing.assert_array_equal(network.predict(states), other.predict(states))
    assert_close(network.predict_target(states), other.predict_target(states), datatype)


def test_the_same_weights_give_the_same_bits_however_often_they_were_asked(
    openvino: str, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    once, often = (make_network(engine=openvino, noisy=True) for _ in range(2))
    batches = [make_minibatch(seed, size=size).prestates for seed, size in enumerate((8, 1, 3, 8))]
    for network in (once, often):
        network.train(make_minibatch(0))
    kept = [often.predict_to_play(states) for states in batches]
    for states, first in zip(batches, kept, strict=True):
        np.testing.assert_array_equal(often.predict_to_play(states), first)
    np.testing.assert_array_equal(once.predict_to_play(batches[-1]), kept[-1])


@pytest.mark.filterwarnings("error")
def test_states_may_be_strided_and_read_only_and_q_values_are_the_callers(
    openvino: str, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = make_network(engine=openvino)
    screens = make_minibatch(0, size=3).prestates.reshape(9, 20, 17)
    windows: States = np.moveaxis(sliding_window_view(screens, 3, axis=0), -1, 1)
    for view in (windows, windows[::2], windows[::-1], windows[:, ::-1]):
        np.testing.assert_array_equal(network.predict_to_play(view), network.predict_to_play(view.copy()))
    contiguous = windows.copy()
    contiguous.flags.writeable = False
    first = network.predict_to_play(contiguous)
    kept = first.copy()
    network.predict_to_play(windows[::-1])
    np.testing.assert_array_equal(first, kept)
    first[:] = 0
    np.testing.assert_array_equal(network.predict_to_play(windows), kept)


def test_predicting_in_a_thread_and_learning_do_not_touch_each_other(
    openvino: str, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    alone, watched = (make_network(engine=openvino, datatype="bfloat16") for _ in range(2))
    states = make_minibatch(99).prestates
    expected = alone.predict_target(states)
    losses = [alone.train(make_minibatch(seed)) for seed in range(50)]
    predictions: list[QValues] = []
    begun, done = threading.Event(), threading.Event()

    def predict() -> None:
        DeepQNetwork.use_one_thread()
        while not done.is_set():
            predictions.append(watched.predict_target(states))
            begun.set()

    thread = threading.Thread(target=predict)
    thread.start()
    begun.wait(60)
    try:
        assert [watched.train(make_minibatch(seed)) for seed in range(50)] == losses
    finally:
        done.set()
        thread.join()
    assert len(predictions) > 1
    for qvalues in predictions:
        np.testing.assert_array_equal(qvalues, expected)


class Wrong:
    """An engine that is right for one state, as OpenVINO's GroupNormalization was."""

    def __init__(self, right: Callable[[States], QValues]) -> None:
        self._right = right

    def predict(self, states: States, noise: object = None) -> QValues:
        return self._right(states) * (1 if len(states) == 1 else 1.5)

    def weights_changed(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("datatype", ["float32", "bfloat16"])
def test_an_engine_that_is_wrong_is_refused(datatype: str, make_network: MakeNetwork) -> None:
    network = make_network(datatype=datatype)
    with pytest.raises(UserError, match="something else than PyTorch") as error:
        require_equal(
            Wrong(network.predict), network._online, place(torch.device("cpu"), datatype), STATE_SHAPE
        )
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("device", "datatype", "words"),
    [
        ("cuda", "float32", ["on the GPU", "--backend cpu"]),
        ("cpu", "float64", ["float32 and bfloat16", "--datatype"]),
        ("cpu", "float16", ["float32 and bfloat16", "--datatype"]),
    ],
)
def test_what_openvino_cannot_do_is_refused(
    device: str, datatype: str, words: list[str], make_network: MakeNetwork
) -> None:
    where: Placement = place(torch.device(device), datatype)
    with pytest.raises(UserError) as error:
        ENGINES["openvino"](make_network()._online, where, STATE_SHAPE, 1)
    assert all(word in str(error.value) for word in [*words, "leave"])
    assert "\n" not in str(error.value)


def test_without_openvino_a_line_says_how_to_get_it(
    make_network: MakeNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = builtins.__import__

    def without(name: str, *others: Any) -> Any:
        if name.split(".")[-1] in ("openvino", "openvino_engine"):
            raise ModuleNotFoundError(name, name=name)
        return find(name, *others)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"\.venv/bin/python -m pip install openvino") as error:
        make_network(engine="openvino")
    assert ".venv/bin/python -m pip install openvino" in str(error.value)
    assert "\n" not in str(error.value)
