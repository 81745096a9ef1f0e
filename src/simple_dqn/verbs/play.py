"""`play`: watch a snapshot play, and play beside it; or play alone."""

import logging
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from simple_dqn.config import Config
from simple_dqn.environment import game_name, named
from simple_dqn.errors import UserError
from simple_dqn.files import home, is_snapshot, kind_of
from simple_dqn.interrupt import Interrupt
from simple_dqn.run import make_environment
from simple_dqn.verbs.common import check_weights, finish, make_watched_player, open_snapshot
from simple_dqn.verbs.settings import (
    flags_of_playing,
    parser_for,
    settings_for,
    settings_of_agent,
    settle,
)
from simple_dqn.watch.player import HELP, Controls
from simple_dqn.watch.viewer import DISPLAYS, FrameClock, Speaker, Viewer, open_display

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str], program: str) -> None:
    """Watch a snapshot play, and play beside it; or play alone."""
    parser = parser_for("play", program, f"Watch an agent play, and take over from it. Keys: {HELP}.")
    parser.add_argument(
        "player", metavar="SNAPSHOT|ROM", help="such as snapshots/pong_10.pkl; roms/pong.rom: play it alone"
    )
    group = parser.add_argument_group("Play")
    group.add_argument(
        "--display", choices=DISPLAYS, help="where to play (default: window, if there can be one)"
    )
    given = flags_of_playing(parser, arguments)
    config = _settings(given["player"], given)
    if config.environment.workers != 1:
        raise UserError(f"--workers {config.environment.workers}: one game at a time is shown; leave it out")
    check_weights(config)
    play(config, given.get("display"))


def _settings(player: str, given: dict[str, Any]) -> Config:
    """Return the settings to play with a snapshot, or alone with a game."""
    path = Path(player)
    unfinished = re.search(r"_\d+$", player) and not kind_of(path)  # such as pong_200 for pong_200.pkl
    if not (unfinished or path.suffix in (".pkl", ".prm") or is_snapshot(path)):
        given = named({"game": player, **given})
        return settle(settings_for("play", given, fixed={"random_starts": 0}), log=False)
    return settings_of_agent("play", path, open_snapshot(path), given)


def play(config: Config, display: str | None) -> None:
    """Play `config.run.play_games` games, or until the person has had enough.

    The `display` is `window` or `terminal`; None: a window if one can be opened, else the terminal.

    Raises:
        UserError: There is nowhere to play, or the snapshot does not fit.
    """
    name = game_name(config.environment)
    alone = config.run.load_weights is None
    controls = Controls(alone)
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
