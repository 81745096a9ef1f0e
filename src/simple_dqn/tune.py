"""`tune`: search the settings of a game with Optuna; each trial is a training by `simple_dqn.train`."""

import json
from collections.abc import Sequence
from shlex import quote
from statistics import fmean
from typing import Any

from simple_dqn import rules
from simple_dqn.api import train
from simple_dqn.command_line import number
from simple_dqn.config import Config, words
from simple_dqn.errors import UserError, one_line, require_extra
from simple_dqn.files import from_here, home
from simple_dqn.presets import USUAL
from simple_dqn.verbs import train as verb
from simple_dqn.verbs.common import check_weights, run_name, start_log
from simple_dqn.verbs.settings import parser_for, settings_for, settle

OWN = ("csv_file", "save_weights_prefix", "play_games")


def main(arguments: Sequence[str], program: str) -> None:
    """Run trials until the study has as many as asked for, and print the best; a failed one is marked."""
    parser = parser_for("tune", program, "Search learning rate, network and schedule with Optuna.")
    parser.add_argument("game", help="as for train.sh")
    trials_help = "trials of the study, earlier ones included (default: 20)"
    parser.add_argument("--trials", type=number(int, minimum=1), default=20, metavar="N", help=trials_help)
    parser.add_argument("--name", default=None, help="of the study (default: the game)")
    parser.add_presets(USUAL)
    given = {"preset": USUAL, "epochs": 10, "random_seed": 1, **parser.parse(arguments)}
    game, trials, name = (given.pop(word) for word in ("game", "trials", "name"))
    if own := [flag for flag in OWN if flag in given]:
        raise UserError(f"--{own[0]} is not for a search, whose trials have their own: leave it out")
    config = settings_for("train", verb.read([game, *words(given)], program))
    if given.get("print_config"):
        verb.main([game, *words(given)], program)
        return
    check_weights(settle(config, log=False))
    if not config.run.epochs or not (config.run.train_steps or config.run.test_steps):
        raise UserError("a search needs scores: give --epochs, and --train_steps or --test_steps, above 0")
    usual = run_name(config, name)  # refuses a name that cannot be a file's
    name = name or usual
    require_extra("tune", "tune")
    import optuna

    start_log(given.get("log_level", "WARNING"))
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    searched, folder = space(config, given), home() / "results" / "tune" / name
    folder.mkdir(parents=True, exist_ok=True)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=3)
    study = optuna.create_study(storage=f"sqlite:///{folder.absolute()}.db", study_name=name, pruner=pruner,
                                direction="maximize", load_if_exists=True)  # fmt: skip
    about = json.dumps({"game": game, **given, "searched": searched}, sort_keys=True, default=str)
    if (begun := study.user_attrs.get("flags", about)) != about:
        raise UserError(f"{folder}.db was started with {begun}: repeat these flags, or give another --name")
    study.set_user_attr("flags", about)

    def reward(trial: optuna.Trial) -> float:
        rewards, phase = list[float](), "test" if config.run.test_steps else "train"

        def on_phase_end(row: dict[str, Any]) -> None:
            if row["phase"] == phase and row["average_reward"] is not None:
                rewards.append(row["average_reward"])
                trial.report(fmean(rewards[-3:]), row["epoch"])
                if trial.should_prune():
                    raise optuna.TrialPruned("below the median")

        chosen = {flag: trial.suggest_categorical(flag, values) for flag, values in searched.items()}
        # Without snapshots no advice names them.
        files: dict[str, Any] = {
            "csv_file": folder / f"trial_{trial.number}.csv",
            "save_weights_prefix": None,
        }
        train(game, label=f"{name}_{trial.number}", on_phase_end=on_phase_end, **given, **chosen, **files)
        if not rewards:
            raise UserError(f"no game ended in any {phase} phase: raise --{phase}_steps")
        return fmean(rewards[-3:])

    outcome: object = "they have ended before"
    while sum(one.state.is_finished() for one in study.trials) < trials:
        trial = study.ask()  # Ctrl-C leaves it unfinished, and another one takes its place
        try:
            outcome = study.tell(trial, reward(trial)).value
        except Exception as error:  # Whatever ends this trial, others may do better.
            outcome, state = one_line(error), "PRUNED" if isinstance(error, optuna.TrialPruned) else "FAIL"
            study.tell(trial, state=optuna.trial.TrialState[state])
        print(f"Trial {trial.number}: {outcome}, {trial.params}", flush=True)
    if all(one.state.name != "COMPLETE" for one in study.trials):
        raise UserError(f"none of {trials} trials has a score ({outcome}): give other flags and --name")
    best, count = study.best_trial, sum(one.state.is_finished() for one in study.trials)
    print(f"Best of {count} trials: {best.number}, reward {best.value:,.4g}, {best.params}")
    settings = quote(str(from_here(folder / f"trial_{best.number}.yaml")))
    print(f"Next: ./train.sh {game} best --config {settings}")


def space(config: Config, given: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the values to search of each setting that is not `given`, if the rules allow several."""
    agent, steps = config.agent, config.run.epochs * config.run.train_steps
    explores = agent.exploration_rate_start > agent.exploration_rate_end
    choices: dict[str, Sequence[Any]] = {
        "learning_rate": (2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3),
        "network": () if config.run.load_weights else ("small", "nature"),
        "train_frequency": () if config.memory.rollout_steps else (1, 2, 4, 8),
        "target_steps": (400, 1600, 6400),
        "exploration_decay_steps": (steps // 20, steps // 5, steps) if explores else (),
    }
    for name, values in choices.items():
        choices[name] = [v for v in values if not any(rules.complaints(config.with_flags({name: v})))]
    return {name: list(values) for name, values in choices.items() if len(values) > 1 and name not in given}
