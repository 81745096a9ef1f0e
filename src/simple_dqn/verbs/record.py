"""`record`: film a snapshot while it plays, with the game's sound."""

import logging
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from simple_dqn.config import Config
from simple_dqn.errors import UserError, printable
from simple_dqn.files import home, replacing
from simple_dqn.interrupt import Interrupt
from simple_dqn.run import make_environment
from simple_dqn.statistics import Writer
from simple_dqn.statistics.writers import TRACKERS
from simple_dqn.verbs.common import check_weights, make_watched_player, open_snapshot, run_of
from simple_dqn.verbs.settings import flags_of_playing, parser_for, settings_of_agent
from simple_dqn.watch.film import FORMATS, Film, Recording, replacing_screens

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str], program: str) -> None:
    """Film a snapshot while it plays."""
    parser = parser_for(
        "record", program, "Film a snapshot while it plays: a film with sound, and a PNG of each frame."
    )
    parser.add_argument("snapshot", type=Path, help="such as snapshots/pong_10.pkl")
    group = parser.add_argument_group("Film")
    group.add_argument("--format", choices=tuple(FORMATS), help="kind of film (default: mov)")
    text = "draw Q-values and where the network looks into the film (default: false)"
    parser.add_switch("overlay", text, group)
    given = flags_of_playing(parser, arguments)
    path: Path = given["snapshot"]
    snapshot = open_snapshot(path)
    config = settings_of_agent("record", path, snapshot, given)
    if config.environment.workers != 1:
        raise UserError(f"--workers {config.environment.workers}: one game at a time is filmed; leave it out")
    if not config.run.play_games:
        raise UserError("--play_games 0 leaves nothing to film: give at least 1")
    check_weights(config)
    prefix = run_of(path, snapshot)
    name = prefix if prefix.startswith(f"{snapshot.game}_") else snapshot.game  # the game, and the label
    videos, kind = home() / "videos", given.get("format", "mov")
    film = videos / f"{name}_{snapshot.epoch}.{kind}"
    tracker: Writer | None = None
    if config.run.track != "none":
        tracker = TRACKERS[config.run.track](home() / "results" / name, config.shared_flags(), True)
    played = record(config, film, videos / name, kind, given.get("overlay", False))
    print(printable(f"{film}: {played}; its screens are in {videos / name}"))
    if tracker:
        with closing(tracker):
            tracker.open()
            tracker.on_file(film)


def record(config: Config, path: Path, folder: Path, kind: str, overlay: bool) -> str:
    """Play `config.run.play_games` games, film them to `path`, and write each frame into `folder`.

    Returns:
        The length of the film and the scores, in words.

    Raises:
        UserError: They cannot be written, or the snapshot does not fit; both are as they were.
        KeyboardInterrupt: The user stopped it; both are as they were.
    """
    recording = Recording(config.agent.exploration_rate_test, overlay)
    environment = make_environment(config, training=False, watcher=recording.watch)
    with closing(environment), Interrupt() as interrupt:
        player = make_watched_player(config, environment, saliency=overlay)
        with (
            replacing(path) as beside,
            replacing_screens(folder) as screens,
            closing(Film(beside, kind, environment.frames_per_second)) as film,
        ):
            recording.play(player, film, screens, config.run.play_games, lambda: interrupt.requested)
            film.finish()
    minutes, seconds = divmod(int(film.frames / film.rate), 60)
    scores = ", ".join(f"{score:g}" for score in recording.scores)
    return f"{film.frames} frames, {minutes}:{seconds:02}, score {scores}"
