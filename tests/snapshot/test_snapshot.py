"""Archives and snapshots: what is written is read, and what somebody made to do harm is refused in a line."""

import io
import json
import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.files import replacing
from simple_dqn.snapshot import MALFORMED, Snapshot
from simple_dqn.snapshot.snapshot import MOST_BYTES, read_archive, write_archive
from tests.snapshot.test_neon import LEAVES, Call, same

Members = dict[str, bytes]
TREES = st.recursive(LEAVES, lambda inner: st.dictionaries(st.text("ab._ 0", min_size=1), inner, max_size=4))


def read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return read_archive(file)


@given(tree=st.dictionaries(st.sampled_from("abcd"), TREES))
@settings(max_examples=50)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("archive") / "file.pkl"
    write_archive(path, tree)
    assert same(read(path), tree)


def test_a_checkpoint_may_have_many_members(tmp_path: Path) -> None:
    kinds = ("u1", "<f4", ">f8", "?")  # headers of all lengths
    state = {str(number): np.zeros((1,) * (number % 33), kinds[number % 4]) for number in range(1500)}
    write_archive(tmp_path / "a", state)
    assert same(read(tmp_path / "a"), state)
    with (tmp_path / "a").open("rb") as file, pytest.raises(ValueError, match="list of members"):
        read_archive(file, small=True)


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.pkl"
    write_archive(path, {"x": np.arange(3)})
    with suppress(RuntimeError), replacing(path) as beside:
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
        with suppress(OSError, *MALFORMED):
            assert same(read(path), state)  # a byte that carries nothing, such as a date


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a sound snapshot."""
    path = tmp_path / "pong_1.pkl"
    weights = {"a": np.arange(6, dtype=np.float32), "b.running_var": np.ones(3, np.float32)}
    Snapshot("pong", 1, 6, 10, Config().shared_flags(), weights).save(path)
    Snapshot.load(path)
    return path


def remake(path: Path, change: Callable[[Members], object], compression: int = zipfile.ZIP_STORED) -> None:
    """Change the members of a snapshot, whose sums then fit them."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as raised:
        Snapshot.load(path)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 400
    return str(raised.value)


def npy(shape: str, kind: str = "<f4") -> bytes:
    """Return the header of an array, whatever its shape."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


ARRAYS = [
    ("(7,)", "<f4"), ("(5,)", "<f4"), ("(6,)", "<f8"), ("(6,)", "<i4"), ("(6,)", "<f3"),
    ("(1099511627776,)", "<f4"), (f"({2**64}, {2**64})", "<f4"), ("(0, 1099511627776)", "<f4"),
    ("(-6,)", "<f4"), ("(-2, -3)", "<f4"), ("(3,)", "|O"), ("(6,)", "|S4"), ("(6,)", "f4,f4"),
    ("(" * 300 + ")" * 300, "<f4"), ("-" * 900 + "1", "<f4"), ("(6,)" + " " * 2000, "<f4"),
    ("(" + "1," * 65 + "6)", "<f4"), ("(6,), 'x': __import__('os')", "<f4"),
]  # fmt: skip


def member(name: str, content: bytes) -> Callable[[Members], object]:
    """Return a function that replaces a member of a snapshot, or adds it."""
    return lambda members: members.update({name: content})


def reworded(words: dict[str, Any]) -> Callable[[Members], object]:
    """Return a function that changes words of a snapshot's tree."""

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
    {"flags": {"learning_rate": 10**40}}, {"flags": {"network": "huge"}},
    {"flags": {"environment": "x" * 10_000}}, {"flags": {"backend": "cpu\nERROR all is lost"}},
    {"weights": 3}, {"weights": {"a": 3.5}}, {"weights": {}},
    *({"weights": {"a": {"$array": name}}} for name in ("tree.json", "../../a.npy", ["a"])),
    {"weights": {"a": {"$array": "weights/a.npy"}, "b": {"$array": "weights/a.npy"}}},
]  # fmt: skip
# Arrays that are not of their size or not of numbers, words and members that no run writes.
CHANGES: list[Callable[[Members], object]] = [
    *(member("weights/a.npy", npy(*array) + bytes(24)) for array in ARRAYS), *map(reworded, WORDS),
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
    assert "cannot be used" in refusal(path)


@pytest.mark.parametrize("kind", ["<f4", "<f8", "<f2"])
def test_weights_are_finite_and_not_too_large(path: Path, kind: str) -> None:
    """A variance of batch normalization has a root, and may be larger."""
    for name, value, sound in (
        *(("a", value, False) for value in (np.nan, np.inf, -np.inf, 1e30, -2e4)), ("a", 0.5, True),
        *(("x.running_var", value, False) for value in (-1e-3, np.inf)), ("x.running_var", 6e4, True),
    ):  # fmt: skip
        with np.errstate(over="ignore"):
            Snapshot("pong", 1, 6, 10, {}, {name: np.array([0.5, value]).astype(kind)}).save(path)
        if sound:
            assert Snapshot.load(path).weights[name].dtype == np.float32
        else:
            assert "cannot be used" in refusal(path)


def test_settings_come_back_but_those_that_name_places(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = {"concurrent": True, "synchronize": False, "random_seed": 2**32, "learning_rate": 1e-5}
    flags = Config.from_flags(given).shared_flags()
    Snapshot("pong", 1, 6, 10, flags, {}).save(path)
    assert Snapshot.load(path).flags == flags
    places = {"csv_file": "/etc/passwd", "replay_file": "/x", "save_weights_prefix": "/y"}
    gone = {"slip_probability": 0.05, "demonstrations": ""}  # the second was not used
    others = {"game": "other", "from_a_later_version": 1, **gone}
    Snapshot("pong", 1, 6, 10, {**places, **others, "frame_skip": 3, "synchronize": None}, {}).save(path)
    assert Snapshot.load(path).flags == {"frame_skip": 3, "synchronize": None}
    assert "does not have: from_a_later_version, replay_file, slip_probability" in caplog.text


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_files_that_unfold_or_hide_members(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        remake(path, lambda members: None, method)
        assert "compressed" in refusal(path)
        path.write_bytes(whole)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("weights/a.npy", npy("(1,)") + b"1234")
    assert "two of its members have one name" in refusal(path)
    path.write_bytes(whole)
    with zipfile.ZipFile(path, "a") as file:
        file.comment = b"words"
    assert "list of members" in refusal(path)
    os.truncate(path, MOST_BYTES + 1)
    assert "134,217,729 bytes" in refusal(path)


def test_pickled_objects_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    content, bomb = io.BytesIO(), Call(os.system, "touch exploded")
    np.lib.format.write_array(content, np.array([bomb], dtype=object))
    remake(path, member("weights/a.npy", content.getvalue()))
    assert "plain numbers" in refusal(path)
    assert not Path("exploded").exists()


def test_a_missing_file_names_those_there_are_and_others_are_no_snapshots(path: Path) -> None:
    folder = path.parent
    assert "pong_1.pkl" in refusal(folder / "pong_2.pkl").split("does not exist")[1]
    assert "is a folder" in refusal(folder)
    os.mkfifo(folder / "pipe")
    assert "a pipe" in refusal(folder / "pipe")
    other = path.rename(folder / "pong_1.txt")  # the content tells, not the extension
    assert Snapshot.load(other).game == "pong"
    np.save(folder / "a.npy", np.zeros(3))
    assert "not a snapshot" in refusal(folder / "a.npy")


@pytest.mark.nightly
def test_spoilt_snapshots_are_refused_or_sound() -> None:
    project = Path(__file__).parents[2]
    command = [sys.executable, "tests/soak/fuzz_snapshots.py", "--count", "40", "--seed", "1"]
    environment = os.environ | {"PYTHONPATH": str(project / "src")}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(words in done.stdout for words in ("40 snapshots, 0 failures", "refused", "sound"))
