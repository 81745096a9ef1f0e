"""`test`, `play`, `record` and `nvis`: what people do with a snapshot; and play alone."""

import logging
import re
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from simple_dqn import evaluation
from simple_dqn.config import Config, RunConfig
from simple_dqn.environment import game_name, is_atari, named
from simple_dqn.errors import UserError, printable
from simple_dqn.files import check_target, home, is_snapshot, kind_of, replacing
from simple_dqn.interrupt import Interrupt
from simple_dqn.run import make_environment, make_network, make_player, make_statistics
from simple_dqn.statistics import Writer
from simple_dqn.verbs.common import (
    ONE_GAME,
    PLAYS_ONLY,
    SNAPSHOT,
    check_weights,
    finish,
    flags_of_playing,
    load_weights,
    make_watched_player,
    open_snapshot,
    run_of,
    settings_of_agent,
    workers_for,
)
from simple_dqn.verbs.settings import OF_GAMES, parser_for, resolve, settle
from simple_dqn.watch.film import FORMATS, Film, Recording, replacing_screens
from simple_dqn.watch.player import HELP, Controls
from simple_dqn.watch.viewer import DISPLAYS, FrameClock, Speaker, Viewer, open_display

logger = logging.getLogger(__name__)

AGENT = "snapshots/trained/breakout_200.pkl"


def test(arguments: Sequence[str], program: str) -> None:
    """Measure how well a snapshot plays."""
    parser = parser_for(program, "Test a snapshot, without training.", f"{AGENT} --protocol nature",
                        PLAYS_ONLY, of_snapshot=True, most_used=f"test_steps workers {OF_GAMES}")  # fmt: skip
    parser.add_argument("snapshot", type=Path, help=SNAPSHOT)
    text = "rules of the test (default: simple_dqn)"
    parser.add_argument("--protocol", choices=tuple(evaluation.PROTOCOLS), help=text)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome here as well")
    given = flags_of_playing(parser, arguments)
    protocol = given.get("protocol", "simple_dqn")
    rules, path = evaluation.PROTOCOLS[protocol], given["snapshot"]
    snapshot = open_snapshot(path)
    games = given.get("play_games") or rules.games or 0
    fixed = PLAYS_ONLY | evaluation.protocol_flags(protocol, snapshot.actions)
    fixed |= workers_for(games, snapshot.flags)
    if not snapshot.flags.get("test_steps"):  # trained without tests
        fixed["test_steps"] = RunConfig().test_steps
    if given.get("random_starts"):  # in place of the protocol's no-ops, which are counted in frames
        fixed["random_start_frames"] = 0
    config = settings_of_agent(path, snapshot, given, fixed)
    if rules.flags and not is_atari(config.environment):
        remedy = f"leave it out, and give --play_games {rules.games} for as many games"
        raise UserError(f"--protocol {protocol} is for Atari games: {remedy}")
    if not (config.run.play_games or rules.games or config.run.test_steps):
        raise UserError("there is nothing to test: give --test_steps, --play_games or --protocol nature")
    measure(config, protocol, given.get("json"))


def measure(config: Config, protocol: str = "simple_dqn", json: Path | None = None) -> None:
    """Play without learning, by the settings of `protocol` in `config`; print and write the outcome."""
    if json:
        check_target(json, "--json")
    check_weights(config)
    environment = make_environment(config, training=False)
    network = make_network(config, environment)
    load_weights(config.run.load_weights, environment, network)
    player = make_player(config, environment, network)
    with closing(make_statistics(config)) as statistics, Interrupt() as interrupt:
        outcome = evaluation.evaluate(player, config, protocol, statistics, interrupt)
    environment.close()
    print(outcome)
    if json and not interrupt.requested:  # half a test would favor short games
        outcome.write_json(json)
    finish(interrupt)


def play(arguments: Sequence[str], program: str) -> None:
    """Watch a snapshot play, and play beside it; or play alone."""
    about = f"Watch an agent play, and take over from it. Keys: {HELP}."
    parser = parser_for(program, about, AGENT, ONE_GAME, most_used=OF_GAMES)
    text = f"{SNAPSHOT}; roms/pong.rom: play it alone"
    parser.add_argument("player", metavar="SNAPSHOT|ROM", help=text)
    text = "where to play (default: window, if there can be one)"
    parser.add_argument("--display", choices=DISPLAYS, help=text)
    given = flags_of_playing(parser, arguments)
    config = _to_play(given["player"], given)
    _check_one_game(config)
    check_weights(config)
    _show(config, given.get("display"))


def _to_play(player: str, given: dict[str, Any]) -> Config:
    """Return the settings to play with a snapshot, or alone with a game."""
    path = Path(player)
    unfinished = re.search(r"_\d+$", player) and not kind_of(path)  # such as pong_200 for pong_200.pkl
    if unfinished or path.suffix in (".pkl", ".prm") or is_snapshot(path):
        return settings_of_agent(path, open_snapshot(path), given)
    alone = named({"game": player, **given})
    return settle(resolve(alone, fixed={**ONE_GAME, "random_starts": 0}), log=False)


def _check_one_game(config: Config) -> None:
    if config.environment.workers != 1:
        raise UserError(f"--workers {config.environment.workers}: one game at a time is shown; leave it out")


def _show(config: Config, display: str | None) -> None:
    """Play until the person has had enough, in a `window` or `terminal`; None: the one that can be opened."""
    name = game_name(config.environment)
    controls = Controls(config.run.load_weights is None)
    with Interrupt() as interrupt, ExitStack() as open_things:
        screen = open_display(display, f"Simple-DQN: {name}")
        speaker = Speaker()
        open_things.callback(speaker.close)
        pictures = home() / "videos" / name
        viewer = Viewer(controls, screen, speaker, config.agent.exploration_rate_test, pictures, FrameClock())
        environment = make_environment(config, training=False, watcher=viewer.watch)
        open_things.callback(environment.close)
        player = make_watched_player(
            config, environment, saliency=True,
            person=lambda: controls.action(environment.action_names, can_rest=bool(environment.rom_md5)),
        )  # fmt: skip
        open_things.callback(screen.close)
        viewer.play(player, config.run.play_games, lambda: interrupt.requested)
    logger.info("Games played: %d; scores: %s", len(viewer.scores), viewer.scores or "none")
    finish(interrupt)


def record(arguments: Sequence[str], program: str) -> None:
    """Film a snapshot while it plays."""
    about = "Film a snapshot while it plays: a film with sound, and a PNG of each frame."
    fixed = {**ONE_GAME, "play_games": 1}
    parser = parser_for(program, about, f"{AGENT} --overlay", fixed, of_snapshot=True, most_used=OF_GAMES)
    parser.add_argument("snapshot", type=Path, help=SNAPSHOT)
    parser.add_argument("--format", choices=tuple(FORMATS), help="kind of film (default: mov)")
    parser.add_switch("overlay", "draw Q-values and where the network looks into the film (default: false)")
    given = flags_of_playing(parser, arguments)
    path, track = given["snapshot"], given.pop("track", "none")
    snapshot = open_snapshot(path)
    config = settings_of_agent(path, snapshot, given, fixed)
    _check_one_game(config)
    if not config.run.play_games:
        raise UserError("--play_games 0 leaves nothing to film: give at least 1")
    check_weights(config)
    prefix, videos, kind = run_of(path, snapshot), home() / "videos", given.get("format", "mov")
    name = prefix if prefix.startswith(f"{snapshot.game}_") else snapshot.game  # the game, and the label
    film_path = videos / f"{name}_{snapshot.epoch}.{kind}"
    tracker: Writer | None = None
    if track != "none":
        from simple_dqn.statistics.writers import TRACKERS

        tracker = TRACKERS[track](home() / "results" / name, config.shared_flags(), True)
    played = film(config, film_path, videos / name, kind, given.get("overlay", False))
    print(printable(f"{film_path}: {played}; its screens are in {videos / name}"))
    if tracker:
        with closing(tracker):
            tracker.open()
            tracker.on_file(film_path)


def film(config: Config, path: Path, folder: Path, kind: str, overlay: bool) -> str:
    """Play games, film them to `path`, write each frame into `folder`, and return its length and scores.

    If it fails, or the user stops it, both are as they were.
    """
    recording = Recording(config.agent.exploration_rate_test, overlay)
    environment = make_environment(config, training=False, watcher=recording.watch)
    with closing(environment), Interrupt() as interrupt:
        player = make_watched_player(config, environment, saliency=overlay)
        with (
            replacing(path) as beside,
            replacing_screens(folder) as screens,
            closing(Film(beside, kind, environment.frames_per_second)) as made,
        ):
            recording.play(player, made, screens, config.run.play_games, lambda: interrupt.requested)
            made.finish()
    minutes, seconds = divmod(int(made.frames / made.rate), 60)
    scores = ", ".join(f"{score:g}" for score in recording.scores)
    return f"{made.frames} frames, {minutes}:{seconds:02}, score {scores}"


def nvis(arguments: Sequence[str], program: str) -> None:
    """Play one game, and draw what the network of a snapshot sees in it, as a page for the browser."""
    about = "Draw what the network of a snapshot sees, as an HTML page."
    used = f"visualization_filters visualization_file {OF_GAMES}"
    parser = parser_for(program, about, AGENT, ONE_GAME, of_snapshot=True, most_used=used)
    parser.add_argument("snapshot", type=Path, help=SNAPSHOT)
    given = flags_of_playing(parser, arguments)
    path = given["snapshot"]
    snapshot = open_snapshot(path)
    config = settings_of_agent(path, snapshot, given)
    check_weights(config)
    file = Path(config.run.visualization_file or home() / "results" / f"{run_of(path, snapshot)}.html")
    check_target(file, "--visualization_file")
    rate = config.agent.exploration_rate_test
    from nvis.page import draw, play_game  # imports Bokeh

    with closing(make_environment(config, training=False)) as environment:
        network = make_network(config, environment)
        load_weights(path, environment, network, snapshot)
        game = play_game(make_player(config, environment, network), config.memory.history_length, rate)
        name = environment.name
    logger.info("Played a game of %s: %d steps, score %g", name, len(game), game.rewards.sum())
    facts = {"game": name, "snapshot": path.name, "epoch": snapshot.epoch, "exploration_rate": rate}
    page = draw(game, network, config.run.visualization_filters, {**facts, "seed": config.seed})
    with replacing(file) as beside:
        beside.write_text(page, encoding="utf-8")
    print(printable(f"The page is in {file}"))
