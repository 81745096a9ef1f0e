"""`test`: measure how well a snapshot plays."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from simple_dqn import evaluation
from simple_dqn.config import Config, RunConfig
from simple_dqn.environment import is_atari
from simple_dqn.errors import UserError
from simple_dqn.files import check_target
from simple_dqn.interrupt import Interrupt
from simple_dqn.run import make_environment, make_network, make_player, make_statistics
from simple_dqn.verbs.common import check_weights, finish, load_weights, open_snapshot
from simple_dqn.verbs.settings import (
    check_csv,
    flags_of_playing,
    parser_for,
    settings_of_agent,
    workers_for,
)


def main(arguments: Sequence[str], program: str) -> None:
    """Measure how well a snapshot plays."""
    parser = parser_for("test", program, "Test a snapshot, without training.")
    parser.add_argument("snapshot", type=Path, help="such as snapshots/pong_10.pkl")
    group = parser.add_argument_group("Test")
    group.add_argument(
        "--protocol", choices=tuple(evaluation.PROTOCOLS), help="rules of the test (default: simple_dqn)"
    )
    group.add_argument("--json", type=Path, metavar="FILE", help="write the outcome here as well")
    given = flags_of_playing(parser, arguments)
    protocol = given.get("protocol", "simple_dqn")
    rules, path = evaluation.PROTOCOLS[protocol], given["snapshot"]
    snapshot = open_snapshot(path)
    games = given.get("play_games") or rules.games or 0
    fixed = evaluation.protocol_flags(protocol, snapshot.actions) | workers_for(games, snapshot.flags)
    if not snapshot.flags.get("test_steps"):  # trained without tests
        fixed["test_steps"] = RunConfig().test_steps
    if given.get("random_starts"):  # in place of the protocol's no-ops, which are counted in frames
        fixed["random_start_frames"] = 0
    config = settings_of_agent("test", path, snapshot, given, fixed)
    check_csv(given, config)
    if rules.flags and not is_atari(config.environment):
        raise UserError(
            f"--protocol {protocol} is for Atari games: leave it out, and give --play_games {rules.games} "
            "for as many games"
        )
    if not (config.run.play_games or rules.games or config.run.test_steps):
        raise UserError("there is nothing to test: give --test_steps, --play_games or --protocol nature")
    play(config, protocol, given.get("json"))


def play(config: Config, protocol: str = "simple_dqn", json: Path | None = None) -> None:
    """Play without learning, by the settings of `protocol` in `config`; print and write the outcome.

    Raises:
        UserError: Something cannot be written, or the snapshot does not fit.
    """
    if json:
        check_target(json, "--json")
    check_weights(config)
    environment = make_environment(config, training=False)
    network = make_network(config, environment)
    if config.run.load_weights:
        load_weights(Path(config.run.load_weights), environment, network)
    player = make_player(config, environment, network)
    with closing(make_statistics(config)) as statistics, Interrupt() as interrupt:
        outcome = evaluation.evaluate(player, config, protocol, statistics, interrupt)
    environment.close()
    print(outcome)
    if json and not interrupt.requested:  # half a test would favor short games
        outcome.write_json(json)
    finish(interrupt)
