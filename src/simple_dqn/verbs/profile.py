"""`profile_train`, `profile_test`, `profile_random`: show where the time of a phase goes."""

import cProfile
import logging
import pstats
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from simple_dqn.environment import named
from simple_dqn.files import home, replacing
from simple_dqn.interrupt import Interrupt
from simple_dqn.profiler import Profiler
from simple_dqn.run import make_run
from simple_dqn.verbs.common import check_weights, load_weights, run_name
from simple_dqn.verbs.settings import parser_for, settings_for, settle

logger = logging.getLogger(__name__)

LINES = 25  # functions shown


def main(arguments: Sequence[str], program: str, phase: str) -> None:
    """Show where the time goes in one phase."""
    parser = parser_for(f"profile_{phase}", program, f"Profile the {phase} phase.")
    parser.add_argument("game", help="a ROM, a game that ale-py ships, a Gymnasium id, or FILE.py")
    given = named(parser.parse(arguments))
    config = settle(settings_for(f"profile_{phase}", given))
    check_weights(config)
    parts = Profiler()
    with Interrupt() as interrupt, closing(make_run(config, interrupt, profiler=parts)) as run:
        if config.run.load_weights:
            load_weights(Path(config.run.load_weights), run.agent.player.environment, run.agent.network)
        profiler = cProfile.Profile()
        profiler.runcall(run.begin)
    path = home() / "results" / f"{run_name(config, f'profile_{phase}')}.prof"
    with replacing(path) as beside:
        profiler.dump_stats(beside)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(LINES)
    for line in parts.lines():
        logger.info(line)
    logger.info("The whole profile is in %s", path)
