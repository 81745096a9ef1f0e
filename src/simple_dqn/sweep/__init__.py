"""`sweep`: trains on games with several settings and seeds, each run in a process, and compares them."""

import argparse
import itertools
import json
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from simple_dqn import command_line, own_code, plot
from simple_dqn.config import BOOLEANS, Config, EnvironmentConfig, number, words
from simple_dqn.environment import check_emulator, game_name, import_game
from simple_dqn.environment.atari import game_of, known_games
from simple_dqn.errors import UserError
from simple_dqn.evaluation import SCORES
from simple_dqn.files import home, read_text, replacing
from simple_dqn.snapshot.saver import locked
from simple_dqn.statistics.csv_file import read_run
from simple_dqn.statistics.writers import start_log
from simple_dqn.sweep.comparison import ATARI5, Comparison, Report
from simple_dqn.sweep.pool import Member, SweepRun, Work, local_pool, ray_pool, run_all
from simple_dqn.verbs.play import LABEL, LABEL_RULE, check_weights
from simple_dqn.verbs.settings import check_file, merged, name_of_preset, parser_for, resolve, settle

MOST = 10_000  # seeds or processors
SHORT = 5000  # training steps that measure the speed
# Sets of games: the seven of Mnih et al. 2013, those of Atari-5 (see `comparison.ATARI5`), those with a
# human score, and those that ale-py ships for one player.
GAME_SETS: dict[str, Callable[[], list[str]]] = {
    "nature7": lambda: ["pong", "breakout", "space_invaders", "seaquest", "beam_rider", "qbert", "enduro"],
    "atari5": lambda: [*ATARI5],
    "atari57": lambda: sorted(SCORES),
    "all": known_games,
}
# Settings that the runs of a sweep cannot share, and those that are ignored in a settings file.
UNSHARED = (
    "random_seed", "threads", "csv_file", "save_weights_prefix", "record_screen_path", "play_games",
    "record_sound_filename", "actors", "chunk_steps", "weights_every",
)  # fmt: skip
NOT_OF_A_FILE = (*UNSHARED, "backend", "environment")


def _read(arguments: Sequence[str], program: str) -> dict[str, Any]:
    """Return the flags by name; `games` are those named, then the suite, if any."""
    description = "Train on games with several settings and seeds, and compare them; `compare` reads CSVs."
    example, used = "pong breakout --seeds 3", "epochs workers"
    parser = parser_for(program, description, example, {"backend": "cpu"}, most_used=used)
    add = parser.add_argument
    add("games", nargs="*", metavar="GAME", help="as for train.sh")
    add("--suite", choices=[*GAME_SETS], help="games of a benchmark; first prints how long they take")
    add("--seeds", type=partial(number, int, minimum=1, maximum=MOST), default=1, metavar="N",
        help="train each with seeds 1 to N (default: 1)")  # fmt: skip
    add("--compare", type=setting, nargs="+", metavar="NAME=FLAGS",
        help="settings to compare, such as \"plain=\" \"double=--target_rule double\"")  # fmt: skip
    add("--cpus_per_run", type=partial(number, int, minimum=1, maximum=MOST), default=1, metavar="N",
        help="CPU cores of each run (default: 1)")  # fmt: skip
    add("--gpus_per_run", type=partial(number, float, minimum=0, maximum=1), default=0.0, metavar="SHARE",
        help="share of a GPU of each run, such as 0.25; 0: CPU only (default: 0)")  # fmt: skip
    add("--name", help="of the sweep, and of the folders of its files (default: the games)")
    parser.add_presets()
    given = parser.parse(arguments)
    given["games"] = [*given.get("games", []), *filter(None, [given.get("suite")])]
    if 0 < given["gpus_per_run"] < 0.01:
        raise UserError(f"--gpus_per_run {given['gpus_per_run']:g} is below 0.01: give 0, or 0.01 to 1")
    if not given["games"]:
        raise UserError(f"no game is named: give GAME, or --suite {' or '.join(GAME_SETS)}")
    return given


def _planned(given: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, str], list[Config]]:
    """Return the flags of each setting, the games (see `find_games`), and the settings of each pair of both.

    Raises:
        UserError: A run would be refused, or the runs cannot be compared.
    """
    compared = given.get("compare", [("", {})])
    settings = {name: _shared(one) for name, one in compared}
    if len(settings) < len(compared):
        raise UserError("two settings of --compare have the same name: give each its own")
    if "config" in given and any("preset" in own for own in settings.values()):
        raise UserError("--config replaces settings of the presets in --compare: compare settings as flags")
    flags = ({} if given["gpus_per_run"] else {"backend": "cpu"}) | _shared(given)
    settings = {name: merged(flags, one) for name, one in settings.items()}
    games = find_games(given["games"], Config.from_flags(flags).environment)
    if not given["gpus_per_run"] and any(own.get("backend") == "gpu" for own in settings.values()):
        raise UserError("--backend gpu needs a GPU share for each run: give --gpus_per_run, such as 0.25")
    configs = [
        resolve(import_game({**own, "game": game})) for own in settings.values() for game in games.values()
    ]
    if len({config.environment.environment for config in configs}) > 1:
        raise UserError("scores of different kinds of games cannot be compared: give games of one kind")
    for config in configs:  # Refuse here what each run would refuse.
        settle(replace(config, run=replace(config.run, random_seed=1, csv_file="run.csv")), log=False)
        check_emulator(config.environment)
        check_weights(config)
    return settings, games, configs


def main(arguments: Sequence[str], program: str) -> None:
    """Train on games with several settings and seeds, and compare them; `compare` reads existing CSVs."""
    if arguments[:1] == ["compare"]:
        _compare_files(arguments[1:], program)
        return
    given = _read(arguments, program)
    cluster = given.pop("cluster", "none")  # on which the runs are carried out; they have no actors
    settings, games, configs = _planned(given)
    if given.get("print_config"):
        shown = configs[:: len(games)]
        presets = map(name_of_preset, settings.values(), shown)
        print("\n---\n".join(map(command_line.listing, shown, presets)))
        return
    start_log(configs[0].run.log_level)
    name = given.get("name") or "_".join(Path(word.rpartition(":")[2]).stem for word in given["games"])
    if not LABEL.fullmatch(name):
        raise UserError(f"--name {name!r} cannot be a folder's name: {LABEL_RULE}")
    results, snapshots = (home().absolute() / folder / "sweep" / name for folder in ("results", "snapshots"))
    cpus, gpus = given["cpus_per_run"], given["gpus_per_run"]
    pool = local_pool(cpus, gpus) if cluster == "none" else ray_pool(cluster, cpus, gpus)
    with pool as (slots, work), locked(snapshots / "sweep"):
        if not slots:
            share = f" or --gpus_per_run {gpus:g}" if gpus else ""
            raise UserError(f"--cpus_per_run {cpus}{share} is too large: lower it")
        # The first seed of every game and setting before the second of any.
        each = itertools.product(range(1, given["seeds"] + 1), games, settings)
        runs = [SweepRun(game, setting, seed, results, snapshots) for seed, game, setting in each]
        for run in runs:
            flags = {**settings[run.setting], "resume": True, "random_seed": run.seed, "threads": cpus}
            imports = [f"--import={file}" for file in own_code.IMPORTED]
            command = ("train", games[run.game], *imports, *words(dict(sorted(flags.items()))))
            files = (f"--csv_file={run.csv}", f"--save_weights_prefix={run.prefix}")
            run.job = ((*command, *files), str(run.log))
        _write_plan(results / "sweep.json", runs)
        if given.get("suite") and (waiting := [run for run in runs if run.state == "waiting"]):
            print(f"Measuring the speed of {waiting[0].name} in a short training", file=sys.stderr)
            print(_forecast(waiting, configs[0], slots, work), file=sys.stderr, flush=True)
        report = Report(runs, results, sys.stderr)
        try:
            run_all(runs, slots, work, report.update)
        finally:
            report.update()
            print(report.write())
            if any(run.state == "waiting" for run in runs):
                print("Start the same command again to continue", file=sys.stderr, flush=True)
    if failed := [run for run in runs if run.state == "failed"]:
        why = f"{failed[0].name}: {failed[0].reason}"
        raise UserError(f"{len(failed)} of {len(runs)} runs failed, such as {why}: fix it, and start again")


def _write_plan(plan: Path, runs: Sequence[SweepRun]) -> None:
    """Write the commands of the `runs`; raise UserError if a sweep with other commands has begun there."""
    commands = {run.name: run.job[0][:-2] for run in runs}  # without the flags of their files
    text = json.dumps(commands, indent=2) + "\n"
    if not (plan.exists() and any(plan.parent.glob("*.log"))):
        with replacing(plan) as beside:
            beside.write_text(text)
    elif read_text(plan, 1 << 30, "remove it, or give another --name") != text:
        raise UserError(f"{plan} holds a sweep with other flags: repeat those, or give another --name")


def _forecast(runs: Sequence[SweepRun], config: Config, slots: int, work: Work) -> str:
    """Return in a line how long the `runs` will take, by the speed of a short training of the first."""
    run, agent, slots = config.run, config.agent, min(slots, len(runs))
    steps = run.epochs * (run.train_steps + run.test_steps)
    runs_of_steps = f"{len(runs)} run{'s' * (len(runs) > 1)} of {steps:,} steps, {slots} at a time"
    rollout = config.memory.rollout_steps * config.environment.workers
    unit = {"rollouts": rollout, "concurrent": agent.target_steps}.get(agent.schedule, 1)
    arguments = runs[0].job[0][:-2]  # without the flags of its files
    with tempfile.TemporaryDirectory() as folder:
        short = (
            f"--csv_file={folder}/speed.csv", f"--save_weights_prefix={folder}/speed", "--epochs=1",
            "--test_steps=0", f"--train_steps={unit * -(-SHORT // unit)}",
            f"--random_steps={min(SHORT, run.random_steps)}", "--keep=2", "--track=none",
        )  # fmt: skip
        if reason := work(((*arguments, *short), f"{folder}/log"), Event()):
            return f"{runs_of_steps}; the time is unknown: {reason}"
        speed = read_run(Path(folder) / "speed.csv", "").line("train", "steps_per_second")[1][-1]
    hours = steps * len(runs) / slots / speed / 3600
    return f"{runs_of_steps} and about {speed:,.0f} steps per second each: about {hours:,.1f} hours"


def setting(word: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the flags of a setting, `NAME=FLAGS`."""
    name, equals, line = word.partition("=")
    if not (equals and re.fullmatch(r"\w[\w.-]*", name)):
        raise argparse.ArgumentTypeError(f"{word!r} is not a setting: give NAME=FLAGS")
    parser = command_line.parser_of_settings("", "")  # of no program: the message is part of another's
    parser.add_presets(file=False)
    if "--import" in line:
        raise argparse.ArgumentTypeError(f"{name}: --import is for all settings: give it before --compare")
    try:
        return name, parser.parse(shlex.split(line))
    except (UserError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{name}: {error}") from None


def _shared(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings in `given` and in its file, which every run has, with absolute paths."""
    if own := [name for name in UNSHARED if name in given]:
        raise UserError(f"--{own[0]} is not for a sweep: leave it out, see --seeds and --cpus_per_run")
    file = {name: one for name, one in given.get("config", {}).items() if name not in NOT_OF_A_FILE}
    check_file(file, given)
    names = {*Config().flags(), *BOOLEANS, "preset"} - {"game", "imports", "cluster"}
    shared = {name: value for name, value in merged(file, given).items() if name in names}
    weights = shared.get("load_weights")
    if weights and not weights.startswith("hf:"):
        shared["load_weights"] = str(Path(weights).absolute())
    return shared


def find_games(games_named: Sequence[str], config: EnvironmentConfig) -> dict[str, str]:
    """Return the games that `games_named` names, each once: name -> argument of `train` in any folder."""
    games: dict[str, str] = {}
    sets = GAME_SETS if config.environment == "ale" else {}
    for word in itertools.chain.from_iterable(sets[one]() if one in sets else [one] for one in games_named):
        kind = {} if config.environment == "ale" else {"environment": config.environment}
        name = game_name(replace(config, **import_game({"game": word, **kind})))
        games.setdefault(name, str(Path(word).absolute()) if Path(word).is_file() else word)
    return games


def _compare_files(arguments: Sequence[str], program: str) -> None:
    """Compare settings by CSVs of their runs: print the measures with their intervals."""
    parser = command_line.Parser(prog=f"{program} compare", allow_abbrev=False)
    parser.add_argument("runs", nargs="+", metavar="NAME=CSV,CSV", help="the seeds of one setting")
    parser.add_argument("--png_file", type=Path, help="also draw the comparison here (default: none)")
    given = parser.parse(arguments)
    names, png = plot.run_names(given["runs"]), given["png_file"]
    runs = {csv: read_run(csv, name) for csv, name in names.items()}
    for csv, run in runs.items():
        run.check(("average_reward",), str(csv))
    comparison = Comparison([Member(_game_of_csv(csv), names[csv], run) for csv, run in runs.items()])
    if not comparison.members:
        raise UserError("; ".join(str(comparison).splitlines()))
    if png:
        with plot.picture(png) as figure:
            comparison.draw(figure)
    print(comparison)


def _game_of_csv(csv: Path) -> str:
    """Return a run's game: Gymnasium's id in the settings beside its CSV, or the game of the CSV's name."""
    settings: dict[str, Any] = {}
    with suppress(UserError):  # there may be none
        settings = command_line.read(str(csv.with_suffix(".yaml")))
    if settings.get("environment") == "gym" and "game" in settings:
        return game_name(Config.from_flags(settings).environment)
    return game_of(csv.stem) or "another game"
