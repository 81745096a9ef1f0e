"""Load thousands of spoiled snapshots: an error or a sound network each time, in bounded memory and time.

python tests/soak/fuzz_snapshots.py --count 20000 --seed 0

Each file is loaded with 1 GB of address space more than the process had before, and may take 2 seconds of
the CPU. An audit hook hears of every module that is imported, file that is opened, code that is executed
and process that is started meanwhile: only the snapshot itself may be opened.
"""

import argparse
import faulthandler
import io
import json
import pickle
import resource
import struct
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from simple_dqn.config import BackendConfig, NetworkConfig
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.errors import UserError
from simple_dqn.networks import NETWORKS
from simple_dqn.snapshot import Snapshot

MEMORY = 1 << 30  # bytes, for one load
SECONDS = 2.0  # of the CPU
HANGING = 600  # seconds after which a load is taken to have no end
SIDE = 36  # pixels of the smallest screens that leave all three convolutions something to do; Neon's have 84
ACTIONS = 3
ZIP = b"PK"  # the start of our own files
NEON_SAMPLE = Path(__file__).parents[1] / "data" / "breakout_1.pkl"
# Events of Python's audit, by how their names begin.
WATCHED = ("exec", "import", "open", "os.", "shutil.", "subprocess.", "socket.", "ctypes.", "mmap.", "pickle")
loading: list[str] = []  # the file that is loaded just now
heard: list[str] = []  # what happened meanwhile that should not
Random: TypeAlias = np.random.Generator
# Parts of pickles that run code, take memory or count without end where they are believed.
HOSTILE = [
    b"cos\nsystem\n(S'touch pwned'\ntR", b"c__builtin__\neval\n(S'1/0'\ntR", b"(S'x'\nios\nsystem\n",
    b"\x8c\x08builtins\x8c\x04exec\x93\x8c\x03x=1\x85R", b"cnumpy\nload\n(S'x'\ntR",
    b"cnumpy\nmemmap\n(S'x'\nS'uint8'\nS'w+'\ntR", b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR",
    b"cnumpy.core.multiarray\n_reconstruct\n(cos\nsystem\n(I0\ntS'b'\ntR",
    b"cnumpy\nndarray\n(K\x02J\xff\xff\xff\x7ftR", b"r\xff\xff\xff\x7f", b"X\xff\xff\xff\x7f",
    b"\x8a\xff" + b"\x7f" * 255, b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\x00\x00", b"I" + b"9" * 10**5 + b"\n",
]  # fmt: skip


def neon_file(rng: Random, old: bool) -> dict[str, Any]:
    """Return what Neon wrote for a network of random weights, with RMSProp's memory."""
    shapes = [(256, 32), (512, 64), (576, 64), (512, 3136), (ACTIONS, 512)]
    arrays = [rng.normal(0, 0.05, shape).astype(np.float32) for shape in shapes]
    if old:
        return {"epoch_index": 2, "layer_params_states": [{"params": a, "states": [a * a]} for a in arrays]}
    layers = [{"params": {"W": a}, "states": [a * a]} for a in arrays]
    return {"epoch_index": 2, "model": {"config": {"layers": [{"config": {}}, *layers]}}}


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


def cut_or_repeat(rng: Random, content: bytes) -> bytes:
    start, end = sorted(rng.integers(0, len(content) + 1, 2))
    return [content[:start], content[:start] + content[end:], content[:end] + content[start:]][
        rng.integers(3)
    ]


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
    def change(members: dict[str, bytes]) -> None:
        if rng.random() < 0.1:
            members[list(members)[rng.integers(len(members))]] += bytes(int(rng.integers(1, 300)) << 20)
        else:
            members.update({f"weights/{number}.npy": b"" for number in range(rng.integers(1, 2_000))})

    return rezip(content, change, zipfile.ZIP_STORED if rng.random() < 0.5 else zipfile.ZIP_DEFLATED)


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
        at, times = int(rng.integers(min(128, len(data) // 2), len(data))), int(rng.choice([1, 1000]))
        return data[:at] + value * times + data[at + 4 * times :]

    def poison_one(members: dict[str, bytes]) -> None:
        name = list(members)[rng.integers(len(members))]
        members[name] = poison(members[name])

    return rezip(content, poison_one) if content.startswith(ZIP) else poison(content)


def strange_words(rng: Random, content: bytes) -> bytes:
    """Say something else in `tree.json`."""
    values = ["x" * 3000, -1, 10**30, float("nan"), None, [], {}, True, "../../x", "os:system", 0.5]
    values += [{"$array": f"{name}.npy"} for name in ("tree", "../x", "weights/output.weight")]
    value = json.dumps(values[rng.integers(len(values))])
    if rng.random() < 0.1:
        value = '{"a":' * 5000 + "1" + "}" * 5000

    def reword(members: dict[str, bytes]) -> None:
        tree = json.loads(members["tree.json"])
        place = tree["flags"] if rng.random() < 0.5 else tree
        names = [*place, "csv_file", "frame_skip", "clip_error"]
        place[names[rng.integers(len(names))]] = "VALUE"
        members["tree.json"] = json.dumps(tree).replace('"VALUE"', value).encode()

    return rezip(content, reword)


ANY = (flip, flip_in_structure, cut_or_repeat, insert, pickle_bomb, huge_shape, strange_weights)
# Each way of spoiling a file, and the start of the files that can be spoiled so.
MUTATIONS: list[tuple[Callable[[Random, bytes], bytes], bytes]] = [
    *((mutate, b"") for mutate in ANY), (zip_bomb, ZIP), (strange_words, ZIP),
]  # fmt: skip


def listen(event: str, arguments: tuple[Any, ...]) -> None:
    """Write down what a load does beside reading its file."""
    if not loading or not event.startswith(WATCHED):
        return
    opened = arguments[0] if event == "open" else None
    if isinstance(opened, int):  # a descriptor
        opened = Path(f"/proc/self/fd/{opened}").readlink()
    if str(opened) != loading[0]:
        heard.append(f"{event} {str(arguments)[:80]}")


def load(path: Path, networks: dict[str, DeepQNetwork]) -> str:
    """Return how loading ends: "refused", "sound", or what should not be."""
    loading.append(str(path))
    try:
        snapshot = Snapshot.load(path)
    except UserError as error:
        return "refused" if str(error).isprintable() else f"FAILED: more than a line: {error}"
    except Exception as error:
        return f"FAILED {type(error).__name__}: {str(error)[:100]}"
    finally:
        loading.clear()
    name = snapshot.flags.get("network", "nature")
    try:
        networks[name].set_weights(snapshot.weights)
    except UserError:
        return "sound, of another shape"
    states = np.random.default_rng(0).integers(0, 256, (2, 4, *side_of(name)), dtype=np.uint8)
    return "sound" if np.isfinite(networks[name].predict(states)).all() else "FAILED: Q-values are not finite"


def side_of(network: str) -> tuple[int, int]:
    return (84, 84) if network == "neon" else (SIDE, SIDE)


def limit_memory(extra: int) -> None:
    """Let this process have `extra` bytes of address space more than it has now."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + extra, resource.RLIM_INFINITY))


def trial(
    number: int, seed: int, sound: list[bytes], path: Path, networks: dict[str, DeepQNetwork]
) -> tuple[str, str, float]:
    """Spoil one file and load it; return the mutation's name, how it ended and the CPU seconds."""
    rng = np.random.default_rng((seed, number))
    mutate, kind = MUTATIONS[number % len(MUTATIONS)]
    fit = [content for content in sound if content.startswith(kind)]
    chances = [0.2 if len(content) > 4 << 20 else 1.0 for content in fit]
    content = fit[rng.choice(len(fit), p=np.divide(chances, sum(chances)))]
    path.write_bytes(mutate(rng, content))
    heard.clear()
    limit_memory(MEMORY)
    start = time.process_time()
    outcome = load(path, networks)
    seconds = time.process_time() - start
    limit_memory(1 << 40)
    if heard or seconds > SECONDS:
        outcome = f"FAILED: {heard[0] if heard else f'{seconds:.1f} s'}"
    return mutate.__name__, outcome, seconds


def main() -> int:
    """Print how many of each mutation ended how; return 1 if one ended badly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, cpu = np.random.default_rng(0), BackendConfig(backend="cpu", threads=1)
    networks = {
        name: DeepQNetwork(ACTIONS, 4, side_of(name), NetworkConfig(), cpu, rng, spec=spec)
        for name, spec in NETWORKS.items()
    }
    sound = [pickle.dumps(neon_file(rng, old=protocol == 2), protocol) for protocol in (2, 3, 4)]
    sound.append(NEON_SAMPLE.read_bytes())
    outcomes: Counter[tuple[str, str]] = Counter()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pong_3.pkl"
        for name in sorted(networks.keys() - {"neon"}):
            flags = {"network": name, "screen_width": SIDE, "screen_height": SIDE}
            Snapshot("pong", 3, ACTIONS, 750_000, flags, dict(networks[name].get_weights())).save(path)
            sound.append(path.read_bytes())
        for content in sound:
            path.write_bytes(content)
            outcome = load(path, networks)
            assert outcome.startswith("sound"), outcome
        b"x".decode("unicode_escape")  # Python imports a codec when it is first used.
        sys.addaudithook(listen)
        for number in range(options.count):
            faulthandler.dump_traceback_later(HANGING, exit=True)
            name, outcome, seconds = trial(number, options.seed, sound, path, networks)
            outcomes[name, outcome] += 1
            slowest = max(slowest, seconds)
            if outcome.startswith("FAILED"):
                print(f"{number}: {name}: {outcome}", flush=True)
        faulthandler.cancel_dump_traceback_later()
    for (name, outcome), times in sorted(outcomes.items()):
        print(f"{name:<18} {outcome:<26} {times:>6}")
    bad = sum(times for (_, outcome), times in outcomes.items() if outcome.startswith("FAILED"))
    print(f"{options.count} snapshots, {bad} failures, slowest {slowest:.2f} s")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
