"""How fast each `--engine` predicts, in turns on the same states.

    python benchmarks/engines.py [--threads 1] [--rounds 9]

With a graph that is compiled anew for each change of the weights, it also counts what that takes: the last
column says after how many predictions it is brought in.
"""

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence

import command
import numpy as np
from command import positive
from table import machine, print_table

from simple_dqn.config import BackendConfig, Config, NetworkConfig
from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.networks import NETWORKS
from simple_dqn.presets import PRESETS
from simple_dqn.types import States

# preset, datatype
CASES = [("simple_dqn", "float32"), ("simple_dqn", "bfloat16"), ("quick", "float32"), ("quick", "bfloat16")]
BATCHES = (1, 8)
CALLS = 40  # in a round
ACTIONS = 6  # Pong's


def network(config: Config, datatype: str, threads: int, engine: str) -> DeepQNetwork:
    settings: NetworkConfig = config.network
    shape = (config.environment.screen_height, config.environment.screen_width)
    backend = BackendConfig("cpu", 0, datatype, threads, engine)
    return DeepQNetwork(
        ACTIONS, 4, shape, settings, backend, np.random.default_rng(0), spec=NETWORKS[settings.network]
    )


def seconds(work: Callable[[], object], calls: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) / calls


def turn(network: DeepQNetwork, states: States) -> float:
    """Return the seconds that one of a few predictions took."""
    return seconds(lambda: network.predict_to_play(states), CALLS)


def row(preset: str, datatype: str, threads: int, batch: int, rounds: int) -> list[str]:
    config = Config.from_flags(PRESETS[preset])
    networks = [network(config, datatype, threads, engine) for engine in ("torch", "openvino")]
    shape = (batch, 4, config.environment.screen_height, config.environment.screen_width)
    states = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    compiling = []
    for _ in range(3):
        networks[1].set_weights(networks[0].get_weights())
        compiling.append(seconds(lambda: networks[1].predict_to_play(states)))
    times = np.array([[turn(one, states) for one in networks] for _ in range(rounds)])
    torch, openvino = np.median(times, axis=0)
    ratio, first = float(np.median(times[:, 0] / times[:, 1])), float(np.median(compiling))
    return [
        preset, datatype, str(batch), f"{batch / torch:.0f}", f"{batch / openvino:.0f}", f"{ratio:.1f}",
        f"{first * 1e3:.0f}", f"{first / max(torch - openvino, 1e-9):.0f}",
    ]  # fmt: skip


def main(words: Sequence[str]) -> None:
    """Print the table.

    Raises:
        UserError: An engine is not installed.
    """
    parser = command.parser("engines", __doc__)
    parser.add_argument("--threads", type=positive(int), default=1, help="CPU threads of the network")
    parser.add_argument("--rounds", type=positive(int), default=9, help="in which the engines take turns")
    given = Namespace(**parser.parse(words))
    print(machine())
    print_table(
        f"States valued in a second, {given.threads} thread(s), medians of {given.rounds} rounds",
        ["preset", "datatype", "states", "torch", "openvino", "ratio", "compile, ms", "even after"],
        [row(*case, given.threads, batch, given.rounds) for case in CASES for batch in BATCHES],
    )


if __name__ == "__main__":
    sys.exit(command.console("engines", main))
