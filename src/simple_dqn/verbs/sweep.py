"""`sweep`: learn many games, with several seeds each, as tasks of a cluster."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simple_dqn import flags, rules
from simple_dqn.cluster.job import Job
from simple_dqn.cluster.session import LOCAL, connected
from simple_dqn.config import Config
from simple_dqn.environment import as_played
from simple_dqn.errors import UserError
from simple_dqn.files import home
from simple_dqn.presets import PRESETS, USUAL
from simple_dqn.snapshot import claimed
from simple_dqn.sweep import ALL, Places, Plan, Row, Run, Sweep, check_same, find_games, remember
from simple_dqn.sweep.report import Report
from simple_dqn.sweep.schedule import State
from simple_dqn.sweep.summary import fresh_rows
from simple_dqn.verbs.common import start_log
from simple_dqn.verbs.own_game import is_own

if TYPE_CHECKING:
    from simple_dqn.cluster.sweep_tasks import Tasks

MOST = 10_000  # seeds, processors or GPUs

# What the runs of a sweep cannot have in common, and why.
OWN = {
    "random_seed": "each run has a seed of its own (--seeds)",
    "threads": "each run has its share of processors (--cpus_per_run)",
    "csv_file": "each run has a file of its own (--name)",
    "save_weights_prefix": "each run has files of its own (--name)",
    "replay_file": "two runs would write to the same file",
    "record_screen_path": "two runs would write to the same folder",
    "record_sound_filename": "two runs would write to the same file",
    "play_games": "a sweep trains",
    **dict.fromkeys(("actors", "chunk_steps", "weights_every"), "each run plays its own games"),
}
FILES = ("load_weights", "demonstrations")  # named from the folder where the sweep is started


def main(arguments: Sequence[str], program: str) -> None:
    """Learn many games, with several seeds each."""
    given = _parser(program).parse(arguments)
    cluster = given.pop("cluster", LOCAL)  # where runs are, not where their actors play
    config = _settings(given)
    games = find_games(given["games"], config.environment)
    rules.check(config.with_flags({"game": next(iter(games.values()))}))
    for game in games.values():
        as_played(replace(config.environment, game=game), given)  # refuses what would do nothing in it
    if given.get("print_config"):
        print(flags.listing(config))
        return
    start_log(config.run.log_level)
    settings = Config().flags().keys() | {"preset"}
    plan = Plan(
        games=games,
        seeds=given["seeds"],
        cpus_per_run=given["cpus_per_run"],
        gpus_per_run=given["gpus_per_run"],
        flags={name: value for name, value in given.items() if name in settings},
    )
    places = Places.of(home(), given.get("name") or "_".join(Path(word).stem for word in given["games"]))
    check_same(plan, places.plan)  # before the cluster is waited for
    with connected(cluster):
        from simple_dqn.cluster.sweep_tasks import Tasks  # Ray, which `connected` has found

        tasks = Tasks(plan.cpus_per_run, plan.gpus_per_run)
        with claimed(places.claim):
            _carry_out(plan, places, tasks, given.get("common_epoch", False))


def _parser(program: str) -> flags.Parser:
    parser = flags.parser(program, "Train deep Q-networks on many games, with several seeds each.")
    add = parser.add_argument
    number, share = _number(int, 1, "a whole number"), _number(float, 0, "a number")
    add("games", nargs="+", metavar="GAME", help=f"as for train.sh; or {' or '.join(ALL)}")
    add("--seeds", type=number, default=1, metavar="N", help="learn each with the seeds 1 to N (default: 1)")
    add("--cpus_per_run", type=number, default=1, metavar="N", help="processors of each run (default: 1)")
    add("--gpus_per_run", type=share, default=0.0, metavar="SHARE",
        help="GPUs of each run, such as 0.25; 0: runs use the processor alone (default: 0)")  # fmt: skip
    add("--name", help="of the sweep, and of the folders of its files (default: the games)")
    add("--common_epoch", type=flags.yes_or_no, nargs="?", const=True, metavar="BOOL",
        help="compare all runs at the latest epoch that all have reached, not only the finished ones "
             "(default: false)")  # fmt: skip
    flags.add_presets(parser, USUAL)
    return parser


def _settings(given: dict[str, Any]) -> Config:
    """Return the settings of every run; complete what was given, to mean the same on each machine.

    Raises:
        UserError: Something that was given cannot be the same for all.
    """
    for name, why in OWN.items():
        if name in given:
            raise UserError(f"--{name} is not for a sweep: {why}; leave it out")
    if is_own(given.get("environment", "")):
        raise UserError(
            f"--environment {given['environment']} is one game: name the file among the games of the sweep"
        )
    if not given["gpus_per_run"]:
        if given.get("backend") == "gpu":
            raise UserError(
                "--backend gpu needs a share of a GPU for each run: give --gpus_per_run, such as 0.25"
            )
        given["backend"] = "cpu"
    for name in FILES:
        if name in given:
            given[name] = str(Path(given[name]).absolute())
    return Config.from_flags({**PRESETS[given.get("preset", USUAL)], **given})


def _carry_out(plan: Plan, places: Places, tasks: "Tasks", common_epoch: bool) -> None:
    """Carry out what is left of a sweep, and say what it came to.

    Raises:
        UserError: Runs failed.
    """
    seal, sealed = places.plan, remember(plan, places.plan)

    def start(run: Run) -> None:
        tasks.start(Job(run.name, places.arguments(plan, run), str(places.log(run)), str(seal), sealed))

    rows = fresh_rows(plan, places)
    report = Report(places, common_epoch=common_epoch)
    try:
        Sweep(rows, start, tasks.wait, report.hear).run()
    finally:
        report.finish(rows)
    _refuse_failures(rows)


def _refuse_failures(rows: Sequence[Row]) -> None:
    failed = [row for row in rows if row.state is State.FAILED]
    if failed:
        first = failed[0]
        raise UserError(
            f"{len(failed)} of {len(rows)} runs failed, such as {first.run.game} seed {first.run.seed} "
            f"({first.reason}): mend that, and give the same command again"
        )


def _number(kind: type[float], least: float, words: str) -> Callable[[str], float]:
    """Return a function from a word to a `kind` of at least `least`."""

    def convert(word: str) -> float:
        try:
            number = kind(word)
        except ValueError:
            number = kind(-1)
        if not least <= number <= MOST:
            raise argparse.ArgumentTypeError(f"{word!r} is not {words} from {least:g} to {MOST}")
        return number

    return convert
