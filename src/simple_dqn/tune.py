"""`tune`: search the settings of a game with Optuna; each trial is a training by `simple_dqn.train`."""

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from simple_dqn import flags, settings_file
from simple_dqn.api import train
from simple_dqn.command_line import number
from simple_dqn.config import Config
from simple_dqn.errors import UserError, require_extra
from simple_dqn.files import from_here, home, reporting_failure
from simple_dqn.presets import USUAL
from simple_dqn.verbs.common import run_name, start_log
from simple_dqn.verbs.settings import parser_for, settings_for
from simple_dqn.verbs.train import read

if TYPE_CHECKING:
    from optuna import Study, Trial

LATEST = 3  # epochs whose mean reward is the value of a trial, so far or in the end
OWN = ("csv_file", "save_weights_prefix", "play_games")


def main(arguments: Sequence[str], program: str) -> None:
    """Run trials until the study has as many as asked for, and print the best."""
    parser = parser_for("tune", program, "Search learning rate, network and schedule with Optuna.")
    parser.add_argument("game", help="as for train.sh")
    parser.add_argument("--trials", type=number(int, minimum=1), default=20, metavar="N",
                        help="trials of the study, earlier ones included (default: 20)")  # fmt: skip
    parser.add_argument("--name", default=None, help="of the study (default: the game)")
    flags.add_presets(parser, USUAL)
    given = parser.parse(arguments)
    game, trials, name = (given.pop(word) for word in ("game", "trials", "name"))
    if own := [flag for flag in OWN if flag in given]:
        raise UserError(f"--{own[0]} is not for a search, each trial has files of its own: leave it out")
    given = {"epochs": 10, "random_seed": 1, **given}
    config = settings_for("train", read([game, *flags.words(given)], program))
    if given.pop("print_config", False):
        print(settings_file.listing(config, given.get("preset", USUAL)))
        return
    require_extra("tune", "tune")
    start_log(given.get("log_level", "WARNING"))
    folder = home() / "results" / "tune" / (name or run_name(config, None))
    study = _study(folder, json.dumps({"game": game, **given}, sort_keys=True, default=str))
    ended = [trial for trial in study.get_trials() if trial.state.name in ("COMPLETE", "PRUNED")]
    for _ in range(trials - len(ended)):
        _try(study, game, given, config, folder)
    best = study.best_trial
    print(f"Best of {max(trials, len(ended))} trials: {best.number}, reward {best.value:,.4g}, {best.params}")
    settings = shlex.quote(str(from_here(folder / f"trial_{best.number}.yaml")))
    print(f"Next: ./train.sh {game} best --config {settings}")


def _study(folder: Path, about: str) -> "Study":
    """Return the study beside `folder`, new or started before with the same flags, `about`."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with reporting_failure(f"the folder {folder}", "make it writable, or set SIMPLE_DQN_HOME"):
        folder.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=f"sqlite:///{folder.absolute()}.db", study_name=folder.name, load_if_exists=True,
        direction="maximize", pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=3),
    )  # fmt: skip
    if (begun := study.user_attrs.get("flags", about)) != about:
        raise UserError(f"{folder}.db was started with {begun}: repeat these flags, or give another --name")
    study.set_user_attr("flags", about)
    return study


def _suggestions(trial: "Trial", config: Config, given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a trial that are not `given` by hand, by flag."""
    steps, rates = config.run.epochs * config.run.train_steps, config.network
    space: dict[str, Callable[[str], Any]] = {
        "learning_rate": lambda name: trial.suggest_float(name, 2e-5, 2e-3, log=True),
        "network": lambda name: trial.suggest_categorical(name, ("small", "nature")),
        "train_frequency": lambda name: trial.suggest_categorical(name, (1, 2, 4, 8)),
        "target_steps": lambda name: trial.suggest_categorical(name, (400, 1600, 6400)),
        "exploration_decay_steps": lambda name: trial.suggest_int(name, max(1, steps // 20), steps, log=True),
    }
    found = {name: suggest(name) for name, suggest in space.items() if name not in given}
    if rates.learning_rate_decay_updates and "learning_rate" in found:
        found["learning_rate_end"] = found["learning_rate"] / rates.learning_rate * rates.learning_rate_end
    return found


def _try(study: "Study", game: str, given: dict[str, Any], config: Config, folder: Path) -> None:
    """Carry out one trial, whose value is the mean reward of the latest epochs; an error does not count."""
    from optuna import TrialPruned
    from optuna.trial import TrialState

    trial, state, rewards = study.ask(), TrialState.FAIL, list[float]()
    phase = "test" if config.run.test_steps else "train"

    def on_phase_end(row: dict[str, Any]) -> None:
        if row["phase"] == phase and row["average_reward"] is not None:
            rewards.append(row["average_reward"])
            trial.report(fmean(rewards[-LATEST:]), row["epoch"])
            if trial.should_prune():
                raise TrialPruned

    settings = {**_suggestions(trial, config, given), "preset": USUAL, **given}
    try:
        with TemporaryDirectory(dir=folder) as weights:
            settings |= {"csv_file": folder / f"trial_{trial.number}.csv"}
            settings |= {"save_weights_prefix": f"{weights}/{game}"}
            train(game, on_phase_end=on_phase_end, **settings)
        if not rewards:
            raise UserError(f"no game ended in any {phase} phase: raise --{phase}_steps")
        state = TrialState.COMPLETE
    except TrialPruned:
        state = TrialState.PRUNED
    finally:
        study.tell(trial, fmean(rewards[-LATEST:]) if state is TrialState.COMPLETE else None, state)
    print(f"Trial {trial.number}: {state.name.lower()}, {fmean(rewards[-LATEST:]):,.4g}, {trial.params}")
