"""`nvis`: draw what the network of a snapshot sees, as a page for the browser."""

import logging
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from nvis.page import draw, play_game
from simple_dqn.errors import printable
from simple_dqn.files import check_target, home, replacing
from simple_dqn.run import make_environment, make_network, make_player
from simple_dqn.verbs.common import check_weights, load_weights, open_snapshot, run_of
from simple_dqn.verbs.settings import flags_of_playing, parser_for, settings_of_agent

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str], program: str) -> None:
    """Play one game, and draw what the network of a snapshot sees in it."""
    parser = parser_for("nvis", program, "Draw what the network of a snapshot sees, as an HTML page.")
    parser.add_argument("snapshot", type=Path, help="such as snapshots/pong_10.pkl")
    given = flags_of_playing(parser, arguments)
    path: Path = given["snapshot"]
    snapshot = open_snapshot(path)
    config = settings_of_agent("nvis", path, snapshot, given)
    check_weights(config)
    file = Path(config.run.visualization_file or home() / "results" / f"{run_of(path, snapshot)}.html")
    check_target(file, "--visualization_file")
    rate = config.agent.exploration_rate_test
    with closing(make_environment(config, training=False)) as environment:
        network = make_network(config, environment)
        load_weights(path, environment, network, snapshot)
        game = play_game(make_player(config, environment, network), config.memory.history_length, rate)
        name = environment.name
    logger.info("Played a game of %s: %d steps, score %g", name, len(game), game.rewards.sum())
    facts = {
        "game": name,
        "snapshot": path.name,
        "epoch": snapshot.epoch,
        "exploration_rate": rate,
        "seed": config.seed,
    }
    page = draw(game, network, config.run.visualization_filters, facts)
    with replacing(file) as beside:
        beside.write_text(page, encoding="utf-8")
    print(printable(f"The page is in {file}"))
