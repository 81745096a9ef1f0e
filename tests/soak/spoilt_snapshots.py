"""Snapshots for the trials: sound ones of each format, and every way of spoiling one."""

import io
import json
import struct
import zipfile
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from simple_dqn.snapshot import Snapshot

STATE = (4, 36, 36)  # the smallest screens that leave all three convolutions something to do
ACTIONS = 3
ZIP = b"PK"  # what files of our own format begin with
Random: TypeAlias = np.random.Generator
# Parts of pickles that run code, take memory or count without end where they are believed.
HOSTILE = [
    b"cos\nsystem\n(S'touch pwned'\ntR",
    b"c__builtin__\neval\n(S'1/0'\ntR",
    b"\x8c\x08builtins\x8c\x04exec\x93\x8c\x03x=1\x85R",
    b"cnumpy\nload\n(S'x'\ntR",
    b"cnumpy\nmemmap\n(S'x'\nS'uint8'\nS'w+'\ntR",
    b"cnumpy.core.multiarray\n_reconstruct\n(cos\nsystem\n(I0\ntS'b'\ntR",
    b"cnumpy\nndarray\n(K\x02J\xff\xff\xff\x7ftR",
    b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR",
    b"(S'x'\nios\nsystem\n",
    b"r\xff\xff\xff\x7f",  # a memo of two thousand million places
    b"X\xff\xff\xff\x7f",
    b"\x8a\xff" + b"\x7f" * 255,
    b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\x00\x00",
    b"I" + b"9" * 100_000 + b"\n",
]


def python2(value: Any) -> bytes:
    """Return `value` as Python 2 and numpy 1 pickled it by protocol 2, memo aside."""
    if isinstance(value, np.ndarray):
        kind = (
            b"cnumpy\ndtype\nU\x02%sK\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        )
        data: bytes = value.tobytes("F")
        pickled: bytes = (
            b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"
            + python2(value.shape) + kind % value.dtype.str[1:].encode()
            + b"\x88T" + struct.pack("<i", len(data)) + data + b"tb"
        )  # fmt: skip
        return pickled
    if isinstance(value, dict):
        return b"}(" + b"".join(python2(k) + python2(v) for k, v in value.items()) + b"u"
    if isinstance(value, list | tuple):
        items = b"(" + b"".join(map(python2, value))
        return items + b"t" if isinstance(value, tuple) else b"]" + items + b"e"
    if isinstance(value, str):
        return b"U" + len(value).to_bytes() + value.encode()
    assert type(value) is int
    return b"J" + struct.pack("<i", value)


def neon_file(rng: Random, old: bool) -> dict[str, Any]:
    """Return what Neon wrote for a network of random weights, with RMSProp's memory."""
    shapes = [(256, 32), (512, 64), (576, 64), (512, 3136), (ACTIONS, 512)]
    arrays = [rng.normal(0, 0.05, shape).astype(np.float32) for shape in shapes]
    said = {"epoch_index": 2}
    if old:
        return {**said, "layer_params_states": [{"params": a, "states": [a * a]} for a in arrays]}
    layers: list[dict[str, Any]] = []
    for array in arrays:
        layers += [
            {"config": {"name": "x"}, "params": {"W": array}, "states": [array * array]},
            {"config": {}},
        ]
    return {**said, "model": {"config": {"layers": layers[:-1]}}}


def rezip(content: bytes, change: Callable[[dict[str, bytes]], None], compression: int = 0) -> bytes:
    """Return a zip of ours with other members, and sums that fit them."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target.getvalue()


def flip(rng: Random, content: bytes) -> bytes:
    spoilt = bytearray(content)
    for _ in range(rng.integers(1, 17)):
        spoilt[rng.integers(len(spoilt))] ^= 1 << rng.integers(8)
    return bytes(spoilt)


def flip_in_structure(rng: Random, content: bytes) -> bytes:
    """Flip bits in the first and last kilobyte, or in an array's header, where a file says what it is."""
    place = int(rng.choice([0, max(0, len(content) - 1000), max(0, content.find(b"NUMPY"))]))
    return content[:place] + flip(rng, content[place : place + 1000]) + content[place + 1000 :]


def cut(rng: Random, content: bytes) -> bytes:
    start, end = sorted(rng.integers(0, len(content) + 1, 2))
    return content[:start] if rng.random() < 0.5 else content[:start] + content[end:]


def repeat(rng: Random, content: bytes) -> bytes:
    start, end = sorted(rng.integers(0, len(content) + 1, 2))
    return content[:end] + content[start:]


def insert(rng: Random, content: bytes) -> bytes:
    """Insert pickle instructions, hostile ones or any."""
    words = HOSTILE[rng.integers(len(HOSTILE))] if rng.random() < 0.7 else rng.bytes(int(rng.integers(1, 9)))
    at = [0, 2, len(content) - 1, *rng.integers(0, min(400, len(content)), 3)][rng.integers(6)]
    return content[:at] + words + content[at:]


def pickle_bomb(rng: Random, _content: bytes) -> bytes:
    """Make a small pickle that would unfold, nest or count without end."""
    size = int(rng.integers(1_000, 1_000_000))
    bombs = [
        b"\x80\x02)" + b"\x85" * size + b".",
        b"\x80\x02})" + b"q\x00h\x00\x86" * (size // 10) + b"K\x01s.",
        b"\x80\x02" + b"(" * size + b"t" * size + b".",
        b"\x80\x02](" + b"X\xe8\x03\x00\x00" + b"x" * 1000 + b"q\x00" + b"h\x00" * size + b"e.",
        b"\x80\x04" + b"]\x94" * size + b".",
    ]
    return bombs[rng.integers(len(bombs))]


def zip_bomb(rng: Random, content: bytes) -> bytes:
    def blow(members: dict[str, bytes]) -> None:
        name = list(members)[rng.integers(len(members))]
        members[name] += bytes(int(rng.integers(1, 300)) << 20)

    def crowd(members: dict[str, bytes]) -> None:
        members.update({f"weights/{number}.npy": b"" for number in range(rng.integers(1, 2_000))})

    compression = zipfile.ZIP_STORED if rng.random() < 0.5 else zipfile.ZIP_DEFLATED
    return rezip(content, blow if rng.random() < 0.1 else crowd, compression)


def huge_shape(rng: Random, content: bytes) -> bytes:
    """Give an array another shape; a file of ours gets sums that fit."""
    if not content.startswith(ZIP):
        place = content.find(b"R(K\x01", rng.integers(len(content)))
        shape = b"(" + b"J" + struct.pack("<i", int(rng.integers(-9, 2**31))) + b"J\xff\xff\xff\x7ft"
        return content[: place + 4] + shape + content[place + 4 + rng.integers(8) :]

    def grow(members: dict[str, bytes]) -> None:
        name = list(members)[rng.integers(len(members))]
        shape = tuple(int(n) for n in rng.integers(-2, 2 ** rng.integers(2, 62), rng.integers(1, 5)))
        kind = str(rng.choice(["<f4", "|O", "<f8", "|S9", "|u1"]))
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"shape": shape, "descr": kind, "fortran_order": False})
        members[name] = header.getvalue() + members[name][header.tell() :]

    return rezip(content, grow)


def strange_weights(rng: Random, content: bytes) -> bytes:
    """Put NaN, infinity or huge values among the weights; a file of ours gets sums that fit."""
    value = struct.pack("<f", float(rng.choice([np.nan, np.inf, -np.inf, 3e38, -1e20, 1e-40])))

    def poison(data: bytes) -> bytes:
        at = int(rng.integers(min(128, len(data) // 2), len(data)))
        times = int(rng.choice([1, 1000]))
        return data[:at] + value * times + data[at + 4 * times :]

    def poison_one(members: dict[str, bytes]) -> None:
        name = list(members)[rng.integers(len(members))]
        members[name] = poison(members[name])

    return rezip(content, poison_one) if content.startswith(ZIP) else poison(content)


def strange_words(rng: Random, content: bytes) -> bytes:
    """Say something else in `tree.json`."""
    values = ["x" * 3000, -1, 10**30, float("nan"), None, [], {}, True, "../../x", "os:system", 0.5]
    values += [{"$array": "tree.json"}, {"$array": "../x.npy"}, {"$array": "weights/output.weight.npy"}]
    value = json.dumps(values[rng.integers(len(values))])
    if rng.random() < 0.1:
        value = '{"a":' * 5000 + "1" + "}" * 5000

    def reword(members: dict[str, bytes]) -> None:
        tree = json.loads(members["tree.json"])
        place = tree["flags"] if rng.random() < 0.5 else tree
        names = [*place, *Snapshot.__annotations__, "csv_file", "frame_skip", "clip_error"]
        place[names[rng.integers(len(names))]] = "VALUE"
        members["tree.json"] = json.dumps(tree).replace('"VALUE"', value).encode()

    return rezip(content, reword)


ANY = (flip, flip_in_structure, cut, repeat, insert, pickle_bomb, huge_shape, strange_weights)
# Each way of spoiling a file, and what a file begins with that can be spoilt so.
MUTATIONS: list[tuple[Callable[[Random, bytes], bytes], bytes]] = [
    *((mutate, b"") for mutate in ANY),
    (zip_bomb, ZIP),
    (strange_words, ZIP),
]
