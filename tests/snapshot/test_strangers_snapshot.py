"""Snapshots in our own format that somebody made to do harm, with sums that fit."""

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.snapshot import Snapshot, archive

Members = dict[str, bytes]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a sound snapshot."""
    path = tmp_path / "pong_1.pkl"
    weights = {"a": np.arange(6, dtype=np.float32), "b.running_var": np.ones(3, np.float32)}
    Snapshot("pong", 1, 6, 10, Config().shared_flags(), weights).save(path)
    Snapshot.load(path)
    return path


def remake(path: Path, change: Callable[[Members], None], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as raised:
        Snapshot.load(path)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400
    return str(raised.value)


def say(path: Path, **words: Any) -> None:
    """Say something else in `tree.json`."""

    def reword(members: Members) -> None:
        members["tree.json"] = json.dumps({**json.loads(members["tree.json"]), **words}).encode()

    remake(path, reword)


def npy(shape: str, kind: str = "<f4") -> bytes:
    """Return the header of an array, whatever its shape."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize(
    ("shape", "kind", "words"),
    [
        ("(7,)", "<f4", "does not match its size"),
        ("(5,)", "<f4", "does not match its size"),
        ("(6,)", "<f8", "does not match its size"),
        ("(1099511627776,)", "<f4", "does not match its size"),
        (f"({2**64}, {2**64})", "<f4", "does not match its size"),
        ("(-6,)", "<f4", "plain numbers"),
        ("(-2, -3)", "<f4", "plain numbers"),
        ("(3,)", "|O", "plain numbers"),
        ("(6,)", "|S4", "plain numbers"),
        ("(6,)", "f4,f4", "plain numbers"),
        ("(" * 300 + ")" * 300, "<f4", "plain numbers"),
        ("-" * 900 + "1", "<f4", "plain numbers"),
        ("(6,)" + " " * 2000, "<f4", "plain numbers"),
        ("(6,), 'x': __import__('os')", "<f4", "plain numbers"),
        ("(6,)", "<i4", "not floats"),
    ],
)
def test_what_an_array_says_of_its_shape(path: Path, shape: str, kind: str, words: str) -> None:
    def reshape(members: Members) -> None:
        members["weights/a.npy"] = npy(shape, kind) + members["weights/a.npy"][-24:]

    remake(path, reshape)
    assert words in refusal(path)


def test_the_shape_that_fits_is_read(path: Path) -> None:
    def reshape(members: Members) -> None:
        members["weights/a.npy"] = npy("(2, 3)") + members["weights/a.npy"][-24:]

    remake(path, reshape)
    assert Snapshot.load(path).weights["a"].tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, -2e4])
@pytest.mark.parametrize("datatype", ["<f4", "<f8", "<f2"])
def test_weights_that_no_network_can_have(path: Path, value: float, datatype: str) -> None:
    weights = np.full(5, 0.5, np.float64)
    with np.errstate(over="ignore"):
        spoilt = np.append(weights, value).astype(datatype)
    Snapshot("pong", 1, 6, 10, {}, {"a": spoilt}).save(path)
    assert "NaN, infinity or values too large" in refusal(path)
    Snapshot("pong", 1, 6, 10, {}, {"a": weights.astype(datatype)}).save(path)
    assert Snapshot.load(path).weights["a"].dtype == np.float32


def test_a_variance_below_zero_has_no_root(path: Path) -> None:
    Snapshot("pong", 1, 6, 10, {}, {"x.running_var": np.array([2e5, -1e-3], np.float32)}).save(path)
    assert "running_var" in refusal(path)
    Snapshot("pong", 1, 6, 10, {}, {"x.running_var": np.array([2e5, 0], np.float32)}).save(path)
    Snapshot.load(path)


@pytest.mark.parametrize(
    "words",
    [
        {"game": "../../etc/passwd"},
        {"game": "/roms/pong.rom"},
        {"game": "this:Game-v0"},
        {"game": ""},
        {"game": "x" * 300},
        {"game": 3},
        {"epoch": -1},
        {"epoch": 1.5},
        {"epoch": True},
        {"actions": 0},
        {"actions": 10**30},
        {"total_train_steps": "many"},
        {"flags": 7},
        {"flags": {"frame_skip": 0}},
        {"flags": {"frame_skip": 10**400}},
        {"flags": {"frame_skip": "four"}},
        {"flags": {"frame_skip": None}},
        {"flags": {"screen_width": 10**9}},
        {"flags": {"discount_rate": float("nan")}},
        {"flags": {"network": "huge"}},
        {"flags": {"environment": "x" * 10_000}},
        {"flags": {"frame_skip": [[[4]]]}},
        {"flags": {"backend": "cpu\nERROR all is lost"}},
        {"weights": 3},
        {"weights": {"a": 3.5}},
        {"weights": {"a": {"$array": "tree.json"}}},
        {"weights": {"a": {"$array": "../../a.npy"}}},
        {"weights": {"a": {"$array": ["a"]}}},
        {"weights": {"a": {"$array": "weights/a.npy"}, "b": {"$array": "weights/a.npy"}}},
        {"weights": {}},
    ],
    ids=lambda words: json.dumps(words)[:40],
)
def test_words_that_no_run_writes(path: Path, words: dict[str, Any]) -> None:
    say(path, **words)
    refusal(path)


def test_settings_that_name_places_are_left_out(path: Path) -> None:
    flags = {"csv_file": "/etc/passwd", "replay_file": "/x", "save_weights_prefix": "/y", "frame_skip": 3}
    say(path, flags={**flags, "game": "other", "from_a_later_version": 1, "synchronize": None})
    assert Snapshot.load(path).flags == {"frame_skip": 3, "synchronize": None}


def test_all_settings_of_a_run_come_back(path: Path) -> None:
    given = {
        "concurrent": True,
        "synchronize": False,
        "random_seed": 2**32,
        "learning_rate": 1e-5,
        "log_level": "DEBUG",
    }
    flags = Config.from_flags(given).shared_flags()
    Snapshot("pong", 1, 6, 10, flags, {}).save(path)
    assert Snapshot.load(path).flags == flags


def nest(members: Members) -> None:
    members["tree.json"] = b'{"a":' * 100_000 + b"1" + b"}" * 100_000


def lengthen(members: Members) -> None:
    members["tree.json"] = members["tree.json"] + b" " * (1 << 20)


def say_nothing(members: Members) -> None:
    del members["tree.json"]


def say_a_list(members: Members) -> None:
    members.clear()
    members["tree.json"] = b"[]"


def add_a_stranger(members: Members) -> None:
    members["../../.bashrc"] = b"echo"


def lose_an_array(members: Members) -> None:
    del members["weights/a.npy"]


def crowd(members: Members) -> None:
    members.update({f"weights/{number}.npy": b"" for number in range(3000)})


def crowd_beyond_the_old_format(members: Members) -> None:
    members.update({f"{number}": b"" for number in range(66_000)})


CHANGES = [
    (nest, "damaged"),
    (lengthen, "too large"),
    (say_nothing, "no settings"),
    (say_a_list, "no settings"),
    (add_a_stranger, "nothing names its member '../../.bashrc'"),
    (lose_an_array, "damaged"),
    (crowd, "list of members"),
    (crowd_beyond_the_old_format, "list of members"),
]


@pytest.mark.parametrize(("change", "words"), CHANGES, ids=lambda part: getattr(part, "__name__", ""))
def test_members_that_no_run_writes(path: Path, change: Callable[[Members], None], words: str) -> None:
    remake(path, change)
    assert words in refusal(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_members_could_unfold_without_end(path: Path, method: int) -> None:
    remake(path, lambda members: None, method)
    assert "is compressed" in refusal(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("weights/a.npy", npy("(1,)") + b"1234")
    assert "same name" in refusal(path)


def test_a_comment_could_hide_a_longer_list(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as file:
        file.comment = b"words"
    assert "list of members" in refusal(path)


def test_a_file_larger_than_any_snapshot_is_not_read(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as file, file.open("weights/z.npy", "w") as member:
        for _ in range(129):
            member.write(bytes(1 << 20))
    assert "too large" in refusal(path)


def test_a_checkpoint_has_no_such_limits(tmp_path: Path) -> None:
    state = {f"member {number}": np.zeros(1, np.uint8) for number in range(1500)}
    archive.write(tmp_path / "a", state)
    assert archive.read(tmp_path / "a").keys() == state.keys()
    with pytest.raises(UserError, match="list of members"):
        archive.read(tmp_path / "a", archive.Limits(members=1 << 30, tree=1 << 30, directory=64 << 10))


def test_what_is_no_file(tmp_path: Path) -> None:
    assert "is not a file" in refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "is not a file" in refusal(tmp_path / "pipe")
    assert "does not exist" in refusal(tmp_path / "missing")


def test_the_content_tells_not_the_extension(path: Path) -> None:
    other = path.rename(path.with_name("pong_1.txt"))
    assert Snapshot.load(other).game == "pong"
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    other.write_bytes(buffer.getvalue())
    assert "is not a snapshot" in refusal(other)
