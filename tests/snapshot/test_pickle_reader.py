import builtins
import os
import pickle
import pickletools
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from simple_dqn.errors import UserError
from simple_dqn.snapshot import Snapshot
from simple_dqn.snapshot.neon_pickle import MALFORMED, RefusedError, unpickle

ARRAYS = hnp.arrays(
    st.sampled_from(["<f4", ">f8", "<f2", "u1", "i8", "?"]),
    hnp.array_shapes(min_dims=0, max_dims=4, max_side=4),
)
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**300), 2**300) | st.text(max_size=300)
    | st.floats(allow_nan=False) | ARRAYS | ARRAYS.map(np.asfortranarray)
)  # fmt: skip
KEYS = st.text(max_size=5) | st.integers()
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=5)
    ),
)


def same(read: Any, written: Any) -> bool:
    if isinstance(written, np.ndarray):
        values = read.values
        return values.dtype == written.dtype and np.array_equal(
            values, written, equal_nan=written.dtype.kind == "f"
        )
    if type(read) is not type(written) and type(written) is not dict:
        return False
    if isinstance(written, list | tuple):
        return len(read) == len(written) and all(map(same, read, written))
    if isinstance(written, dict):
        return list(read) == list(written) and all(same(read[key], written[key]) for key in written)
    return bool(read == written)


@given(tree=TREES, protocol=st.integers(0, 4))
def test_what_python_pickled_is_read(tree: Any, protocol: int) -> None:
    assert same(unpickle(pickle.dumps(tree, protocol)), tree)


@given(tree=TREES, protocol=st.integers(0, 4))
def test_what_numpy_1_pickled_is_read(tree: Any, protocol: int) -> None:
    pickled = pickle.dumps([tree, np.arange(3)], protocol)
    older = pickled.replace(b"cnumpy._core.", b"cnumpy.core.")
    assert (older != pickled) == (protocol < 4)
    assert same(unpickle(older), [tree, np.arange(3)])


def test_words_of_python_2_are_bytes() -> None:
    letters = bytes(range(256)).decode("latin1")
    # Python 2.7 wrote repr(bytes) by its protocols 0, and the bytes themselves by 1 and 2.
    escaped = b"S" + repr(bytes(range(256)))[1:].encode() + b"\np1\n."
    assert unpickle(escaped) == letters
    assert unpickle(b"\x80\x02T\x00\x01\x00\x00" + bytes(range(256)) + b"q\x01.") == letters
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\np0\n(cnumpy\nndarray\np1\n(I0\ntp2\nS'b'\np3\ntp4\nRp5\n"
        b"(I1\n(I2\nI1\ntp6\ncnumpy\ndtype\np7\n(S'f4'\np8\nI0\nI1\ntp9\nRp10\n(I3\nS'<'\np11\nNNNI-1\nI-1\nI0\n"
        b"tp12\nbI00\nS'\\x00\\x00\\x80?\\x00\\x00\\x00\\xc0'\np13\ntp14\nb."
    )
    assert unpickle(array).values.tolist() == [[1.0], [-2.0]]
    assert pickle.loads(array, encoding="latin1").tolist() == [[1.0], [-2.0]]


class Call:
    """Is pickled as the call of a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.function, self.arguments


CALLS = [
    (Call(os.system, "touch exploded"), "posix.system"),
    (Call(builtins.eval, "open('exploded', 'w')"), "eval"),
    (Call(builtins.exec, "open('exploded', 'w')"), "exec"),
    (Call(builtins.open, "exploded", "w"), "open"),
    (Call(builtins.getattr, "", "join"), "getattr"),
    (Call(subprocess.Popen, ["touch", "exploded"]), "Popen"),
    (Call(np.load, "exploded"), "numpy.load"),
    (Call(np.save, "exploded.npy", 1), "numpy.save"),
    (Call(np.savetxt, "exploded", [1]), "numpy.savetxt"),
    (Call(np.memmap, "exploded", "u1", "w+", 0, 5), "numpy.memmap"),
    (Call(np.fromfile, "exploded"), "numpy.fromfile"),
    (Call(np.zeros, 2**40), "zeros"),
    (Call(pickle.loads, b"N."), "loads"),
    (np.array([Call(os.system, "touch exploded")], dtype=object), ""),
    (np.float64(3), "scalar"),
    (frozenset((1, 2)), "set"),
    (np.zeros(2, "f4,f4"), "numpy.dtype V8"),
    (np.array(["a"]), "numpy.dtype U1"),
    (np.array([np.datetime64("2015-01-01")]), "numpy.dtype M8"),
]


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize(("value", "name"), CALLS, ids=lambda part: part if isinstance(part, str) else "")
def test_all_else_is_refused_by_its_name_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any, name: str, protocol: int
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "breakout_1.pkl"
    path.write_bytes(pickle.dumps({"model": value}, protocol))
    with pytest.raises(UserError, match="no code was run") as refusal:
        Snapshot.load(path)
    assert name.lower() in str(refusal.value).lower()
    assert "\n" not in str(refusal.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["breakout_1.pkl"]


def test_arrays_of_objects_are_refused_as_such() -> None:
    for protocol in (0, 2, 4):
        with pytest.raises(RefusedError, match=r"numpy\.dtype O8"):
            unpickle(pickle.dumps(np.array([None]), protocol))


RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
OBJECTS = "a set or another object"
INSTRUCTIONS = [
    (b"(S'touch exploded'\nios\nsystem\n.", OBJECTS),
    (b"\x82\x01.", OBJECTS),
    (b"Pwords\n.", OBJECTS),
    (b"cnumpy\nndarray\n)\x81.", OBJECTS),
    (b"(cnumpy\nndarray\no.", OBJECTS),
    (b"\x96\xff\xff\xff\x7f\0\0\0\0.", OBJECTS),
    (b"cnumpy\nndarray\n}b.", "state for something that is no array"),
    (b"c_codecs\nencode\n}b.", "state for something that is no array"),
    (b"c_codecs\nencode\n(S'x'\nS'rot13'\ntR.", "in another way than by latin1"),
    (RECONSTRUCT + b"(cnumpy\ndtype\nK\x00\x85U\x01btR.", "_reconstruct of something"),
    (RECONSTRUCT + b"(cnumpy\nndarray\nJ\xff\xff\xff\x7f\x85U\x01btR.", "_reconstruct of something"),
    (b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR.", "numpy.dtype O8"),
    (b"\x8c\x02os\x8c\x06system\x93.", "os.system"),
    (b"(S'x'\nI1\nd.", "a dict with items of its own"),
]


@pytest.mark.parametrize(("content", "name"), INSTRUCTIONS)
def test_instructions_that_no_array_needs_are_refused(content: bytes, name: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        unpickle(content)
    assert name in str(refusal.value)


@pytest.mark.parametrize("content", [b"cnumpy\nndarray\n(K\x02tR.", b"K\x01K\x02\x93.", b"](K\x01tR."])
def test_what_stands_for_numpy_is_called_as_numpy_pickles_it_or_not_at_all(content: bytes) -> None:
    with pytest.raises(MALFORMED):
        unpickle(content)


ARRAY = pickle.dumps(np.arange(6, dtype="<f4").reshape(2, 3), 2)
TYPE = b"cnumpy\ndtype\n(S'f4'\nI0\nI1\ntR"
PLAIN_TYPE = TYPE + b"(I3\nS'<'\nNNNI-1\nI-1\nI0\ntb"
EMPTY_ARRAY = RECONSTRUCT + b"(cnumpy\nndarray\nK\x00\x85U\x01btR"


@pytest.mark.parametrize(
    "state",
    [
        b"(I1\n(I2\nI2\nt" + PLAIN_TYPE + b"I00\nS'12345678'\ntb",
        b"(I1\n(I1\nI-2\nt" + PLAIN_TYPE + b"I00\nS'12345678'\ntb",
        b"(I1\n(I-1\nI-2\nt" + PLAIN_TYPE + b"I00\nS'12345678'\ntb",
        b"(I1\n(" + b"I2147483647\n" * 4 + b"t" + PLAIN_TYPE + b"I00\nS'12345678'\ntb",
        b"(I1\n(I0\nL" + b"9" * 4000 + b"L\nt" + PLAIN_TYPE + b"I00\nS''\ntb",
        b"(I1\n(I2\nt" + TYPE + b"I00\nS'12345678'\ntb",
        b"(I1\n(I2\nt" + PLAIN_TYPE + b"I00\n(lK\x01aK\x02atb",
        b"(I1\nI2\n" + PLAIN_TYPE + b"I00\nS'12345678'\ntb",
        b"(I1\n(I2\nt" + PLAIN_TYPE + b"I00\ntb",
        b"}b",
        b"Nb",
    ],
)
def test_arrays_that_do_not_fit_their_bytes_are_refused(state: bytes) -> None:
    with pytest.raises(MALFORMED):
        unpickle(EMPTY_ARRAY + state + b".")
    good = unpickle(EMPTY_ARRAY + b"(I1\n(I2\nt" + PLAIN_TYPE + b"I00\nS'12345678'\ntb.")
    assert good.values.shape == (2,)


@pytest.mark.parametrize(
    "state",
    [
        b"(I3\nS'<'\nN(S'x'\nt}S'x'\n(" + TYPE + b"I99\ntsI-1\nI-1\nI0\ntb",  # a field beyond the item's end
        b"(I3\nS'<'\n(" + TYPE + b"(I2\nttNNI-1\nI-1\nI0\ntb",
        b"(I3\nS'<'\nNNNI1000\nI1000\nI0\ntb",
        b"(I4\nS'<'\nNNNI-1\nI-1\nI0\n}tb",
        b"(I3\nS'?'\nNNNI-1\nI-1\nI0\ntb",
    ],
)
def test_datatypes_with_a_state_of_their_own_are_refused(state: bytes) -> None:
    unpickle(PLAIN_TYPE + b".")
    with pytest.raises(RefusedError, match="state of its own"):
        unpickle(TYPE + state + b".")


@pytest.mark.parametrize(
    "bomb",
    [
        b"r\xff\xff\xff\x7f0.",  # the last place of a memo of two thousand million
        b"N" + b"r\xff\xff\xff\x7f" + b"}h\x00.",
        b")" + b"\x85" * 50_000 + b".",  # tuples in tuples
        b"})" + b"\x85" * 15_000 + b"Ns.",  # the hash of these needs a stack frame for each
        b"})" + b"q\x00h\x00\x86" * 6_000 + b"Ns.",  # the hash of these needs 2 to the 6,000 steps
        b"(" * 50_000 + b".",
        b"](" + b"N" * 50_000 + b"e.",
        b"\x8e" + b"\xff" * 7 + b"\x7f",
        b"T\xff\xff\xff\x7fabc",
        b"X\xff\xff\xff\xffabc",
        b"I" + b"9" * 1_000_000 + b"\n.",
        b"L" + b"9" * 1_000_000 + b"L\n.",
        b"c" + b"a" * 1_000_000 + b"\nb\n.",
    ],
    ids=lambda bomb: repr(bomb[:8]),
)
def test_bombs_are_refused(tmp_path: Path, bomb: bytes) -> None:
    path = tmp_path / "breakout_1.pkl"
    path.write_bytes(b"\x80\x02" + bomb)
    with pytest.raises(UserError) as refusal:
        Snapshot.load(path)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    "content", [b"", b"\x80", b"\x80\x02", b"hello\n", b"N", b".", bytes(100), b"K\x01."]
)
def test_what_is_no_snapshot_is_refused_in_a_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "breakout_1.pkl"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"breakout_1\.pkl is") as refusal:
        Snapshot.load(path)
    assert "\n" not in str(refusal.value)


def test_every_cut_of_a_pickle_is_noticed() -> None:
    assert pickletools.optimize(ARRAY).endswith(b".")
    for length in range(len(ARRAY)):
        with pytest.raises(MALFORMED):
            unpickle(ARRAY[:length])


def test_a_pickle_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "breakout_1.pkl"
    with path.open("wb") as file:
        file.write(b"\x80\x02")
        file.truncate((64 << 20) + 1)
    with pytest.raises(UserError, match="larger than 64 MB"):
        Snapshot.load(path)
