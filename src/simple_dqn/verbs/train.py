"""`train`: learn a game from the start, or go on after a crash; and `profile_...`, where the time goes."""

import cProfile
import logging
import pstats
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from simple_dqn import settings_file
from simple_dqn.config import Config, RunConfig, Share
from simple_dqn.environment import as_played, named
from simple_dqn.errors import UserError
from simple_dqn.files import home, replacing
from simple_dqn.interrupt import Interrupt
from simple_dqn.presets import USUAL
from simple_dqn.profiler import Profiler
from simple_dqn.run import make_run
from simple_dqn.snapshot import CheckpointFolder, checkpoint_folder, locked
from simple_dqn.statistics import Writer
from simple_dqn.verbs.common import GAME, check_weights, load_weights, run_name
from simple_dqn.verbs.play import measure
from simple_dqn.verbs.resume import CompleteError, SettingsWriter, finish_training, go_on
from simple_dqn.verbs.settings import over, parser_for, preset, resolve, settle, start_log

logger = logging.getLogger(__name__)


def train(arguments: Sequence[str], program: str) -> None:
    """Learn a game from the start, or go on after a crash."""
    given = read(arguments, program)
    if given.get("print_config"):
        config = resolve(given)
        played = replace(config, environment=as_played(config.environment))
        print(settings_file.listing(played, given.get("preset", USUAL)))
    elif given.get("play_games"):
        measure(settle(resolve(given)))
    else:
        learn(given)


def read(arguments: Sequence[str], program: str) -> dict[str, Any]:
    """Return the flags of `train` in `arguments`, by name, over those of the file of `--config`."""
    parser = parser_for(program, "Train a deep Q-network on a game.", "pong --epochs 10")
    parser.add_argument("game", nargs="?", help=GAME)
    parser.add_argument("label", nargs="?", help="kept in the names of the snapshots and the CSV")
    parser.add_switch("resume", "go on from the run's last checkpoint if there is one (default: false)")
    parser.add_presets(USUAL)
    given = parser.parse(arguments)
    given = over(given.pop("config", {}), named(given))
    if "game" not in given:
        raise UserError(f"the following arguments are required: game (see {program} --help)")
    return given


def learn(given: dict[str, Any], writers: Sequence[Writer] = (), log: bool = True) -> RunConfig:
    """Train as the flags say, from the start or on from the last checkpoint, and return where the files are.

    The `writers` receive the events of phases, beside the console and the CSV. If `log` is false, the
    application has a log. After a signal, KeyboardInterrupt, the files are complete up to there.
    """
    config = resolve(given)
    name = run_name(config, given.get("label"))
    csv_file, prefix = str(home() / "results" / f"{name}.csv"), home() / "snapshots" / name
    config = config.with_flags({"csv_file": csv_file, "save_weights_prefix": str(prefix)}, given)
    prefix = Path(config.run.save_weights_prefix or prefix)
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
                if config.environment.environment == "ale" and rom.is_file():
                    config = config.with_flags({"game": str(rom.resolve())})  # for a resume in another folder
                settings = [SettingsWriter(config, preset_name)] if config.run.csv_file else []
                begin(config, [*settings, *writers])
        except CompleteError as error:  # no failure: a script may repeat this command until the run is done
            logger.info("Nothing is left to do: %s", error)
    return config.run


def _continued(prefix: Path, given: dict[str, Any], writers: Sequence[Writer], log: bool) -> bool:
    """Continue from the run's latest checkpoint, and return True; False: it has written none."""
    # Shares are of the run as it began, and the checkpoint has their numbers.
    asked = over(preset(given, USUAL) if "preset" in given else {}, given)
    numbers = {name: one for name, one in asked.items() if not isinstance(one, Share)}
    if go_on(prefix, numbers, None, writers, log):
        return True
    folder = checkpoint_folder(prefix)
    if CheckpointFolder(folder).latest_number():
        remedy = f"go on from a snapshot with ./resume.sh {prefix}_EPOCH.pkl, or move that folder away"
        raise UserError(f"no checkpoint in {folder} can be read: {remedy} to start again")
    return False


def begin(config: Config, writers: Sequence[Writer] = ()) -> None:
    """Learn a game from the start, with the settings that `settle` returned; see `learn` for `writers`."""
    check_weights(config)
    with Interrupt() as interrupt, closing(make_run(config, interrupt, writers=writers)) as run:
        load_weights(config.run.load_weights, run.agent.player.environment, run.agent.network)
        run.begin()
    finish_training(config, interrupt)


def _profile(arguments: Sequence[str], program: str, phase: str) -> None:
    """Show where the time goes in one phase."""
    fixed = {"replay_size": 10_000, "epochs": 1, "random_steps": 0, "train_steps": 0, "test_steps": 0}
    fixed |= {"random_steps": 0 if phase == "test" else 1000, f"{phase}_steps": 1000}
    parser = parser_for(program, f"Profile the {phase} phase.", "pong", fixed, "simple_dqn")
    parser.add_argument("game", help=GAME)
    config = settle(resolve(named(parser.parse(arguments)), None, fixed, "simple_dqn"))
    check_weights(config)
    parts, profiler = Profiler(), cProfile.Profile()
    with Interrupt() as interrupt, closing(make_run(config, interrupt, profiler=parts)) as run:
        load_weights(config.run.load_weights, run.agent.player.environment, run.agent.network)
        profiler.runcall(run.begin)
    path = home() / "results" / f"{run_name(config, f'profile_{phase}')}.prof"
    with replacing(path) as beside:
        profiler.dump_stats(beside)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    for line in parts.lines():
        logger.info(line)
    logger.info("The whole profile is in %s", path)


profile_train = partial(_profile, phase="train")
profile_test = partial(_profile, phase="test")
profile_random = partial(_profile, phase="random")
