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
SIDES = {"small": 36, "neon": 84}  # pixels of the screens
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


def flip(rng: Random, content: bytes) -> bytes:
    """Flip bits anywhere, or in the first or last kilobyte, where a file says what it is."""
    first = int(rng.choice([0, max(0, len(content) - 1000)]))
    places = (first, min(first + 1000, len(content))) if rng.random() < 0.7 else (0, len(content))
    spoilt = bytearray(content)
    for place in rng.integers(*places, rng.integers(1, 17)):
        spoilt[place] ^= 1 << rng.integers(8)
    return bytes(spoilt)


def cut_or_repeat(rng: Random, content: bytes) -> bytes:
    start, end = sorted(rng.integers(0, len(content) + 1, 2))
    pieces = [content[:start], content[:start] + content[end:], content[:end] + content[start:]]
    return pieces[rng.integers(3)]


def insert(rng: Random, content: bytes) -> bytes:
    """Insert pickle instructions, hostile ones or any."""
    words = HOSTILE[rng.integers(len(HOSTILE))] if rng.random() < 0.7 else rng.bytes(int(rng.integers(1, 9)))
    at = [0, 2, len(content) - 1, *rng.integers(0, min(400, len(content)), 3)][rng.integers(6)]
    return content[:at] + words + content[at:]


def pickle_bomb(rng: Random, _content: bytes) -> bytes:
    """Make a small pickle that would unfold, nest or count without end."""
    size = int(rng.integers(1_000, 1_000_000))
    bombs = [
        b"\x80\x02)" + b"\x85" * size + b".", b"\x80\x02})" + b"q\x00h\x00\x86" * (size // 10) + b"K\x01s.",
        b"\x80\x02" + b"(" * size + b"t" * size + b".", b"\x80\x04" + b"]\x94" * size + b".",
        b"\x80\x02](" + b"X\xe8\x03\x00\x00" + b"x" * 1000 + b"q\x00" + b"h\x00" * size + b"e.",
    ]  # fmt: skip
    return bombs[rng.integers(len(bombs))]


def remake(rng: Random, content: bytes) -> bytes:
    """Give a file of ours other members, with sums that fit them: a bomb, a shape, weights or words."""
    if not content.startswith(b"PK"):
        return insert(rng, content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name, kind = list(members)[rng.integers(len(members))], rng.integers(5)
    if kind == 0:
        members[name] += bytes(int(rng.integers(1, 300)) << 20)
    elif kind == 1:
        members.update({f"weights/{number}.npy": b"" for number in range(rng.integers(1, 2_000))})
    elif kind == 2:
        shape = tuple(int(n) for n in rng.integers(-2, 2 ** rng.integers(2, 62), rng.integers(1, 5)))
        descr, header = str(rng.choice(["<f4", "|O", "<f8", "|S9", "|u1"])), io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"shape": shape, "descr": descr, "fortran_order": False})
        members[name] = header.getvalue() + members[name][header.tell() :]
    elif kind == 3:
        value = struct.pack("<f", float(rng.choice([np.nan, np.inf, -np.inf, 3e38, -1e20, 1e-40])))
        members[name] = members[name][:128] + value * 1000 + members[name][4128:]
    else:
        values: list[Any] = ["x" * 3000, -1, 10**30, float("nan"), None, [], {}, True, "../../x", "os:system"]
        values += [{"$array": f"{one}.npy"} for one in ("tree", "../x", "weights/output.weight")]
        value = json.dumps(values[rng.integers(len(values))]).encode()
        value = b'{"a":' * 5000 + b"1" + b"}" * 5000 if rng.random() < 0.1 else value
        tree = json.loads(members["tree.json"])
        place = tree["flags"] if rng.random() < 0.5 else tree
        names = [*place, "csv_file", "frame_skip", "clip_error"]
        place[names[rng.integers(len(names))]] = "VALUE"
        members["tree.json"] = json.dumps(tree).encode().replace(b'"VALUE"', value)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED if rng.random() < 0.2 else 0) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target.getvalue()


MUTATIONS: tuple[Callable[[Random, bytes], bytes], ...] = (flip, cut_or_repeat, insert, pickle_bomb, remake)


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
    except (KeyError, UserError):
        return "sound, of another network"
    states = np.random.default_rng(0).integers(0, 256, (2, 4, SIDES[name], SIDES[name]), dtype=np.uint8)
    return "sound" if np.isfinite(networks[name].predict(states)).all() else "FAILED: Q-values are not finite"


def limit_memory(extra: int) -> None:
    """Let this process have `extra` bytes of address space more than it has now."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + extra, resource.RLIM_INFINITY))


def main() -> int:
    """Print how many of each mutation ended how; return 1 if one ended badly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    cpu, zero = BackendConfig(backend="cpu", threads=1), np.random.default_rng(0)
    networks = {
        name: DeepQNetwork(
            3 + (name == "neon"), 4, (side, side), NetworkConfig(), cpu, zero, spec=NETWORKS[name]
        )
        for name, side in SIDES.items()
    }
    outcomes, slowest = Counter[tuple[str, str]](), 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pong_3.pkl"
        flags = {"network": "small", "screen_width": SIDES["small"], "screen_height": SIDES["small"]}
        Snapshot("pong", 3, 3, 750_000, flags, dict(networks["small"].get_weights())).save(path)
        sound = [path.read_bytes(), NEON_SAMPLE.read_bytes()]
        for content in sound:
            path.write_bytes(content)
            assert load(path, networks) == "sound"
        b"x".decode("unicode_escape")  # Python imports a codec when it is first used.
        sys.addaudithook(listen)
        for number in range(options.count):
            faulthandler.dump_traceback_later(HANGING, exit=True)
            rng, mutate = np.random.default_rng((options.seed, number)), MUTATIONS[number % len(MUTATIONS)]
            path.write_bytes(mutate(rng, sound[rng.integers(2)]))
            heard.clear()
            limit_memory(MEMORY)
            start = time.process_time()
            outcome, seconds = load(path, networks), time.process_time() - start
            limit_memory(1 << 40)
            if heard or seconds > SECONDS:
                outcome = f"FAILED: {heard[0] if heard else f'{seconds:.1f} s'}"
            outcomes[mutate.__name__, outcome] += 1
            slowest = max(slowest, seconds)
            if outcome.startswith("FAILED"):
                print(f"{number}: {mutate.__name__}: {outcome}", flush=True)
        faulthandler.cancel_dump_traceback_later()
    for (name, outcome), times in sorted(outcomes.items()):
        print(f"{name:<18} {outcome:<26} {times:>6}")
    bad = sum(times for (_, outcome), times in outcomes.items() if outcome.startswith("FAILED"))
    print(f"{options.count} snapshots, {bad} failures, slowest {slowest:.2f} s")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
