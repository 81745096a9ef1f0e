"""`test`, `play`, `record` and `nvis`: what people do with a snapshot; and its settings and weights."""

import logging
import math
import re
from collections.abc import Callable, Sequence, Set
from contextlib import ExitStack, closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simple_dqn import evaluation, hub, random_streams
from simple_dqn.command_line import Parser
from simple_dqn.config import BOOLEANS, SETTINGS, Config, MemoryConfig, RunConfig
from simple_dqn.environment import game_name, import_game, is_atari
from simple_dqn.environment.atari import game_of
from simple_dqn.environment.interface import Environment
from simple_dqn.errors import Interrupt, UserError, printable
from simple_dqn.evaluation import Evaluation
from simple_dqn.files import SNAPSHOT_SUFFIXES, check_target, home, is_snapshot, kind_of, replacing
from simple_dqn.rules import NETWORK_SHAPE
from simple_dqn.run import make_environment, make_network, make_player, make_statistics
from simple_dqn.snapshot import Snapshot, check_fits, check_layers
from simple_dqn.statistics import Writer
from simple_dqn.statistics.writers import TRACKERS, start_log
from simple_dqn.verbs.settings import PLAYING_HELP, parser_for, resolve, settle
from simple_dqn.watch.film import FORMATS, Film, Recording, replacing_screens
from simple_dqn.watch.player import HELP, Controls, WatchedPlayer
from simple_dqn.watch.viewer import DISPLAYS, FrameClock, Speaker, Viewer, open_display

if TYPE_CHECKING:
    from simple_dqn.dqn import DeepQNetwork

logger = logging.getLogger(__name__)

AGENT = "snapshots/trained/breakout_200.pkl"  # of the examples in the help
HTML = (b"<!DOCTYPE", b"\n<!DOCTYPE")  # how a page of `nvis` begins
GAME = "a ROM, a game that ale-py ships, a Gymnasium id, or FILE.py"
SNAPSHOT = "such as snapshots/pong_10.pkl, or hf://USER/REPO"
LABEL = re.compile(r"[\w+=@,~-][\w+=@,~. -]{0,99}")
LABEL_RULE = "use up to 100 letters, digits, spaces and _ - + = @ , ~ . (no space or dot first)"
# A verb that only plays does not learn, whatever the snapshot's settings say.
PLAYS_ONLY: dict[str, Any] = {
    "schedule": "serial", "synchronize": None, "play_games": 0, "random_seed": None,
    "replay_size": MemoryConfig().replay_size, "sampler": "uniform", "target_rule": "max", "train_steps": 0,
    "tensorboard": False,
}  # fmt: skip
# More threads do not speed up the prediction for one state.
ONE_GAME = {**PLAYS_ONLY, "workers": 1, "processes": 0, "threads": 1, "emulator": "ale"}
# Settings that only training reads.
TRAINING_ONLY = {
    *(name for name, one in SETTINGS.items() if one["part"] in ("memory", "network", "agent", "cluster")),
    *(name for name in BOOLEANS if not name.endswith("_norm")), "random_steps", "train_steps", "epochs",
    "save_weights_prefix", "checkpoint_minutes", "checkpoint_steps", "keep", "terminal_on_life_loss",
} - {*NETWORK_SHAPE, "atoms", "quantiles", "v_min", "v_max", "exploration_rate_test"}  # fmt: skip
MEASURING_ONLY = {"csv_file", "tensorboard", "test_steps"}  # that only training and tests read
PAGE_ONLY = {"visualization_filters", "visualization_file"}  # that only `nvis` reads


def run_name(config: Config, label: str | None) -> str:
    """Return the name of a run's files, the game and the `label`; raise UserError if no file can have it."""
    if label and not LABEL.fullmatch(label):
        raise UserError(f"label {label!r} cannot be part of a file's name: {LABEL_RULE}")
    name = game_name(config.environment)
    return f"{name}_{label}" if label else name


def run_of(path: Path, snapshot: Snapshot) -> str:
    """Return the name of the run that wrote `snapshot`, by the name of its file, `path`."""
    return path.stem.removesuffix(f"_{snapshot.epoch}")


def open_snapshot(path: Path, game: str | None = None) -> Snapshot:
    """Return the snapshot at `path`, of `game` if given, with a game that can be played; see `Snapshot.load`.

    The game of a snapshot of Neon's is `game`, or the longest known one with which the file's name begins.
    """
    snapshot = Snapshot.load(path, game)
    check_fits(path, snapshot, game or snapshot.game)
    atari = snapshot.flags.get("environment", "ale") == "ale"
    return replace(snapshot, game=(atari and game_of(snapshot.game.lower())) or snapshot.game)


def flags_of_playing(parser: Parser, arguments: Sequence[str], unused: Set[str]) -> dict[str, Any]:
    """Return the flags of a verb that only plays, without those of training and `unused`; start the log."""
    given, unused = parser.parse(arguments), TRAINING_ONLY | unused
    start_log(given.get("log_level", "INFO"))
    if ignored := [f"--{name}" for name in given if name in unused]:
        logger.warning("Ignored, as this command does not use them: %s", ", ".join(ignored))
    if given.get("emulator") == "auto":  # what the verb uses anyway: ale, if it shows the game
        del given["emulator"]
    return {name: value for name, value in given.items() if name not in unused}


def read_agent(
    parser: Parser, arguments: Sequence[str], unused: Set[str]
) -> tuple[dict[str, Any], Path, Snapshot]:
    """Return the flags of a verb that plays, and the snapshot that they name with its path."""
    given = flags_of_playing(parser, arguments, unused)
    path = hub.local(given["snapshot"])
    return given, path, open_snapshot(path)


def settings_of_agent(
    path: Path, snapshot: Snapshot, given: dict[str, Any], fixed: dict[str, Any] | None = None
) -> Config:
    """Return the settings that use the agent of `snapshot`, at `path`; see `resolve`."""
    own = {"load_weights": str(path), "start_epoch": snapshot.epoch, "game": snapshot.game}
    return settle(resolve(given, portable(snapshot.flags), {**own, **(fixed or ONE_GAME)}), log=False)


def portable(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Return the flags of a snapshot without bfloat16, which is slow on processors that emulate it."""
    return {**snapshot, "datatype": "auto"} if snapshot.get("datatype") == "bfloat16" else snapshot


def workers_for(games: int, snapshot: dict[str, Any]) -> Any:
    """Return the workers of a test: as many as in training, but not more than `games`; 0: no limit."""
    return min(snapshot.get("workers", 1), games or math.inf)


def check_weights(config: Config) -> Snapshot | None:
    """Return the snapshot to load, if any, or raise UserError, before PyTorch is imported, if it is unfit."""
    if not config.run.load_weights:
        return None
    path = hub.local(config.run.load_weights)
    snapshot = open_snapshot(path)
    check_fits(path, snapshot, game_name(config.environment))
    check_layers(path, snapshot, config)
    return snapshot


def load_weights(
    path: Path | str | None, environment: Environment, network: "DeepQNetwork",
    snapshot: Snapshot | None = None,
) -> None:  # fmt: skip
    """Give `network` the weights at `path`, if any, or in `snapshot`, opened before; they must fit."""
    if path:
        snapshot = snapshot or open_snapshot(hub.local(path))
        logger.info("Loading weights from %s", path)
        check_fits(Path(path), snapshot, environment.name, environment.actions)
        network.set_weights(snapshot.weights)
        network.update_target_network()


def make_watched_player(
    config: Config, environment: Environment, saliency: bool, person: Callable[[], int | None] = lambda: None
) -> WatchedPlayer:
    """Return a player by the network of the snapshot `config.run.load_weights`; None: a person plays alone.

    `person` returns the action that a person chooses; None: the agent chooses.
    """
    rng = random_streams.stream(config.seed, "test exploration")
    length = config.memory.history_length
    if not config.run.load_weights:
        return WatchedPlayer(environment, None, length, rng, person=person)
    network = make_network(config, environment)
    load_weights(config.run.load_weights, environment, network)
    images = len(environment.screen_shape) == 2
    heat = network.guided_backpropagation().saliency if saliency and images else None
    return WatchedPlayer(environment, network.predict, length, rng, heat, person)


def finish(interrupt: Interrupt) -> None:
    """Log that all is done; after a signal, raise KeyboardInterrupt with its number instead."""
    if interrupt.number:
        raise KeyboardInterrupt(interrupt.number)
    logger.info("Stopped by a callback" if interrupt.requested else "All done")


def test(arguments: Sequence[str], program: str) -> Evaluation:
    """Measure how well a snapshot plays, and return the outcome."""
    used, example = f"test_steps workers {PLAYING_HELP}", f"{AGENT} --protocol nature"
    parser = parser_for(program, "Test a snapshot.", example, PLAYS_ONLY, snapshot=SNAPSHOT, most_used=used)
    text = "rules of the test (default: simple_dqn)"
    parser.add_argument("--protocol", choices=tuple(evaluation.PROTOCOLS), help=text)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome here as well")
    given, path, snapshot = read_agent(parser, arguments, PAGE_ONLY)
    protocol = given.get("protocol", "simple_dqn")
    rules = evaluation.PROTOCOLS[protocol]
    games = given.get("play_games") or rules.games
    fixed = PLAYS_ONLY | evaluation.protocol_flags(protocol, snapshot.actions)
    fixed["workers"] = workers_for(games, snapshot.flags)
    if not snapshot.flags.get("test_steps"):  # trained without tests
        fixed["test_steps"] = RunConfig().test_steps
    if given.get("random_starts"):  # in place of the protocol's no-ops, which are counted in frames
        fixed["random_start_frames"] = 0
    config = settings_of_agent(path, snapshot, given, fixed)
    if rules.flags and not is_atari(config.environment):
        remedy = f"leave it out, and give --play_games {rules.games} for as many games"
        raise UserError(f"--protocol {protocol} is for Atari games: {remedy}")
    if games and "test_steps" in given:
        counts = "--play_games" if given.get("play_games") else f"--protocol {protocol}"
        raise UserError(f"{counts} counts games: leave out --test_steps")
    if not (config.run.play_games or rules.games or config.run.test_steps):
        raise UserError("there is nothing to test: give --test_steps, --play_games or --protocol nature")
    return measure(config, protocol, given.get("json"))


def measure(config: Config, protocol: str = "simple_dqn", json: Path | None = None) -> Evaluation:
    """Play without learning, by the settings of `protocol` in `config`; print and return the outcome."""
    if json:
        check_target(json, "--json", evaluation.JSON)
    trained = snapshot.total_train_steps if (snapshot := check_weights(config)) else 0
    with make_environment(config, training=False) as environment:
        network = make_network(config, environment)
        load_weights(config.run.load_weights, environment, network, snapshot)
        player = make_player(config, environment, network)
        with Interrupt() as interrupt, closing(make_statistics(config, interrupt)) as statistics:
            outcome = evaluation.evaluate(player, config, protocol, statistics, interrupt, trained)
    if outcome.scores or not interrupt.requested:  # the advice for a test without a score is for longer ones
        print(outcome)
    if json and interrupt.requested:  # half a test would favor short games
        logger.warning("%s was not written, as the test was stopped", json)
    elif json:
        outcome.write_json(json)
    finish(interrupt)
    return outcome


def play(arguments: Sequence[str], program: str) -> None:
    """Watch a snapshot play, and play beside it; or play alone."""
    about = f"Watch an agent play, and take over from it, or play a game alone. Keys: {HELP}."
    text = f"{SNAPSHOT}; or a game to play alone, such as pong"
    parser = parser_for(program, about, AGENT, ONE_GAME, snapshot=text, most_used=PLAYING_HELP)
    text = "where to play (default: window, if there can be one)"
    parser.add_argument("--display", choices=DISPLAYS, help=text)
    given = flags_of_playing(parser, arguments, MEASURING_ONLY | PAGE_ONLY | {"track"})
    player, path = given["snapshot"], hub.local(given["snapshot"])
    unfinished = re.search(r"_\d+$", player) and not kind_of(path)  # such as pong_200 for pong_200.pkl
    if unfinished or path.suffix in SNAPSHOT_SUFFIXES or is_snapshot(path):
        config = settings_of_agent(path, open_snapshot(path), given)
    else:
        fixed = {**ONE_GAME, "random_starts": 0, "observation": "pixels"}
        config = settle(resolve(import_game({"game": player, **given}), fixed=fixed), log=False)
    _check_shown(config)
    _show(config, given.get("display"))


def _check_shown(config: Config) -> None:
    if config.environment.workers != 1:
        raise UserError(f"--workers {config.environment.workers}: one game at a time is shown; leave it out")
    if config.environment.emulator == "warp":
        raise UserError("--emulator warp has no colors and no sound to show: leave it out")
    check_weights(config)


def _show(config: Config, display: str | None) -> None:
    """Play until the person quits, in a `display`; None: in a window, or else in the terminal."""
    controls = Controls(config.run.load_weights is None)
    with Interrupt() as interrupt, ExitStack() as open_things:
        atari, title = is_atari(config.environment), f"Simple-DQN: {game_name(config.environment)}"
        screen = open_display(display, title, atari)
        speaker = open_things.enter_context(closing(Speaker()))
        viewer = Viewer(controls, screen, speaker, FrameClock(), config.agent.exploration_rate_test)
        games = make_environment(config, training=False, watcher=viewer.watch)
        environment = open_things.enter_context(games)
        player = make_watched_player(
            config, environment, saliency=True,
            person=lambda: controls.action(environment.action_names, can_rest=bool(environment.rom_md5)),
        )  # fmt: skip
        open_things.callback(screen.close)
        for _ in viewer.follow(player, config.run.play_games):
            if interrupt.requested or controls.ended:
                break
    logger.info("Games played: %d; scores: %s", len(viewer.scores), viewer.scores or "none")
    finish(interrupt)


def record(arguments: Sequence[str], program: str) -> None:
    """Film a snapshot while it plays."""
    about = "Record a video of a snapshot that plays, with sound."
    fixed = {**ONE_GAME, "play_games": 1}
    example = f"{AGENT} --overlay"
    parser = parser_for(program, about, example, fixed, snapshot=SNAPSHOT, most_used=PLAYING_HELP)
    parser.add_argument("--format", choices=tuple(FORMATS), help="kind of video (default: mov)")
    parser.add_switch("overlay", "draw Q-values and saliency into the video (default: false)")
    parser.add_switch("keep_frames", "also save each frame as a PNG file in videos/NAME (default: false)")
    given, path, snapshot = read_agent(parser, arguments, MEASURING_ONLY | PAGE_ONLY)
    track, kind = given.pop("track", "none"), given.get("format", "mov")
    config = settings_of_agent(path, snapshot, given, fixed)
    if not config.run.play_games:
        raise UserError("--play_games 0 leaves nothing to record: give at least 1")
    _check_shown(config)
    run = run_of(path, snapshot)
    name = run if run.startswith(f"{snapshot.game}_") else snapshot.game  # the game, and the label
    run_path = home() / "results" / name
    tracker = TRACKERS[track](run_path, config.shared_flags(), True) if track != "none" else Writer()
    video = home() / "videos" / f"{name}_{snapshot.epoch}.{kind}"
    folder = video.parent / name if given.get("keep_frames") else None
    played = film(config, video, folder, kind, given.get("overlay", False))
    print(printable(f"{video}: {played}" + (f"; its frames are in {folder}" if folder else "")))
    with closing(tracker):
        tracker.open()
        tracker.on_file(video)


def film(config: Config, path: Path, folder: Path | None, kind: str, overlay: bool) -> str:
    """Play games, film them to `path`, write each frame into `folder`, if any; return its length and scores.

    If it fails, or the user stops it, earlier files at both places are unchanged.
    """
    recording = Recording(config.agent.exploration_rate_test, overlay)
    environment = make_environment(config, training=False, watcher=recording.watch)
    with environment, Interrupt() as interrupt:
        player = make_watched_player(config, environment, saliency=overlay)
        with (
            replacing(path) as beside,
            replacing_screens(folder) if folder else nullcontext() as screens,
            closing(Film(beside, kind, environment.frames_per_second)) as made,
        ):
            recording.play(player, made, screens, config.run.play_games, interrupt)
            made.finish()
    minutes, seconds = divmod(int(made.frames / made.rate), 60)
    scores = ", ".join(f"{score:.7g}" for score in recording.scores)
    return f"{made.frames} frames, {minutes}:{seconds:02}, score {scores}"


def nvis(arguments: Sequence[str], program: str) -> None:
    """Play one game, and draw what the network of a snapshot sees in it, as a page for the browser."""
    about = "Draw what the network of a snapshot sees, as an HTML page."
    used = f"visualization_filters visualization_file {PLAYING_HELP.removeprefix('play_games')}"
    parser = parser_for(program, about, AGENT, ONE_GAME, snapshot=SNAPSHOT, most_used=used)
    given, path, snapshot = read_agent(parser, arguments, MEASURING_ONLY | {"play_games", "track"})
    config = settings_of_agent(path, snapshot, given)
    if config.environment.observation == "vector":
        raise UserError(f"nvis needs images, and {path} was trained on numbers: give another snapshot")
    _check_shown(config)
    file = Path(config.run.visualization_file or home() / "results" / f"{run_of(path, snapshot)}.html")
    check_target(file, "--visualization_file", HTML)
    rate = config.agent.exploration_rate_test
    from nvis.page import draw, play_game  # imports Bokeh

    with make_environment(config, training=False) as environment:
        network = make_network(config, environment)
        load_weights(path, environment, network, snapshot)
        game = play_game(make_player(config, environment, network), config.memory.history_length, rate)
        name = environment.name
    logger.info("Played a game of %s: %d steps, score %.7g", name, len(game), game.rewards.sum(dtype=float))
    facts = {"game": name, "snapshot": path.name, "epoch": snapshot.epoch, "exploration_rate": rate}
    page = draw(game, network, config.run.visualization_filters, {**facts, "seed": config.seed})
    with replacing(file, starts=HTML) as beside:
        beside.write_text(page, encoding="utf-8")
    print(printable(f"The page is in {file}"))
