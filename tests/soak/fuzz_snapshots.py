"""Load thousands of spoilt snapshots: an error or a sound network each time, in bounded memory and time.

python tests/soak/fuzz_snapshots.py --count 20000 --seed 0

Each file is loaded with 1 GB of address space more than the process had before, and may take 2 seconds of
the CPU. An audit hook hears of every module that is imported, file that is opened, code that is executed
and process that is started meanwhile: only the snapshot itself may be opened.
"""

import argparse
import faulthandler
import pickle
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from spoilt_snapshots import ACTIONS, MUTATIONS, STATE, Random, neon_file, python2

from simple_dqn.config import BackendConfig, NetworkConfig
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.errors import UserError
from simple_dqn.networks import NETWORKS
from simple_dqn.snapshot import Snapshot

MEMORY = 1 << 30  # bytes, for one load
SECONDS = 2.0  # of the CPU
HANGING = 600  # seconds after which a load is taken to have no end
NEON_SAMPLE = Path(__file__).parents[1] / "data" / "breakout_1.pkl"
# Events of Python's audit, by how their names begin.
WATCHED = ("exec", "import", "open", "os.", "shutil.", "subprocess.", "socket.", "ctypes.", "mmap.", "pickle")
loading: list[str] = []  # the file that is loaded just now
heard: list[str] = []  # what happened meanwhile that should not


def listen(event: str, arguments: tuple[Any, ...]) -> None:
    """Write down what a load does beside reading its file."""
    if not loading or not event.startswith(WATCHED):
        return
    opened = arguments[0] if event == "open" else None
    if isinstance(opened, int):  # a descriptor
        opened = Path(f"/proc/self/fd/{opened}").readlink()
    if str(opened) != loading[0]:
        heard.append(f"{event} {str(arguments)[:80]}")


def make_networks() -> dict[str, DeepQNetwork]:
    """Return one network of each architecture."""
    backend, rng = BackendConfig(backend="cpu", threads=1), np.random.default_rng(0)
    return {
        name: DeepQNetwork(
            ACTIONS,
            STATE[0],
            (84, 84) if name == "neon" else STATE[1:],
            NetworkConfig(),
            backend,
            rng,
            spec=spec,
        )
        for name, spec in NETWORKS.items()
    }


def make_sound(folder: Path, rng: Random, networks: dict[str, DeepQNetwork]) -> list[bytes]:
    """Return sound snapshots of each format."""
    files = [
        b"\x80\x02" + python2(neon_file(rng, old=True)) + b".",
        *(pickle.dumps(neon_file(rng, old=False), protocol) for protocol in (2, 3, 4)),
        NEON_SAMPLE.read_bytes(),
    ]
    for name, network in networks.items():
        if name == "neon":
            continue
        flags = {"network": name, "screen_width": STATE[1], "screen_height": STATE[2]}
        Snapshot("pong", 3, ACTIONS, 750_000, flags, dict(network.get_weights())).save(folder / "sound")
        files.append((folder / "sound").read_bytes())
    return files


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
    network = networks[snapshot.flags.get("network", "nature")]
    try:
        network.set_weights(snapshot.weights)
    except UserError:
        return "sound, of another shape"
    shape = (STATE[0], 84, 84) if snapshot.flags.get("network") == "neon" else STATE
    states = np.random.default_rng(0).integers(0, 256, (2, *shape), dtype=np.uint8)
    return "sound" if np.isfinite(network.predict(states)).all() else "FAILED: Q-values are not finite"


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
    if heard:
        outcome = f"FAILED: {heard[0]}"
    if seconds > SECONDS:
        outcome = f"FAILED: {seconds:.1f} s"
    return mutate.__name__, outcome, seconds


def main() -> int:
    """Print how many of each mutation ended how; return 1 if one ended badly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    networks = make_networks()
    outcomes: Counter[tuple[str, str]] = Counter()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pong_3.pkl"
        sound = make_sound(Path(folder), np.random.default_rng(0), networks)
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
