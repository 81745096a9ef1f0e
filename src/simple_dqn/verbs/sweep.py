"""`sweep`: train on many games with several seeds each, on one machine or a cluster."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from simple_dqn import flags, rules
from simple_dqn.cluster.session import LOCAL, Session
from simple_dqn.config import Config
from simple_dqn.environment.own_game import canonical_flags, is_own
from simple_dqn.errors import UserError
from simple_dqn.files import home
from simple_dqn.presets import USUAL
from simple_dqn.snapshot import locked
from simple_dqn.sweep.plan import (
    GAME_SETS,
    Plan,
    SweepFiles,
    SweepRun,
    check_same_plan,
    find_games,
    save_plan,
)
from simple_dqn.sweep.report import Report
from simple_dqn.sweep.runner import Job, JobRunner
from simple_dqn.sweep.scheduler import RunState, RunStatus, run_all
from simple_dqn.sweep.summary import new_statuses
from simple_dqn.verbs.common import check_weights, start_log
from simple_dqn.verbs.settings import parser_for, settings_for

MOST = 10_000  # seeds, processors or GPUs

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
    """Train on many games, with several seeds each."""
    given = _parser(program).parse(arguments)
    cluster = given.pop("cluster", LOCAL)  # that of the runs; there are no actors
    config = _settings(given)
    games = find_games(given["games"], config.environment)
    rules.check(config.with_flags({"game": next(iter(games.values()))}))
    for game in games.values():
        check_weights(config.with_flags(canonical_flags({"game": game})))
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
    files = SweepFiles.of(home(), given.get("name") or "_".join(Path(word).stem for word in given["games"]))
    check_same_plan(plan, files.plan)  # before joining the cluster, which takes seconds
    with closing(Session(cluster)):
        runner = JobRunner(plan.cpus_per_run, plan.gpus_per_run)
        with locked(files.lock):
            _carry_out(plan, files, runner, given.get("common_epoch", False))


def _parser(program: str) -> flags.Parser:
    parser = parser_for("sweep", program, "Train deep Q-networks on many games, with several seeds each.")
    add = parser.add_argument
    number, share = flags.number(int, minimum=1, maximum=MOST), flags.number(float, minimum=0, maximum=MOST)
    add("games", nargs="+", metavar="GAME", help=f"as for train.sh; or {' or '.join(GAME_SETS)}")
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
    """Return the settings of every run; make `given` complete, with absolute paths.

    Raises:
        UserError: A given setting cannot be the same for all runs.
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
    return settings_for("sweep", given)


def _carry_out(plan: Plan, files: SweepFiles, runner: JobRunner, common_epoch: bool) -> None:
    """Carry out the rest of a sweep, and print its results.

    Raises:
        UserError: Runs failed.
    """
    plan_text = save_plan(plan, files.plan)

    def start(run: SweepRun) -> None:
        log, arguments = str(files.log(run)), files.arguments(plan, run)
        runner.start(Job(run.name, arguments, log, shared_file=str(files.plan), shared_text=plan_text))

    runs = new_statuses(plan, files)
    report = Report(files, common_epoch=common_epoch)
    try:
        run_all(runs, start, runner.wait, report.update)
    finally:
        report.finish(runs)
    _refuse_failures(runs)


def _refuse_failures(runs: Sequence[RunStatus]) -> None:
    failed = [one for one in runs if one.state is RunState.FAILED]
    if failed:
        first = failed[0]
        raise UserError(
            f"{len(failed)} of {len(runs)} runs failed, such as {first.run.game} seed {first.run.seed} "
            f"({first.reason}): mend that, and give the same command again"
        )
