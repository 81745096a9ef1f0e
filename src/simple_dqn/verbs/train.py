"""`train`: learn a game from the start."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from simple_dqn import flags
from simple_dqn.config import Config
from simple_dqn.demonstrations import Demonstrations
from simple_dqn.interrupt import Interrupt
from simple_dqn.verbs.common import finish, home, load_weights, run_name, settle
from simple_dqn.verbs.test import play
from simple_dqn.wiring import make_run


def main(arguments: Sequence[str], program: str) -> None:
    """Learn a game from the start."""
    parser = flags.parser(program, "Train a deep Q-network on a game.")
    parser.add_argument("game", help="path of a ROM, or the name of a game that ale-py ships")
    parser.add_argument("label", nargs="?", help="kept in the names of the snapshots and the CSV")
    given = parser.parse(arguments)
    config = Config.from_flags(given)
    if config.run.play_games:
        play(settle(config))
        return
    name = run_name(config, given.get("label"))
    files = {
        "csv_file": str(home() / "results" / f"{name}.csv"),
        "save_weights_prefix": str(home() / "snapshots" / name),
    }
    config = settle(config.with_flags({**files, **given}))
    shown = Demonstrations(config) if config.run.demonstrations else None
    with Interrupt() as interrupt, closing(make_run(config, interrupt)) as run:
        if config.run.load_weights:
            load_weights(Path(config.run.load_weights), run.agent.player.environment, run.agent.network)
        if shown:
            shown.fill(run.agent.memory, run.agent.games)
        run.begin()
    finish(interrupt)
