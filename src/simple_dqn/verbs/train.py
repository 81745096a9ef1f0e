"""`train`: learn a game from the start, or go on after a crash."""

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from simple_dqn import settings_file
from simple_dqn.config import Config, RunConfig, Share
from simple_dqn.environment import as_played
from simple_dqn.errors import UserError
from simple_dqn.files import home
from simple_dqn.interrupt import Interrupt
from simple_dqn.presets import USUAL
from simple_dqn.run import make_run
from simple_dqn.snapshot import CheckpointFolder, checkpoint_folder, locked
from simple_dqn.statistics import Writer
from simple_dqn.verbs.common import check_weights, load_weights, run_name, start_log
from simple_dqn.verbs.resume import CompleteError, SettingsWriter, finish_training, go_on
from simple_dqn.verbs.settings import check_csv, over_file, parser_for, preset, settings_for, settle
from simple_dqn.verbs.test import play

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str], program: str) -> None:
    """Learn a game from the start, or go on after a crash."""
    given = read(arguments, program)
    if given.get("print_config"):
        config = settings_for("train", given)
        played = replace(config, environment=as_played(config.environment))
        print(settings_file.listing(played, given.get("preset", USUAL)))
    elif given.get("play_games"):
        play(settle(settings_for("train", given)))
    else:
        learn(given)


def read(arguments: Sequence[str], program: str) -> dict[str, Any]:
    """Return the flags of `train` in `arguments`, by name.

    Raises:
        UserError: They contain what `train` does not know.
    """
    parser = parser_for("train", program, "Train a deep Q-network on a game.")
    parser.add_argument("game", nargs="?", help="a ROM, a game that ale-py ships, a Gymnasium id, or FILE.py")
    parser.add_argument("label", nargs="?", help="kept in the names of the snapshots and the CSV")
    parser.add_switch("resume", "go on from the run's last checkpoint if there is one (default: false)")
    parser.add_presets(USUAL)
    settings_file.add_flag(parser)
    given = over_file(parser.parse(arguments))
    if "game" not in given:
        raise UserError(f"the following arguments are required: game (see {program} --help)")
    return given


def learn(given: dict[str, Any], writers: Sequence[Writer] = (), log: bool = True) -> RunConfig:
    """Train as the flags say, from the start or on from the last checkpoint, and return where the files are.

    Args:
        given: The flags, from `read`.
        writers: Receive the events of phases, beside the console and the CSV.
        log: Whether to start the log; False: the application has one.

    Raises:
        UserError: The settings contradict each other, or a file cannot be used.
        KeyboardInterrupt: A signal ended the run; its files are complete up to there.
    """
    config = settings_for("train", given)
    name = run_name(config, given.get("label"))
    files = {
        "csv_file": str(home() / "results" / f"{name}.csv"),
        "save_weights_prefix": str(home() / "snapshots" / name),
    }
    config = config.with_flags({setting: path for setting, path in files.items() if setting not in given})
    check_csv(given, config)
    prefix = Path(config.run.save_weights_prefix or files["save_weights_prefix"])
    with locked(prefix):
        if log:
            start_log(config.run.log_level)
        try:
            if not (given.get("resume") and _continued(prefix, given, writers, log)):
                if given.get("resume"):
                    logger.warning("There is no checkpoint %s: the run begins", checkpoint_folder(prefix))
                preset_name = given.get("preset", USUAL)
                logger.info("Preset %s", preset_name)
                config = settle(config, log=False)
                rom = Path(config.environment.game)
                if (
                    config.environment.environment == "ale" and rom.is_file()
                ):  # a resume may be in another folder
                    config = config.with_flags({"game": str(rom.resolve())})
                settings = [SettingsWriter(config, preset_name)] if config.run.csv_file else []
                begin(config, [*settings, *writers])
        except CompleteError as error:  # no failure: a script may repeat this command until the run is done
            logger.info("Nothing is left to do: %s", error)
    return config.run


def _continued(prefix: Path, given: dict[str, Any], writers: Sequence[Writer], log: bool) -> bool:
    """Continue from the run's latest checkpoint, and return True; False: it has written none.

    Raises:
        UserError: No checkpoint can be used.
    """
    # Shares are of the run as it began, and the checkpoint has their numbers.
    asked = {**preset(given), **given}
    numbers = {name: one for name, one in asked.items() if not isinstance(one, Share)}
    if go_on(prefix, numbers, None, writers, log):
        return True
    folder = checkpoint_folder(prefix)
    if CheckpointFolder(folder).latest_number():
        raise UserError(
            f"no checkpoint in {folder} can be read: go on from a snapshot with ./resume.sh "
            f"{prefix}_EPOCH.pkl, or move that folder away to start again"
        )
    return False


def begin(config: Config, writers: Sequence[Writer] = ()) -> None:
    """Learn a game from the start, with the settings that `settle` returned; see `learn` for `writers`."""
    check_weights(config)
    with Interrupt() as interrupt, closing(make_run(config, interrupt, writers=writers)) as run:
        if config.run.load_weights:
            load_weights(Path(config.run.load_weights), run.agent.player.environment, run.agent.network)
        run.begin()
    finish_training(config, interrupt)
