"""Snapshots, ours and simple_dqn's: written files can be read, and malicious ones are refused.

`data/breakout_1.pkl` is Neon 2.6's own file without the optimizer's memory, its words as Python 2 wrote them;
`data/breakout_1_expected.npz` holds four states and the Q-values that Neon computed for them.
"""

import builtins
import io
import json
import os
import pickle
import struct
import subprocess
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from simple_dqn import main
from simple_dqn.config import BackendConfig, Config
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.errors import UserError
from simple_dqn.files import replacing
from simple_dqn.networks import NETWORKS
from simple_dqn.snapshot import MALFORMED, MOST_BYTES, Snapshot, read_archive, write_archive
from simple_dqn.snapshot.neon import unpickle
from tests.command_line import NEON, PROJECT, Capsys, Logs, Patch, Told, python

Members = dict[str, bytes]


def read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return read_archive(file)


def test_a_checkpoint_may_have_many_members(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)  # a zip has no dates before 1980
    kinds = ("u1", "<f4", ">f8", "?")  # headers of all lengths
    state = {str(number): np.zeros((1,) * (number % 33), kinds[number % 4]) for number in range(1500)}
    write_archive(tmp_path / "a", state)
    assert same(read(tmp_path / "a"), state)
    with (tmp_path / "a").open("rb") as file, pytest.raises(ValueError, match="list of members"):
        read_archive(file, small=True)


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.pkl"
    write_archive(path, {"x": np.arange(3)})
    with suppress(RuntimeError), replacing(path, follow=False) as beside:
        beside.write_text("half")
        raise RuntimeError
    assert read(path)["x"].tolist() == [0, 1, 2]
    with pytest.raises(UserError, match="cannot write"):
        write_archive(path / "b.pkl", {})
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.pkl"]


def test_every_cut_and_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    path, state = tmp_path / "a.pkl", {"weights": {"a": np.arange(6, dtype=np.float32)}, "epoch": 3}
    write_archive(path, state)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises((OSError, *MALFORMED)):
            read(path)
        path.write_bytes(content[:length] + bytes([content[length] ^ 0x10]) + content[length + 1 :])
        found = state  # of a byte that carries nothing, such as a date
        with suppress(OSError, *MALFORMED):
            found = read(path)
        assert same(found, state), length


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "pong_1.pkl"
    weights = {"a": np.arange(6, dtype=np.float32), "b.running_var": np.ones(3, np.float32)}
    Snapshot("pong", 1, 6, 10, Config().shared_flags(), weights).save(path)
    Snapshot.load(path)
    return path


def remake(path: Path, change: Callable[[Members], object], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)


def refused(path: Path, content: bytes | None = None) -> str:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError) as raised:
        Snapshot.load(path)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 400
    return str(raised.value)


def npy(shape: str, kind: str = "<f4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


HEADERS = [
    ("(7,)", "<f4"), ("(5,)", "<f4"), ("(6,)", "<f8"), ("(6,)", "<i4"), ("(6,)", "<f3"),
    ("(1099511627776,)", "<f4"), (f"({2**64}, {2**64})", "<f4"), ("(0, 1099511627776)", "<f4"),
    ("(-6,)", "<f4"), ("(-2, -3)", "<f4"), ("(3,)", "|O"), ("(6,)", "|S4"), ("(6,)", "f4,f4"),
    ("(" * 300 + ")" * 300, "<f4"), ("-" * 900 + "1", "<f4"), ("(6,)" + " " * 2000, "<f4"),
    ("(" + "1," * 65 + "6)", "<f4"), ("(6,), 'x': __import__('os')", "<f4"),
]  # fmt: skip


def member(name: str, content: bytes) -> Callable[[Members], object]:
    return lambda members: members.update({name: content})


def reworded(words: dict[str, Any]) -> Callable[[Members], object]:
    def reword(members: Members) -> None:
        members["tree.json"] = json.dumps({**json.loads(members["tree.json"]), **words}).encode()

    return reword


WORDS: list[dict[str, Any]] = [
    *({"game": game} for game in ("../../etc/passwd", "/roms/pong.rom", "this:Game-v0", "", "x" * 300)),
    {"game": 3}, *({"epoch": value} for value in (-1, 1.5, True, "x")), {"actions": 0},
    {"actions": 10**30}, {"total_train_steps": "many"}, {"format": "another"}, {"format": {"a": 1}},
    {"flags": 7},
    *({"flags": {"frame_skip": value}} for value in (0, 10**400, "four", None, [[[4]]])),
    {"flags": {"screen_width": 10**9}}, {"flags": {"discount_rate": float("nan")}},
    {"flags": {"learning_rate": 10**40}}, {"flags": {"optimizer": "huge"}},
    {"flags": {"environment": "x" * 10_000}}, {"flags": {"backend": "cpu\nERROR all is lost"}},
    {"weights": 3}, {"weights": {"a": 3.5}}, {"weights": {}},
    *({"weights": {"a": {"$array": name}}} for name in ("tree.json", "../../a.npy", ["a"])),
    {"weights": {"a": {"$array": "weights/a.npy"}, "b": {"$array": "weights/a.npy"}}},
]  # fmt: skip
# Arrays that are not of their size or not of numbers, words and members that no run writes.
CHANGES: list[Callable[[Members], object]] = [
    *(member("weights/a.npy", npy(*array) + bytes(24)) for array in HEADERS), *map(reworded, WORDS),
    member("tree.json", b'{"a":' * 100_000 + b"1" + b"}" * 100_000), member("tree.json", b"{}"),
    member("tree.json", b"[]"), member("../../.bashrc", b"echo"),
    lambda members: members.update({"tree.json": members["tree.json"] + b" " * (1 << 20)}),
    lambda members: members.pop("tree.json"), lambda members: members.pop("weights/a.npy"),
    lambda members: members.update({f"weights/{n}.npy": b"" for n in range(3000)}),
    lambda members: members.update({f"{n}": b"" for n in range(66_000)}),  # which needs a larger format
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_no_run_writes_is_refused(path: Path, change: Callable[[Members], object]) -> None:
    remake(path, change)
    assert "cannot be used" in refused(path)


@pytest.mark.parametrize(("content", "reason"), [
    (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "it is nested too deeply"),
    (b'{"epoch": ' + b"9" * 10_000 + b"}", "a number in it is too long"),
])  # fmt: skip
def test_what_is_too_much_for_python_is_said_in_words(path: Path, content: bytes, reason: str) -> None:
    remake(path, member("tree.json", content))
    assert f"({reason}): " in refused(path)


@pytest.mark.parametrize("kind", ["<f4", "<f8", "<f2"])
def test_weights_are_finite_and_not_too_large(path: Path, kind: str) -> None:
    """A mean and a variance of batch normalization may be larger, and a variance has a root."""
    for name, value, sound in (
        *(("a", value, False) for value in (np.nan, np.inf, -np.inf, 1e30, -2e4)), ("a", 0.5, True),
        *(("x.running_var", value, False) for value in (-1e-3, np.inf)), ("x.running_var", 6e4, True),
        ("x.running_mean", np.inf, False), ("x.running_mean", -6e4, True),
    ):  # fmt: skip
        with np.errstate(over="ignore"):
            Snapshot("pong", 1, 6, 10, {}, {name: np.array([0.5, value]).astype(kind)}).save(path)
        if sound:
            assert Snapshot.load(path).weights[name].dtype == np.float32
        else:
            assert "cannot be used" in refused(path)


def test_settings_come_back_but_those_that_name_places(path: Path, caplog: Logs) -> None:
    given = {"concurrent": True, "synchronize": False, "random_seed": 2**32, "learning_rate": 1e-5}
    flags = Config.from_flags(given).shared_flags()
    Snapshot("pong", 1, 6, 10, flags, {}).save(path)
    assert Snapshot.load(path).flags == flags
    places = {"csv_file": "/etc/passwd", "replay_file": "/x", "display_screen": True, "device_id": 3}
    gone = {"slip_probability": 0.05, "demonstrations": ""}  # the second was not used
    others = {"game": "other", "from_a_later_version": 1, "\x1b[2J\n": 1, **gone}
    Snapshot("pong", 1, 6, 10, {**places, **others, "frame_skip": 3, "synchronize": None}, {}).save(path)
    assert Snapshot.load(path).flags == {"frame_skip": 3, "synchronize": None}
    assert r"does not have: \x1b[2J\n, from_a_later_version, replay_file, slip_prob" in caplog.messages[0]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_files_that_unfold_hide_or_hold_objects(path: Path, monkeypatch: Patch) -> None:
    whole = path.read_bytes()
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        remake(path, lambda members: None, method)
        assert "compressed" in refused(path)
        path.write_bytes(whole)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("weights/a.npy", npy("(1,)") + b"1234")
    assert "two of its members have one name" in refused(path)
    path.write_bytes(whole)
    with zipfile.ZipFile(path, "a") as file:
        file.comment = b"words"
    assert "cut off or damaged" in refused(path)
    path.write_bytes(whole)
    os.truncate(path, MOST_BYTES + 1)
    assert "134,217,729 bytes" in refused(path)
    path.write_bytes(whole)
    monkeypatch.chdir(path.parent)
    content, bomb = io.BytesIO(), Call(os.system, "touch exploded")
    np.lib.format.write_array(content, np.array([bomb], dtype=object))
    remake(path, member("weights/a.npy", content.getvalue()))
    assert "plain numbers" in refused(path)
    assert not Path("exploded").exists()


def test_the_content_of_a_file_tells_whether_it_is_a_snapshot(path: Path) -> None:
    folder = path.parent
    assert "is a folder" in refused(folder)
    other = path.rename(folder / "pong_1.txt")  # not the extension
    assert Snapshot.load(other).game == "pong"
    np.save(folder / "a.npy", np.zeros(3))
    assert "not a snapshot" in refused(folder / "a.npy")


@pytest.mark.nightly
def test_spoilt_snapshots_are_refused_or_sound() -> None:
    done = python("tests/soak/fuzz_snapshots.py", "--count", "40", "--seed", "1", cwd=PROJECT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(words in done.stdout for words in ("40 snapshots, 0 failures", "refused", "sound"))


Model = dict[str, Any]


@pytest.fixture
def model() -> Model:
    loaded: Model = pickle.loads(NEON.read_bytes(), encoding="latin1")
    return loaded


def matrices(model: Model) -> list[NDArray[np.float32]]:
    return [layer["params"]["W"] for layer in model["model"]["config"]["layers"] if "params" in layer]


def new(model: Model) -> Model:
    for layer in model["model"]["config"]["layers"]:
        if "params" in layer:
            layer["states"] = [layer["params"]["W"] ** 2]
    return model


def old(model: Model) -> Model:
    """Return the layout of Neon 1.1: a list of the layers that learn, whose `params` are the weights."""
    layers = [{"params": w, "states": [w**2]} for w in matrices(model)]
    return {"layer_params_states": layers, "epoch_index": 2}


def write(path: Path, model: Model, protocol: int = 2) -> Path:
    """Write `model` as numpy 1 did; the words after a protocol of 2 have their length before them."""
    pickled = pickle.dumps(model, protocol)
    path.write_bytes(pickled.replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n"))
    return path


def expect_neons_values(snapshot: Snapshot) -> None:
    config, expected = Config.from_flags(snapshot.flags), np.load(NEON.with_name("breakout_1_expected.npz"))
    screen = (config.environment.screen_height, config.environment.screen_width)
    network = DeepQNetwork(
        snapshot.actions, config.memory.history_length, screen, config.network,
        BackendConfig(backend="cpu", threads=1), np.random.default_rng(0),
        spec=NETWORKS[config.network.network],
    )  # fmt: skip
    network.set_weights(snapshot.weights)
    np.testing.assert_allclose(network.predict(expected["states"]), expected["qvalues"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("layout", "protocol"), [
    (None, 2), (new, 2), (old, 3),
    (lambda m: {"layer_params_states": [{"params": {"W": w}, "states": []} for w in matrices(m)]}, 4),
])  # fmt: skip
def test_neons_values_from_every_layout(
    tmp_path: Path, model: Model, layout: Callable[[Model], Model] | None, protocol: int
) -> None:
    path = tmp_path / "space_invaders_126.whatever"
    snapshot = Snapshot.load(write(path, layout(model), protocol) if layout else NEON)
    named = (snapshot.game, snapshot.epoch, snapshot.total_train_steps, snapshot.actions)
    assert named == (("space_invaders", 126, 126 * 250_000, 4) if layout else ("breakout", 1, 250_000, 4))
    expect_neons_values(snapshot)


def test_show_and_convert(tmp_path: Path, model: Model, capsys: Capsys, told: Told) -> None:
    source, target = write(tmp_path / "strange name.bin", new(model)), tmp_path / "breakout_77.pkl"
    convert = ["snapshot", "convert", str(source), str(target)]
    assert "rename it GAME_EPOCH.pkl" in told(*convert, code=2)
    assert not target.exists()
    told(*convert, "--game", "Breakout")
    before = target.read_bytes()
    assert before.startswith(b"PK")
    assert (Snapshot.load(target).game, Snapshot.load(target).epoch) == ("breakout", 0)
    expect_neons_values(Snapshot.load(target))
    told("snapshot", "convert", str(NEON), str(target), code=2)
    assert target.read_bytes() == before
    assert main.run(["snapshot", "show", str(target)]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert (rows["game"], rows["--network"]) == ("breakout", "neon")
    assert rows["hidden.dense1.weight"].startswith("512 x 3136,")
    told("snapshot", "convert", str(target), str(tmp_path / "half.pkl"), "--float16")
    assert (tmp_path / "half.pkl").stat().st_size < 0.51 * len(before)
    for name, values in Snapshot.load(target).weights.items():
        np.testing.assert_allclose(Snapshot.load(tmp_path / "half.pkl").weights[name], values, 1e-3, 1e-7)


def test_it_is_tested_and_trained_further(home: Path, model: Model) -> None:
    path = write(home / "breakout_1.pkl", old(model))
    cpu = ["--backend", "cpu", "--threads", "1"]
    assert main.run(["test", str(path), "--play_games", "1", "--max_game_frames", "80", *cpu]) == 0
    steps = ["--train_steps", "20", "--test_steps", "10", "--random_steps", "40", "--replay_size", "500"]
    assert main.run(["resume", str(path), *steps, "--epochs", "2", *cpu]) == 0
    later = Snapshot.load(home / "breakout_2.pkl")
    assert (later.epoch, later.total_train_steps, later.flags["network"]) == (2, 250_020, "neon")


@pytest.mark.parametrize(("layer", "params", "words"), [
    (0, {"W": np.zeros((257, 32), np.float32)}, "simple_dqn's network"),
    (0, {"W": np.zeros((256, 32), np.float32), "bias": np.zeros(32, np.float32)}, "'bias'"),
    (2, {"W": np.full((512, 64), np.nan, np.float32)}, "hidden.conv2.weight' hold NaN"),
    (4, None, "simple_dqn's network"), (6, {"W": np.zeros((512, 192), np.float32)}, "84 x 84"),
    (8, {"W": np.zeros((4, 512), np.int32)}, "int32"), (8, {"W": np.zeros(4, "f4,f4")}, "V8"),
    (8, {"W": np.array([None])}, "O8"), (8, {"W": [0.0] * 512}, "cannot be used"),
    (8, {}, "'W' is missing"),
])  # fmt: skip
def test_other_networks_are_refused(
    tmp_path: Path, model: Model, layer: int, params: dict[str, Any] | None, words: str
) -> None:
    model["model"]["config"]["layers"][layer]["params"] = params
    assert words in refused(write(tmp_path / "breakout_1.pkl", model))


ARRAYS = hnp.arrays(
    st.sampled_from(["<f4", ">f8", "<f2", "u1", "i8", "?"]),
    hnp.array_shapes(min_dims=0, max_dims=4, max_side=4),
)
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**300), 2**300) | st.text(max_size=300)
    | st.floats(allow_nan=False, allow_infinity=False) | ARRAYS | ARRAYS.map(np.asfortranarray)
)  # fmt: skip
KEYS = st.text(max_size=5) | st.integers()
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5),
)


def same(read: Any, written: Any) -> bool:
    """Return whether `read` equals the value written; an array may be the `values` of an object."""
    if isinstance(written, np.ndarray):
        array: Any = getattr(read, "values", read)
        equal = array.tobytes() == written.tobytes()
        return equal and (array.dtype, array.shape) == (written.dtype, written.shape)
    if isinstance(written, list):
        return type(read) is type(written) and len(read) == len(written) and all(map(same, read, written))
    if isinstance(written, dict):
        return list(read) == list(written) and all(same(read[key], written[key]) for key in written)
    return type(read) is type(written) and bool(read == written)


@given(tree=TREES, protocol=st.integers(2, 4))
@settings(max_examples=30)
def test_what_python_pickled_is_read(tree: Any, protocol: int) -> None:
    pickled = pickle.dumps([tree, np.arange(3)], protocol)
    older = pickled.replace(b"cnumpy._core.", b"cnumpy.core.")  # as numpy 1
    assert (older != pickled) == (protocol < 4)
    assert same(unpickle(pickled), [tree, np.arange(3)])
    assert same(unpickle(older), [tree, np.arange(3)])


NAMED = st.recursive(LEAVES, lambda inner: st.dictionaries(st.text("ab._ 0", min_size=1), inner, max_size=4))


@given(tree=st.dictionaries(st.sampled_from("abcd"), NAMED))
@settings(max_examples=50)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("archive") / "file.pkl"
    write_archive(path, tree)
    assert same(read(path), tree)


class Call:
    """Is pickled as the call of a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.function, self.arguments


CALLS = [
    (Call(os.system, "touch exploded"), "system"), (Call(builtins.eval, "open('exploded', 'w')"), "eval"),
    (Call(builtins.exec, "open('exploded', 'w')"), "exec"), (Call(builtins.open, "exploded", "w"), "open"),
    (Call(builtins.getattr, "", "join"), "getattr"), (Call(subprocess.Popen, ["touch", "exploded"]), "Popen"),
    (Call(np.load, "exploded"), "numpy.load"), (Call(np.save, "exploded.npy", 1), "numpy.save"),
    (Call(np.savetxt, "exploded", [1]), "savetxt"), (Call(np.memmap, "exploded", "u1", "w+", 0, 5), "memmap"),
    (Call(np.fromfile, "exploded"), "numpy.fromfile"), (Call(np.zeros, 2**40), "zeros"),
    (Call(pickle.loads, b"N."), "loads"), (np.array([Call(os.system, "touch exploded")]), "system"),
    (np.float64(3), "scalar"), (frozenset((1, 2)), "set"),
]  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(("value", "name"), CALLS, ids=lambda part: part if isinstance(part, str) else "")
def test_calls_are_refused(tmp_path: Path, monkeypatch: Patch, value: Any, name: str, protocol: int) -> None:
    monkeypatch.chdir(tmp_path)
    line = refused(tmp_path / "breakout_1.pkl", pickle.dumps({"model": value}, protocol))
    assert "no code was run" in line
    assert name.lower() in line.lower()
    assert [entry.name for entry in tmp_path.iterdir()] == ["breakout_1.pkl"]


NEW = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
FLOATS = b"cnumpy\ndtype\n(U\x02f4K\x00K\x01tR(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
BYTES = b"\x89U\x0812345678tb"
HOSTILE = [
    *(b"", b"N.", b"K\x01.", b".", b"hello\n", bytes(100)),  # no dict at all
    b"(S'touch exploded'\nios\nsystem\n.", b"\x82\x01.", b"Pwords\n.", b"cnumpy\nndarray\n)\x81.",
    b"(cnumpy\nndarray\no.", b"\x96\xff\xff\xff\x7f\0\0\0\0.", b"(S'x'\nI1\nd.", b"\x8f(K\x01\x90.",
    # States of objects that are no arrays, calls of objects that are no functions.
    b"cnumpy\nndarray\n}b.", b"c_codecs\nencode\n}b.", b"cnumpy\ndtype\n}b.", b"}}b.",
    b"c_codecs\nencode\nN}U\x0c__defaults__Ns\x86b.", b"\x8c\x02os\x8c\x06system\x93.",
    b"cnumpy\nndarray\n(K\x02tR.", b"K\x01K\x02\x93.", b"](K\x01tR.", b"c_codecs\nencode\n(K\x01K\x02tR.",
    # Bombs: a place in the memo, tuples in tuples, keys whose hash takes 2 to the 6,000 steps, sizes.
    b"r\xff\xff\xff\x7f0.", b"N" + b"r\xff\xff\xff\x7f" + b"}h\x00.", b")" + b"\x85" * 50_000 + b".",
    b"})" + b"\x85" * 15_000 + b"Ns.", b"})" + b"q\x00h\x00\x86" * 6_000 + b"Ns.", b"(" * 50_000 + b".",
    b"](" + b"N" * 50_000 + b"e.", b"\x8e" + b"\xff" * 7 + b"\x7f", b"T\xff\xff\xff\x7fabc",
    b"X\xff\xff\xff\xffabc", b"c" + b"a" * 1_000_000 + b"\nb\n.", b"\x8a\xff" + b"\x7f" * 255,
]  # fmt: skip


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_pickles_that_no_run_writes_are_refused_in_a_line(tmp_path: Path, content: bytes) -> None:
    assert "cannot be used" in refused(tmp_path / "breakout_1.pkl", b"\x80\x02" + content)


@pytest.mark.parametrize("state", [
    b"(K\x01(K\x02K\x02t" + FLOATS + BYTES,  # 2 x 2 floats of 8 bytes
    b"(K\x01(K\x01J\xfe\xff\xff\xfft" + FLOATS + BYTES,
    b"(K\x01(" + b"J\xff\xff\xff\x7f" * 4 + b"t" + FLOATS + BYTES,
    b"(K\x01(K\x00\x8a\x7f" + b"\x7f" * 127 + b"t" + FLOATS + b"\x89U\x00tb",
    b"(K\x01(K\x02tcnumpy\ndtype\n(U\x02f4K\x00K\x01tR" + BYTES,  # without the order of bytes
    b"(K\x01(K\x02t" + FLOATS.replace(b"f4", b"O8") + BYTES, b"(K\x01K\x02" + FLOATS + BYTES,
    b"(K\x01(K\x02t" + FLOATS + b"\x89](K\x01K\x02etb", b"}b", b"Nb",
])  # fmt: skip
def test_arrays_that_do_not_fit_their_bytes_are_refused(state: bytes) -> None:
    with pytest.raises(MALFORMED):
        print(unpickle(b"\x80\x02" + NEW + state + b".").values)
    sound = unpickle(b"\x80\x02" + NEW + b"(K\x01(K\x02t" + FLOATS + BYTES + b".")
    assert sound.values.tolist() == np.frombuffer(b"12345678", "<f4").tolist()
