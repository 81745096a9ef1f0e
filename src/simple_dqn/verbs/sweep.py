"""`sweep`: train games with several settings and seeds, and compare them, on one machine or a cluster."""

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from simple_dqn import command_line, plot, rules, settings_file
from simple_dqn.cluster.session import Session
from simple_dqn.config import BOOLEANS, OWN_ENTRIES, Config
from simple_dqn.environment import as_played
from simple_dqn.environment.own_game import canonical_flags, is_own
from simple_dqn.environment.roms import find_rom, game_of
from simple_dqn.errors import EXTRAS, UserError, require_extra
from simple_dqn.files import home
from simple_dqn.presets import USUAL
from simple_dqn.snapshot import locked
from simple_dqn.statistics.csv_file import read_run
from simple_dqn.sweep.comparison import Member, compare_members
from simple_dqn.sweep.plan import (
    GAME_SETS,
    Plan,
    SweepFiles,
    SweepRun,
    find_games,
    save_plan,
)
from simple_dqn.sweep.report import Report
from simple_dqn.sweep.runner import ClusterPool, Job, LocalPool
from simple_dqn.sweep.scheduler import RunState, RunStatus, run_all
from simple_dqn.verbs.common import check_weights, start_log
from simple_dqn.verbs.settings import over, parser_for, settings_for

MOST = 10_000  # seeds or processors

# Settings that the runs of a sweep cannot share, and the reason.
OWN = {
    "random_seed": "each run has a seed of its own (--seeds)",
    "threads": "each run has its share of processors (--cpus_per_run)",
    "csv_file": "each run has a file of its own (--name)",
    "save_weights_prefix": "each run has files of its own (--name)",
    "record_screen_path": "two runs would write to the same folder",
    "record_sound_filename": "two runs would write to the same file",
    "play_games": "a sweep trains",
    **dict.fromkeys(("actors", "chunk_steps", "weights_every"), "each run plays its own games"),
}
FILES = ("load_weights",)  # relative to the folder in which the sweep is started


def main(arguments: Sequence[str], program: str) -> None:
    """Train games with several settings and seeds, and compare them; `compare` takes CSVs that exist."""
    if arguments[:1] == ["compare"]:
        _compare_files(arguments[1:], program)
        return
    given = _parser(program).parse(arguments)
    cluster = given.pop("cluster", "none")  # that of the runs; there are no actors
    compared = {name: _plain(one) for name, one in given.get("compare", [("", {})])}
    if len(compared) < len(given.get("compare", [()])):
        raise UserError("two settings of --compare have the same name: give each its own")
    if "config" in given and any("preset" in one for one in compared.values()):
        raise UserError("--config lies over the presets of --compare: give the settings to compare as flags")
    common = _plain(given) if given["gpus_per_run"] else {"backend": "cpu", **_plain(given)}
    plan = Plan(
        games=find_games(given["games"], Config.from_flags(common).environment),
        seeds=given["seeds"],
        cpus_per_run=given["cpus_per_run"],
        gpus_per_run=given["gpus_per_run"],
        flags=common,
        settings=compared,
    )
    configs = [_checked(plan, one) for one in compared.values()]
    if given.get("print_config"):
        listings = (settings_file.listing(*one) for one in configs)
        print("\n---\n".join(listings))
        return
    start_log(configs[0][0].run.log_level)
    files = SweepFiles.of(home(), given.get("name") or "_".join(Path(word).stem for word in given["games"]))
    make_pool = LocalPool if cluster == "none" else ClusterPool
    with (
        nullcontext() if cluster == "none" else closing(Session(cluster)),
        closing(make_pool(plan.cpus_per_run, plan.gpus_per_run)) as pool,
        locked(files.snapshots / "sweep"),
    ):
        _carry_out(plan, files, pool)


def _parser(program: str) -> command_line.Parser:
    description = "Train games with several settings and seeds, and compare them."
    parser = parser_for("sweep", program, description)
    add = parser.add_argument
    number = command_line.number(int, minimum=1, maximum=MOST)
    add("games", nargs="+", metavar="GAME", help=f"as for train.sh; or {' or '.join(GAME_SETS)}")
    add("--seeds", type=number, default=1, metavar="N", help="learn each with the seeds 1 to N (default: 1)")
    add("--compare", type=_setting, nargs="+", metavar="NAME=FLAGS",
        help="settings to compare, such as \"plain=\" \"double=--double true\"")  # fmt: skip
    add("--cpus_per_run", type=number, default=1, metavar="N", help="processors of each run (default: 1)")
    add("--gpus_per_run", type=command_line.number(float, minimum=0, maximum=1), default=0.0, metavar="SHARE",
        help="share of a GPU of each run, such as 0.25; 0: the processor alone (default: 0)")  # fmt: skip
    add("--name", help="of the sweep, and of the folders of its files (default: the games)")
    parser.add_presets(USUAL)
    settings_file.add_flag(parser)
    return parser


def _setting(word: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the flags of a setting, `NAME=FLAGS`."""
    name, equals, line = word.partition("=")
    if not (equals and re.fullmatch(r"\w[\w.-]*", name)):
        raise argparse.ArgumentTypeError(
            f"{word!r} is no setting: give NAME=FLAGS, such as 'double=--double true'"
        )
    parser = command_line.parser_of_settings("sweep", "")
    parser.add_presets(USUAL)
    try:
        return name, parser.parse(shlex.split(line))
    except (UserError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{name}: {error}") from None


def _plain(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings among `given`, those of a file too, with absolute paths.

    Raises:
        UserError: A setting cannot be the same for all runs.
    """
    for name, why in OWN.items():
        if name in given:
            raise UserError(f"--{name} is not for a sweep: {why}; leave it out")
    if is_own(given.get("environment", "")):
        raise UserError(
            f"--environment {given['environment']} is one game: name the file among the games of the sweep"
        )
    own = {*OWN, "game", "backend"}
    recorded = {name: value for name, value in given.get("config", {}).items() if name not in own}
    names = {*Config().flags(), *BOOLEANS, "preset"} - {"game", "cluster"}
    result = {name: value for name, value in over(recorded, given).items() if name in names}
    return result | {name: str(Path(result[name]).absolute()) for name in FILES if result.get(name)}


def _checked(plan: Plan, setting: dict[str, Any]) -> tuple[Config, str]:
    """Return the settings of every run of a setting, and the name of its preset.

    Raises:
        UserError: They contradict each other, or are not for one of the games.
    """
    given = {**plan.flags, **setting}
    if not plan.gpus_per_run and given.get("backend") == "gpu":
        raise UserError(
            "--backend gpu needs a share of a GPU for each run: give --gpus_per_run, such as 0.25"
        )
    configs = [
        settings_for("sweep", {**given, **canonical_flags({"game": game})}) for game in plan.games.values()
    ]
    kinds = {_kind(config): name for config, name in zip(configs, plan.games, strict=True)}
    if len(kinds) > 1:
        one, other = list(kinds.items())[:2]
        raise UserError(
            f"{one[1]} is {one[0]} and {other[1]} {other[0]}, which have settings and scores of their own: "
            "give games of one kind"
        )
    for config in configs:
        rules.check(config)
        check_weights(config)
        as_played(config.environment)  # refuses what cannot be played
        if config.environment.emulator == "warp":
            from simple_dqn.environment.warp_emulator import check as check_warp  # Warp takes long to import

            check_warp(find_rom(config.environment.game), config.environment)
        for entry, name in OWN_ENTRIES:
            if config.flags()[entry] == name:
                raise UserError(
                    f"--{entry} {name} is registered in this program alone, and each run of a sweep is a "
                    "program of its own: train with this program once for each seed, then give the CSVs to "
                    "./sweep.sh compare"
                )
    if configs[0].run.track in EXTRAS:
        require_extra(configs[0].run.track, f"--track {configs[0].run.track}")
    return configs[0], given.get("preset", USUAL)


def _kind(config: Config) -> str:
    kind = config.environment
    return "a game of your own" if kind.own else f"of --environment {kind.environment}"


def _compare_files(arguments: Sequence[str], program: str) -> None:
    """Print the measures of settings whose runs have been trained, with their intervals."""
    parser = command_line.Parser(
        prog=f"{program} compare",
        description="Compare runs by their CSVs, with intervals.",
        allow_abbrev=False,
    )
    parser.add_argument("runs", nargs="+", metavar="NAME=CSV,CSV", help="the seeds of one setting")
    parser.add_argument("--png_file", type=Path, help="draw the comparison here, too (default: nowhere)")
    given = parser.parse(arguments)
    names = plot.run_names(given["runs"])
    if given["png_file"] and (given["png_file"] in names or not given["png_file"].name):
        raise UserError(f"the figure cannot be written as {given['png_file']}: give another --png_file")
    # Files that are not named after a known game are taken for runs of one other game.
    games = {csv: game_of(csv.stem) or "another game" for csv in names}
    members = [Member(name, games[csv], read_run(csv, name)) for csv, name in names.items()]
    comparison = compare_members(members)
    if given["png_file"] and comparison.members:
        from simple_dqn.plot.figure import write  # Importing matplotlib takes a second.

        write(comparison.plot(), given["png_file"])
    print(comparison)


def _carry_out(plan: Plan, files: SweepFiles, pool: LocalPool | ClusterPool) -> None:
    """Carry out the rest of a sweep, and print its results.

    Raises:
        UserError: Runs failed.
    """
    text = save_plan(plan, files.plan)
    runs, report = [RunStatus(run, files) for run in plan.runs], Report(files, sys.stderr)

    def job(run: SweepRun) -> Job:
        return Job(files.arguments(plan, run), str(files.log(run)), str(files.plan), text)

    try:
        run_all(runs, lambda run: pool.submit(job(run)), report.update)
    finally:
        report.finish(runs)
    if failed := [one for one in runs if one.state is RunState.FAILED]:
        raise UserError(
            f"{len(failed)} of {len(runs)} runs failed, such as {failed[0].run.name} ({failed[0].reason}): "
            "fix the cause, then run the same command again"
        )
