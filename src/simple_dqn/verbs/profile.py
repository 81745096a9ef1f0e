"""`profile_train`, `profile_test`, `profile_random`: show where the time of a phase goes."""

import cProfile
import logging
import pstats
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from simple_dqn import flags
from simple_dqn.config import Config
from simple_dqn.files import home, replacing
from simple_dqn.interrupt import Interrupt
from simple_dqn.verbs.common import load_weights, run_name, settle
from simple_dqn.verbs.own_game import named
from simple_dqn.wiring import make_run

logger = logging.getLogger(__name__)

LINES = 25  # functions shown
PHASES: dict[str, dict[str, Any]] = {
    "train": {"random_steps": 1000, "train_steps": 1000, "test_steps": 0},
    "test": {"random_steps": 0, "train_steps": 0, "test_steps": 1000},
    "random": {"random_steps": 1000, "train_steps": 0, "test_steps": 0},
}


def main(arguments: Sequence[str], program: str, phase: str) -> None:
    """Show where the time goes in one phase."""
    parser = flags.parser(program, f"Profile the {phase} phase.")
    parser.add_argument("game", help="path of a ROM, the name of a game that ale-py ships, or FILE.py")
    given = named(parser.parse(arguments))
    config = settle(Config.from_flags({"replay_size": 10_000, "epochs": 1, **PHASES[phase], **given}), given)
    with Interrupt() as interrupt, closing(make_run(config, interrupt)) as run:
        if config.run.load_weights:
            load_weights(Path(config.run.load_weights), run.agent.player.environment, run.agent.network)
        profiler = cProfile.Profile()
        profiler.runcall(run.begin)
    path = home() / "results" / f"{run_name(config, f'profile_{phase}')}.prof"
    with replacing(path) as beside:
        profiler.dump_stats(beside)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(LINES)
    logger.info("The whole profile is in %s", path)
