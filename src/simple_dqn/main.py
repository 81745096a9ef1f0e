"""From the command line to a verb: flags, then settings, then the objects that `wiring` builds of them."""

import cProfile
import logging
import os
import pstats
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from simple_dqn import evaluation, flags, plot, random_streams, rules
from simple_dqn.config import Config
from simple_dqn.environment import Environment, game_name
from simple_dqn.errors import UserError
from simple_dqn.interrupt import Interrupt
from simple_dqn.snapshot import Snapshot, check_fits, checkpoint_of, replacing
from simple_dqn.statistics import ConsoleHandler
from simple_dqn.wiring import make_environment, make_network, make_player, make_run, make_statistics

if TYPE_CHECKING:
    from simple_dqn.deepqnetwork import DeepQNetwork

logger = logging.getLogger(__name__)

PROFILE_LINES = 25  # functions shown by the profile verbs
PROFILE_FLAGS: dict[str, dict[str, Any]] = {
    "profile_train": {"random_steps": 1000, "train_steps": 1000, "test_steps": 0},
    "profile_test": {"random_steps": 0, "train_steps": 0, "test_steps": 1000},
    "profile_random": {"random_steps": 1000, "train_steps": 0, "test_steps": 0},
}


def train(arguments: Sequence[str], program: str) -> None:
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
    with Interrupt() as interrupt, closing(make_run(config, interrupt)) as run:
        if config.run.load_weights:
            load_weights(Path(config.run.load_weights), run.agent.player.environment, run.agent.network)
        run.begin()
    finish(interrupt)


def resume(arguments: Sequence[str], program: str) -> None:
    """Go on with a run from one of its snapshots."""
    parser = flags.parser(program, "Go on with a training run from one of its snapshots.")
    parser.add_argument("snapshot", type=Path, help="such as snapshots/pong_10.pkl")
    given = parser.parse(arguments)
    path: Path = given["snapshot"]
    snapshot = Snapshot.load(path)
    prefix = path.with_name(path.stem.removesuffix(f"_{snapshot.epoch}"))
    checkpoint = checkpoint_of(prefix)
    saved = checkpoint.load_run()
    exact = saved is not None and saved["total_train_steps"] == snapshot.total_train_steps
    config = settle(
        Config.from_flags(
            {
                "game": snapshot.game,
                "csv_file": str(home() / "results" / f"{prefix.name}.csv"),
                **snapshot.flags,
                **(saved["flags"] if saved and exact else {"random_seed": None}),
                "save_weights_prefix": str(prefix),
                "start_epoch": snapshot.epoch,
                **given,
            }
        )
    )
    if config.run.epochs <= config.run.start_epoch:
        raise UserError(
            f"{path} has {snapshot.epoch} epochs of training and --epochs is {config.run.epochs}: "
            "give a larger --epochs"
        )
    untested = saved is not None and exact and saved["tested"] < saved["trained"]
    resumed = (config.run.start_epoch, "train" if untested else "test")
    with Interrupt() as interrupt, closing(make_run(config, interrupt, resumed)) as run:
        if saved and exact:
            logger.info("Going on from %s", checkpoint.folder)
            run.go_on(saved, checkpoint.load_memory())
        else:
            logger.warning(
                "%s holds no checkpoint of epoch %d: the replay memory, the optimizer and the random streams "
                "are lost; the memory is refilled by the network's own play",
                checkpoint.folder, snapshot.epoch,
            )  # fmt: skip
            load_weights(path, run.agent.player.environment, run.agent.network)
            run.agent.total_train_steps = snapshot.total_train_steps
            run.begin(random_play=False)
    finish(interrupt)


def test(arguments: Sequence[str], program: str) -> None:
    """Measure how well a snapshot plays."""
    parser = flags.parser(program, "Test a snapshot, without training.")
    parser.add_argument("snapshot", type=Path, help="such as snapshots/pong_10.pkl")
    group = parser.add_argument_group("Test")
    group.add_argument(
        "--protocol", choices=tuple(evaluation.PROTOCOLS), help="rules of the test (default: simple_dqn)"
    )
    group.add_argument("--json", type=Path, metavar="FILE", help="write the outcome here as well")
    given = parser.parse(arguments)
    protocol = given.get("protocol", "simple_dqn")
    snapshot = Snapshot.load(given["snapshot"])
    config = settle(
        Config.from_flags(
            {
                **snapshot.flags,
                "random_seed": None,
                "play_games": 0,
                **evaluation.PROTOCOLS[protocol].flags,
                "game": snapshot.game,
                "load_weights": str(given["snapshot"]),
                "start_epoch": snapshot.epoch,
                **given,
            }
        )
    )
    play(config, protocol, given.get("json"))


def profile(arguments: Sequence[str], program: str, verb: str) -> None:
    """Show where the time goes in one phase."""
    parser = flags.parser(program, f"Profile the {verb.removeprefix('profile_')} phase.")
    parser.add_argument("game", help="path of a ROM, or the name of a game that ale-py ships")
    given = parser.parse(arguments)
    config = settle(Config.from_flags({"replay_size": 10_000, "epochs": 1, **PROFILE_FLAGS[verb], **given}))
    with Interrupt() as interrupt, closing(make_run(config, interrupt)) as run:
        if config.run.load_weights:
            load_weights(Path(config.run.load_weights), run.agent.player.environment, run.agent.network)
        profiler = cProfile.Profile()
        profiler.runcall(run.begin)
    path = home() / "results" / f"{run_name(config, verb)}.prof"
    with replacing(path) as beside:
        profiler.dump_stats(beside)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(PROFILE_LINES)
    logger.info("The whole profile is in %s", path)


def home() -> Path:
    """Return the folder that holds `snapshots/` and `results/`."""
    return Path(os.environ.get("SIMPLE_DQN_HOME", "."))


def start_log(level: str) -> None:
    """Send messages of `level` and above to standard error, above the progress bar."""
    handler = ConsoleHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)


def settle(config: Config) -> Config:
    """Start the log, draw a seed unless one was given, and refuse settings that contradict each other."""
    start_log(config.run.log_level)
    if config.run.random_seed is None:
        config = config.with_flags({"random_seed": random_streams.draw_seed()})
    logger.info("Random seed is %d", config.seed)
    rules.check(config)
    return config


def run_name(config: Config, label: str | None) -> str:
    """Return what the files of a run are called: the game, and the label where there is one.

    Raises:
        UserError: The label cannot be part of a file's name.
    """
    if label and ("/" in label or label.startswith(".")):
        raise UserError(f"label {label!r} cannot be part of a file's name: use letters, digits, - and _")
    name = game_name(config.environment)
    return f"{name}_{label}" if label else name


def load_weights(path: Path, environment: Environment, network: "DeepQNetwork") -> None:
    """Give `network` the weights in the snapshot at `path`.

    Raises:
        UserError: There are none, or they are not for the game and the actions of `environment`.
    """
    logger.info("Loading weights from %s", path)
    snapshot = Snapshot.load(path)
    check_fits(path, snapshot, environment.name, environment.actions)
    network.set_weights(snapshot.weights)
    network.update_target_network()


def play(config: Config, protocol: str = "simple_dqn", json: Path | None = None) -> None:
    """Play without learning, print how it went, and write it where that was asked for."""
    environment = make_environment(config, training=False)
    network = make_network(config, environment)
    if config.run.load_weights:
        load_weights(Path(config.run.load_weights), environment, network)
    player = make_player(config, environment, network)
    with closing(make_statistics(config)) as statistics, Interrupt() as interrupt:
        outcome = evaluation.evaluate(player, config, protocol, statistics, interrupt)
    environment.close()
    print(outcome)
    if json:
        outcome.write_json(json)
    finish(interrupt)


def finish(interrupt: Interrupt) -> None:
    """Say that all is done, or let Ctrl-C have its exit code after the clean end."""
    if interrupt.requested:
        raise KeyboardInterrupt
    logger.info("All done")


VERBS: dict[str, Callable[[Sequence[str], str], None]] = {
    "train": train,
    "resume": resume,
    "test": test,
    "plot": plot.main,
    **{verb: partial(profile, verb=verb) for verb in PROFILE_FLAGS},
}


def run(arguments: Sequence[str]) -> int:
    """Carry out one command, and return the exit code: 2 for what the user can mend, 130 for Ctrl-C."""
    verb = arguments[0] if arguments else "--help"
    program = os.environ.get("SIMPLE_DQN_PROGRAM", f"simple-dqn {verb}")
    if verb not in VERBS:
        print(f"usage: simple-dqn VERB [arguments]; VERB is one of {', '.join(VERBS)}", file=sys.stderr)
        return 0 if verb in ("-h", "--help") else 2
    try:
        VERBS[verb](arguments[1:], program)
    except UserError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def console() -> NoReturn:
    """Run the command line `simple-dqn`."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    console()
