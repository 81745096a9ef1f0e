"""Load thousands of spoiled snapshots: an error or a sound network each time, in bounded memory and time.

PYTHONPATH=src:. python tests/soak/fuzz_snapshots.py --count 20000 --seed 0

Each file is loaded with 1 GB of address space more than the process had before, and may take 2 seconds of
the CPU. An audit hook hears of every module that is imported, file that is opened, code that is executed
and process that is started meanwhile: only the snapshot itself may be opened.
"""

import argparse
import faulthandler
import io
import pickle
import resource
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
from tests.command_line import NEON
from tests.snapshot.test_snapshot import CALLS, CHANGES, HOSTILE

MEMORY = 1 << 30  # bytes, for one load
SECONDS = 2.0  # of the CPU
HANGING = 600  # seconds after which a load is taken to have no end
SIDES = {"small": 36, "neon": 84}  # pixels of the screens
# Events of Python's audit, by how their names begin.
WATCHED = ("exec", "import", "open", "os.", "shutil.", "subprocess.", "socket.", "ctypes.", "mmap.", "pickle")
loading: list[str] = []  # the file that is loaded just now
heard: list[str] = []  # what happened meanwhile that should not
Random: TypeAlias = np.random.Generator
BOMBS = [  # the start of a pickle, a part that is repeated, and its end
    (b")", b"\x85", b""), (b"})", b"q\x00h\x00\x86", b"K\x01s"), (b"", b"(", b"t"), (b"", b"]\x94", b""),
    (b"](X\xe8\x03\x00\x00" + b"x" * 1000 + b"q\x00", b"h\x00", b"e"),
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
    """Insert pickle instructions: those that no run writes, calls of functions, or any."""
    hostile = [*HOSTILE, *(pickle.dumps(call, 2)[2:-1] for call, _ in CALLS)]
    any_bytes = rng.bytes(int(rng.integers(1, 9)))
    words = hostile[rng.integers(len(hostile))] if rng.random() < 0.7 else any_bytes
    at = [0, 2, len(content) - 1, *rng.integers(0, min(400, len(content)), 3)][rng.integers(6)]
    return content[:at] + words + content[at:]


def pickle_bomb(rng: Random, _content: bytes) -> bytes:
    start, repeated, end = BOMBS[rng.integers(len(BOMBS))]
    return b"\x80\x02" + start + repeated * int(rng.integers(1_000, 100_000)) + end + b"."


def remake(rng: Random, content: bytes) -> bytes:
    """Give a file of ours other members, with sums that fit them: a random shape, or what no run writes."""
    if not content.startswith(b"PK"):
        return insert(rng, content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name, header = list(members)[rng.integers(len(members))], io.BytesIO()
    if "weights/a.npy" in members:
        CHANGES[rng.integers(len(CHANGES))](members)
    else:
        shape = tuple(int(n) for n in rng.integers(-2, 2 ** rng.integers(2, 62), rng.integers(1, 5)))
        descr = str(rng.choice(["<f4", "|O", "<f8", "|S9", "|u1"]))
        np.lib.format.write_array_header_1_0(header, {"shape": shape, "descr": descr, "fortran_order": False})
        members[name] = header.getvalue() + members[name][header.tell() :]
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED if rng.random() < 0.2 else 0) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target.getvalue()


MUTATIONS: tuple[Callable[[Random, bytes], bytes], ...] = (flip, cut_or_repeat, insert, pickle_bomb, remake)


def listen(event: str, arguments: tuple[Any, ...]) -> None:
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
    if name not in networks:
        return "sound, of another network"
    try:
        networks[name].set_weights(snapshot.weights)
    except UserError:
        return "sound, of another network"
    states = np.random.default_rng(0).integers(0, 256, (2, 4, SIDES[name], SIDES[name]), dtype=np.uint8)
    return "sound" if np.isfinite(networks[name].predict(states)).all() else "FAILED: Q-values are not finite"


def limit_memory(extra: int) -> None:
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + extra, resource.RLIM_INFINITY))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    cpu, zero = BackendConfig(backend="cpu", threads=1), np.random.default_rng(0)
    networks = {}
    for name, side in SIDES.items():
        actions, shape, spec = 3 + (name == "neon"), (side, side), NETWORKS[name]
        networks[name] = DeepQNetwork(actions, 4, shape, NetworkConfig(), cpu, zero, spec=spec)
    outcomes, slowest = Counter[tuple[str, str]](), 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pong_3.pkl"
        flags = {"network": "small", "screen_width": SIDES["small"], "screen_height": SIDES["small"]}
        Snapshot("pong", 3, 3, 750_000, flags, dict(networks["small"].get_weights())).save(path)
        sound = [path.read_bytes(), NEON.read_bytes()]
        Snapshot("pong", 1, 6, 10, {}, {"a": np.arange(6, dtype=np.float32)}).save(path)
        sound.append(path.read_bytes())
        for content in sound:
            path.write_bytes(content)
            assert load(path, networks).startswith("sound")
        b"x".decode("unicode_escape")  # Python imports a codec when it is first used.
        sys.addaudithook(listen)
        for number in range(options.count):
            faulthandler.dump_traceback_later(HANGING, exit=True)
            rng, mutate = np.random.default_rng((options.seed, number)), MUTATIONS[number % len(MUTATIONS)]
            path.write_bytes(mutate(rng, sound[rng.integers(len(sound))]))
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
