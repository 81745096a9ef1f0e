"""`train` and `resume` a run; and `profile_...`, which shows where the time of a phase is spent."""

import cProfile
import glob
import logging
import pstats
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from simple_dqn import command_line, files, hub, own_code, rules
from simple_dqn.config import REGISTERED, Config, RunConfig, Share, as_word
from simple_dqn.environment import as_played, import_game, with_environment
from simple_dqn.errors import Interrupt, UserError, printable
from simple_dqn.files import TRAINED, check_target, command, home, is_trained, kind_of, replacing
from simple_dqn.presets import PRESETS
from simple_dqn.run import Phase, Run, make_run
from simple_dqn.snapshot import Snapshot, checked_settings
from simple_dqn.snapshot.checkpoint import Checkpoint, CheckpointFolder, DamagedError
from simple_dqn.snapshot.saver import checkpoint_folder, locked, prefix_of, snapshots_after
from simple_dqn.statistics import Writer
from simple_dqn.statistics.csv_file import is_of_run
from simple_dqn.statistics.writers import start_log
from simple_dqn.verbs import play
from simple_dqn.verbs.settings import check_file, merged, name_of_preset, parser_for, preset, resolve, settle

logger = logging.getLogger(__name__)

# Settings that a checkpoint does not choose: paths, and a window.
RECORDINGS = ("display_screen", "record_screen_path", "record_sound_filename")
UNRECORDED = (*RECORDINGS, "load_weights", "visualization_file")
LOCAL_CLUSTERS = ("none", "local", "auto")  # those on this machine
SETTLED = ("datatype", "emulator")  # their value auto was replaced when the run began


class CompleteError(UserError):
    """The run has all its epochs already."""

    def __init__(self, what: object, trained: int, epochs: int) -> None:
        had = f"{trained} epochs of training and --epochs is {epochs}"
        super().__init__(f"{what} has {had}: give a larger --epochs")


def train(arguments: Sequence[str], program: str) -> None:
    """Train on a game from the start, or continue after a crash."""
    given = read(arguments, program)
    if given.get("print_config"):
        config = resolve(given)
        played = replace(config, environment=as_played(config.environment))
        name = name_of_preset(given, config)
        print(command_line.listing(played, name, {f"preset {name}": PRESETS[name], **given["layers"]}))
    elif given.get("play_games"):
        play.measure(settle(resolve(given)))
    else:
        learn(given)


def read(arguments: Sequence[str], program: str) -> dict[str, Any]:
    """Return the flags of `train` in `arguments`, by name, over those of the file of `--config`."""
    parser = parser_for(program, "Train a deep Q-network on a game.", "pong --epochs 10")
    parser.add_argument("game", nargs="?", help=play.GAME)
    text = "added to the names of the snapshots and the CSV"
    parser.add_argument("label", nargs="?", metavar="[LABEL]", help=text)
    parser.add_switch("resume", "continue from the run's last checkpoint, if any (default: false)")
    parser.add_presets()
    flags = parser.parse(arguments)
    file = flags.pop("config", {})
    check_file(file, flags)
    if "cluster" not in flags and file.get("cluster", "none") not in LOCAL_CLUSTERS:
        raise UserError(f"a settings file cannot choose an address: give --cluster {file['cluster']}")
    given = merged(file if "game" in flags else with_environment(file), import_game(flags))
    if "game" not in given:
        raise UserError(f"the following arguments are required: game (see {program} --help)")
    return {**given, "layers": {f"file {file.get('config')}": file, "flag": flags}}


def learn(given: dict[str, Any], writers: Sequence[Writer] = (), log: bool = True) -> RunConfig:
    """Train as the flags say, from the start or from the last checkpoint, and return where the files are.

    The `writers` receive the events of phases, as the console and the CSV do. If `log` is false, logging is
    left as the application configured it.

    Raises:
        UserError: The run is refused, or one of its files cannot be written.
        KeyboardInterrupt: A signal ended the run, with a checkpoint.
    """
    config = resolve(given)
    run = play.run_name(config, given.get("label"))
    csv_file, usual = str(home() / "results" / f"{run}.csv"), str(home() / "snapshots" / run)
    config = config.with_flags({"csv_file": csv_file, "save_weights_prefix": usual}, given)
    prefix = Path(config.run.save_weights_prefix or usual)
    shared = config.run.save_weights_prefix or given.get("resume")  # files that another run could also write
    with locked(prefix) if shared else nullcontext():
        if log:
            start_log(config.run.log_level)
        try:
            if given.get("resume"):
                if resumed := _resume_run(prefix, config, given, writers, log):
                    return resumed
                logger.warning("There is no checkpoint %s: the run begins", checkpoint_folder(prefix))
            name = name_of_preset(given, config)
            logger.info("Preset %s", name)
            config = settle(config, log=False)
            rom = Path(config.environment.game)
            if config.environment.environment == "ale" and rom.is_file():
                config = config.with_flags({"game": str(rom.resolve())})  # for a resume in another folder
            play.check_weights(config)
            with opened(config, name, writers=writers) as new:
                play.load_weights(config.run.load_weights, new.agent.player.environment, new.agent.network)
                new.begin()
            return new.config
        except CompleteError as error:  # no failure: a script may repeat this command until the run is done
            logger.info("Nothing is left to do: %s", error)
    return config.run


def _resume_run(
    prefix: Path, new: Config, given: dict[str, Any], writers: Sequence[Writer], log: bool
) -> RunConfig | None:
    """Continue from the run's latest checkpoint, and return where its files are; None: it has written none.

    The settings of a `given` preset have the values that they have in `new`, the settings of a new run.
    """
    of_preset, values = preset(given) if "preset" in given else {}, new.flags()
    # A share is of the run as it began; the checkpoint has the number.
    kept = [name for name, value in {**of_preset, **given}.items() if isinstance(value, Share)]
    if shares := [f"--{name} {given[name]}" for name in kept if name in given]:
        logger.info("In place of %s the run keeps the numbers that it began with", " and ".join(shares))
    asked = merged({name: values[name] for name in of_preset}, given)
    asked = {name: value for name, value in asked.items() if name not in kept}
    asked.pop("load_weights", None)  # the weights that the run began with, which it has changed
    if resumed := resume_latest(prefix, asked, None, writers, log):
        return resumed
    folder = checkpoint_folder(prefix)
    if CheckpointFolder(folder).latest_number():
        again = command("resume", f"{prefix}_EPOCH.pkl")
        remedy = f"continue from a snapshot, {again}, or move that folder away"
        raise UserError(f"no checkpoint in {folder} can be read: {remedy} to start again")
    return None


def resume(arguments: Sequence[str], program: str) -> None:
    """Continue a run from the folder of its checkpoints, or from one of its snapshots."""
    about = "Continue a training run from its checkpoint, with all its settings, or from a snapshot."
    example, used = "snapshots/pong_checkpoint", "epochs train_steps test_steps learning_rate"
    text = f"{play.SNAPSHOT}, or the folder {example}"
    given = parser_for(program, about, example, snapshot=text, most_used=used).parse(arguments)
    if "play_games" in given:
        raise UserError(f"--play_games is not for a training: use {command('test')}")
    start_log(given.get("log_level", "INFO"))
    path = hub.local(given["snapshot"])
    snapshot = None if path.is_dir() else play.open_snapshot(path)
    if snapshot is None:
        prefix = prefix_of(path)
    elif path != Path(given["snapshot"]) or is_trained(path):  # in the cache of the Hub, or the project's
        prefix = home() / "snapshots" / f"{play.run_of(path, snapshot)}_{TRAINED}"
        logger.info("%s remains unchanged: the run continues as %s_...", path, prefix)
    else:
        prefix = path.with_name(play.run_of(path, snapshot))
    if Path(given.get("save_weights_prefix", prefix) or "").resolve() != prefix.resolve():
        remedy = "leave out --save_weights_prefix, or copy its files"
        raise UserError(f"a run continues as {prefix}_...: {remedy}")
    with locked(prefix):
        if resume_latest(prefix, given, snapshot):
            return
        if snapshot is None:
            last = snapshots_after(prefix, -1)[-1:]
            remedy = f"give {last[0]}, the last snapshot" if last else f"train again: {command('train')} GAME"
            raise UserError(f"{path} has no usable checkpoint: {remedy}")
        _refill(path, snapshot, prefix, given)


class SettingsWriter(Writer):
    """Writes the settings of a run beside its CSV, in a file `.yaml`, once the run begins."""

    def __init__(self, config: Config, preset: str | None = None) -> None:
        """Check that the file of the run with the settings `config` can be written, or raise UserError.

        Without `preset` the run is resumed, and the earlier file names its preset.
        """
        csv = Path(config.run.csv_file or "")
        self._path, self._of_lost_csv = csv.with_suffix(".yaml"), preset is not None and not kind_of(csv)
        if kind_of(self._path):
            starts = tuple(f"{key}:".encode() for key in command_line.KEYS)
            check_target(self._path, "--csv_file", starts, "it is not a settings file")
            if preset is None:
                with suppress(UserError):
                    preset = command_line.read(str(self._path)).get("preset")
                logger.info("Preset %s", preset or "simple_dqn")
        self._text = command_line.listing(config, preset or "simple_dqn")
        self._copied_csv = files.unused_path(csv)  # the name of its copy, if its writer makes one

    def open(self) -> None:
        """Write the file, after the CSV's writer has opened the CSV.

        If that writer made a copy of the CSV, the earlier settings file gets the name of the copy.
        """
        with replacing(self._path) as beside:
            beside.write_text(f"{self._text}\n", encoding="utf-8")
            if self._path.exists() and (self._of_lost_csv or kind_of(self._copied_csv)):
                earlier = self._copied_csv.with_suffix(".yaml")
                self._path.rename(files.unused_path(self._path) if earlier.exists() else earlier)


def recorded(run: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a checkpoint, perhaps a stranger's, checked like flags, or raise ValueError.

    They name no file to write or to load but the CSV of the run, and open no window.
    """
    flags = run["flags"]
    # A registered name may not be known yet.
    settings = {name: flags[name] for name in ("game", "save_weights_prefix", *REGISTERED)}
    settings["csv_file"] = flags["csv_file"] or ""
    others = [flags.get(name) or "" for name in UNRECORDED if not isinstance(flags.get(name), bool)]
    texts = (*settings.values(), *others)
    if wrong := [text for text in texts if not isinstance(text, str) or "\0" in text]:
        raise ValueError(f"its setting {wrong[0]!r} is not text")
    settings |= checked_settings(flags, {*settings, *UNRECORDED})
    config = Config.from_flags(settings)
    if not (run["statistics"]["tally"] and "environment" in settings) or config.run.random_seed is None:
        raise ValueError("it has no environment, seed or statistics")
    if Phase.of(run).epoch > max(config.run.epochs, config.run.start_epoch) + 1:
        raise ValueError("its phase comes after the last epoch")
    if complaint := next(rules.complaints(config), ""):
        raise ValueError(complaint)
    return settings


def follows(snapshot: Snapshot | None, run: dict[str, Any]) -> bool:
    """Return whether the checkpoint of `run` follows `snapshot`, if any, or raise ValueError."""
    config = Config.from_flags(recorded(run))
    if run["agent"]["memory"]["ring"]["rows"] != config.memory.rows(config.environment.workers):
        raise ValueError("its replay memory is of another size than its settings say")
    latest = [run["snapshots"][name] for name in ("complete", "stopped")]
    return snapshot is None or snapshot.fingerprint in latest


def resume_latest(
    prefix: Path, given: dict[str, Any], snapshot: Snapshot | None = None, writers: Sequence[Writer] = (),
    log: bool = True,
) -> RunConfig | None:  # fmt: skip
    """Continue from the latest checkpoint that can be used, as if the run had never stopped; see `learn`.

    It must follow `snapshot`, if that is given. Return None if no checkpoint can be used, and raise
    CompleteError if the run has all its epochs.
    """
    for saved in CheckpointFolder(checkpoint_folder(prefix)).usable(lambda run: follows(snapshot, run)):
        try:
            return _resume_from(saved, prefix, given, writers, log)
        except DamagedError as error:
            logger.warning("%s: trying the previous checkpoint", error)
    return None


def _resume_from(
    saved: Checkpoint, prefix: Path, given: dict[str, Any], writers: Sequence[Writer], log: bool
) -> RunConfig:
    flags, phase, last_row = recorded(saved.run), Phase.of(saved.run), str(saved.run["statistics"]["csv"])
    given = {name: one for name, one in given.items() if one != "auto" or name not in SETTLED}
    check_flags(flags, given)
    if ended := [f"--{name}" for name in RECORDINGS if saved.run["flags"].get(name) and name not in given]:
        logger.warning("A resumed run has no recording and no window: give %s again", " and ".join(ended))
    csv_file = flags["csv_file"] if "csv_file" in given else _csv_of(flags, prefix, last_row)
    paths = {"save_weights_prefix": str(prefix), "csv_file": csv_file or None}
    config = settle(resolve(given, flags, paths), log)
    if phase.epoch > config.run.epochs:
        raise CompleteError("the run", phase.trained, config.run.epochs)
    latest = max(phase.epoch if phase.done else phase.trained, config.run.start_epoch)
    if later := snapshots_after(prefix, latest):
        logger.info("Later snapshots of the run, from %s on, will be overwritten", later[0])
    # Beside the CSV of another run are also its curves and ids of trackers.
    own = not config.run.csv_file or is_of_run(Path(config.run.csv_file), last_row) is not False
    resumed = last_row if phase.done else last_row.rstrip()
    with opened(config, None, resumed if own else None, writers) as run:
        logger.info("Continuing from %s: %s %d, step %d", saved.path, phase.name, phase.epoch, phase.done)
        run.resume(saved)
    return run.config


def _csv_of(flags: dict[str, Any], prefix: Path, last_row: str) -> str:
    """Return the CSV in which the run `prefix` continues, by the recorded `flags`; "": it has none.

    The recorded CSV is used if it has the checkpoint's `last_row`; otherwise the usual one. A checkpoint that
    was copied to another place does not continue the CSV of the original.
    """
    csv_file, usual = str(flags["csv_file"]), home() / "results" / f"{prefix.name}.csv"
    if not csv_file or Path(csv_file).resolve() == usual.resolve():
        return csv_file
    if Path(flags["save_weights_prefix"]).resolve() == prefix.resolve():
        with suppress(UserError):
            if last_row[:1].isdigit() and is_of_run(Path(csv_file), last_row):
                return csv_file
        logger.warning("%s is not of this run: it continues in %s", printable(csv_file), usual)
    return str(usual)


def check_flags(saved: dict[str, Any], given: dict[str, Any]) -> None:
    """Log which `saved` flags of a run the `given` ones change; raise UserError if one must not change."""
    was, now = Config.from_flags(saved).flags(), Config.from_flags(saved, given)
    settings, cluster = now.flags(), now.cluster.cluster
    names = (*now.shared_flags(), "emulator", "cluster", "threads")
    changed = [name for name in names if was[name] != settings[name]]
    for name in changed:
        other_weights = name == "datatype" and "float64" in (was[name], settings[name])
        other_loop = name == "cluster" and "none" in (was[name], cluster)
        no_priorities = name == "priority_exponent" and "sampler" in changed
        if (name in rules.KEPT_ON_RESUME and not no_priorities) or other_weights or other_loop:
            change = f"--{name} {as_word(was[name])} and cannot continue with {as_word(settings[name])}"
            remedy = f"give --{name} {as_word(was[name])}, or start a new run with another label"
            raise UserError(f"the run was started with {change}: {remedy}")
        logger.info("From now on --%s is %s instead of %s", name, as_word(settings[name]), as_word(was[name]))
    if cluster not in (*LOCAL_CLUSTERS, given.get("cluster")):
        raise UserError(f"a checkpoint cannot choose an address: give --cluster {cluster} again")


def _refill(path: Path, snapshot: Snapshot, prefix: Path, given: dict[str, Any]) -> None:
    """Continue from a snapshot's weights alone; the network's own play fills the replay memory."""
    fixed = {
        "game": snapshot.game, "csv_file": str(home() / "results" / f"{prefix.name}.csv"),
        "random_seed": None, "save_weights_prefix": str(prefix), "start_epoch": snapshot.epoch,
    }  # fmt: skip
    config = settle(resolve(given, play.portable(snapshot.flags), fixed))
    if config.run.epochs <= config.run.start_epoch:
        raise CompleteError(path, snapshot.epoch, config.run.epochs)
    with opened(config, None, f"{config.run.start_epoch},") as run:
        lost = "the replay memory, the optimizer and the random streams are lost"
        logger.warning("%s has no checkpoint that follows %s: %s", checkpoint_folder(prefix), path, lost)
        for folder in sorted(prefix.parent.glob(f"{glob.escape(prefix.name)}_before*_checkpoint")):
            if any(CheckpointFolder(folder).usable(lambda saved: follows(snapshot, saved))):
                logger.warning("%s continues from one that does", command("resume", folder))
        play.load_weights(path, run.agent.player.environment, run.agent.network, snapshot)
        run.agent.count_from(snapshot.total_train_steps)
        run.begin(refill=True)


@contextmanager
def opened(
    config: Config, preset: str | None, resumed: str | None = None, writers: Sequence[Writer] = ()
) -> Iterator[Run]:
    """Yield a run that also writes its settings file, then close it and log the commands that can follow.

    `preset` is None for a resumed run, as in `SettingsWriter`; the other arguments are those of `make_run`.
    """
    own = [SettingsWriter(config, preset)] if config.run.csv_file else []
    with Interrupt() as interrupt, closing(make_run(config, interrupt, resumed, [*own, *writers])) as run:
        yield run
    prefix = Path(run.config.save_weights_prefix) if run.config.save_weights_prefix else None
    if prefix and interrupt.requested and CheckpointFolder(checkpoint_folder(prefix)).latest_number():
        resume_it = command("resume", checkpoint_folder(prefix), *own_code.flags())
        logger.info("Next: %s continues the run", resume_it)
    play.finish(interrupt)
    if snapshots := snapshots_after(prefix, 0) if prefix and not interrupt.requested else []:
        last = (snapshots[-1], *own_code.flags())
        play_it, test_it = command("play", *last), command("test", *last)
        logger.info("Next: %s shows it playing, %s measures it,", play_it, test_it)
        logger.info("and %s trains it further", command("resume", *last, "--epochs", run.config.epochs + 10))


def _profile(arguments: Sequence[str], program: str, phase: str) -> None:
    """Profile one phase, print the slowest functions, and write the profile to `results/`."""
    fixed = {"preset": "simple_dqn", "replay_size": 10_000, "epochs": 1, "train_steps": 0, "test_steps": 0}
    fixed |= {"random_steps": 0 if phase == "test" else 1000, f"{phase}_steps": 1000}
    parser = parser_for(program, f"Profile the {phase} phase.", "pong", fixed)
    parser.add_argument("game", help=play.GAME)
    config = settle(resolve(import_game(parser.parse(arguments)), None, fixed))
    play.check_weights(config)
    profiler, prefix = cProfile.Profile(), config.run.save_weights_prefix
    lock = locked(Path(prefix)) if prefix else nullcontext()
    with lock, Interrupt() as interrupt, closing(make_run(config, interrupt)) as run:
        play.load_weights(config.run.load_weights, run.agent.player.environment, run.agent.network)
        profiler.runcall(run.begin)
    path = home() / "results" / f"{play.run_name(config, f'profile_{phase}')}.prof"
    with replacing(path) as beside:
        profiler.dump_stats(beside)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    logger.info("The whole profile is in %s", path)


profile_train = partial(_profile, phase="train")
profile_test = partial(_profile, phase="test")
profile_random = partial(_profile, phase="random")
