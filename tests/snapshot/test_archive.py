import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from simple_dqn.errors import UserError
from simple_dqn.files import replacing
from simple_dqn.random_streams import stream
from simple_dqn.snapshot import archive

LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**130), 2**130) | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False)
    | hnp.arrays(st.sampled_from([np.uint8, np.float32, np.bool_, np.int64]), hnp.array_shapes(max_side=4))
)  # fmt: skip
TREES = st.recursive(LEAVES, lambda inner: st.dictionaries(st.text("ab._ 0", min_size=1), inner, max_size=4))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray):
        return (
            isinstance(b, np.ndarray)
            and a.dtype == b.dtype
            and np.array_equal(a, b, equal_nan=a.dtype == "f4")
        )
    return type(a) is type(b) and bool(a == b)


@given(tree=st.dictionaries(st.sampled_from("abcd"), TREES))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("archive") / "file.pkl"
    archive.write(path, tree)
    assert same(archive.read(path), tree)


def test_a_random_stream_goes_on(tmp_path: Path) -> None:
    rng = stream(3, "sampling")
    rng.random(5)
    archive.write(tmp_path / "a", {"rng": rng.bit_generator.state})
    other = stream(0, "another")
    other.bit_generator.state = archive.read(tmp_path / "a")["rng"]
    assert other.random(5).tolist() == rng.random(5).tolist()


def test_a_writer_that_dies_leaves_the_file_before(tmp_path: Path) -> None:
    path = tmp_path / "a.pkl"
    archive.write(path, {"x": np.arange(3)})
    with suppress(RuntimeError), replacing(path) as beside:
        beside.write_text("half")
        raise RuntimeError
    assert archive.read(path)["x"].tolist() == [0, 1, 2]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.pkl"]


def test_what_a_link_leads_to_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far" / "file")
    for text in ("one", "two"):
        with replacing(tmp_path / "link") as beside:
            beside.write_text(text)
        assert (tmp_path / "far" / "file").read_text() == text
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["far", "file", "link"]


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="a device or a pipe"), replacing(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()


def test_an_unwritable_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        archive.write(tmp_path / "file" / "a.pkl", {})


def test_every_cut_and_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    path, damaged = tmp_path / "a.pkl", tmp_path / "b.pkl"
    state = {"weights": {"a": np.arange(6, dtype=np.float32)}, "game": "pong", "epoch": 3}
    archive.write(path, state)
    content = path.read_bytes()
    for length in range(len(content)):
        damaged.write_bytes(content[:length])
        with pytest.raises(UserError, match=r"b\.pkl"):
            archive.read(damaged)
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 0x10
        damaged.write_bytes(bytes(flipped))
        try:
            read = archive.read(damaged)
        except UserError:
            continue
        assert same(read, state)  # a byte that carries nothing, such as a date


class Bomb:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch exploded",)


def test_pickled_objects_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.pkl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(archive.TREE, '{"x": {"$array": "x.npy"}}')
        with file.open("x.npy", "w") as member:
            np.lib.format.write_array(member, np.array([Bomb()], dtype=object))
    with pytest.raises(UserError):
        archive.read(path)
    assert not (tmp_path / "exploded").exists()


def test_a_missing_file_names_those_there_are(tmp_path: Path) -> None:
    archive.write(tmp_path / "pong_7.pkl", {})
    with pytest.raises(UserError, match=r"does not exist.*pong_7\.pkl"):
        archive.read(tmp_path / "pong_8.pkl")
