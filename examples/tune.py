"""Search the settings of a game with Optuna: each trial is a training by `simple_dqn.train`.

PYTHONPATH=src .venv/bin/python examples/tune.py pong --trials 20 --epochs 10

The same command continues the study. Flags given by hand are not searched, and stay the same in a study.
"""

import argparse
from pathlib import Path
from statistics import fmean
from typing import Any

import optuna

import simple_dqn

SPACE: dict[str, list[Any]] = {
    "learning_rate": [2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3],
    "network": ["small", "nature"],
    "train_frequency": [1, 2, 4, 8],
    "target_steps": [400, 1600, 6400],
}


def main(words: list[str] | None = None) -> None:
    """Carry out trials until the study has as many as asked for, and print the best settings."""
    parser = argparse.ArgumentParser()
    parser.add_argument("game")
    parser.add_argument("--trials", type=int, default=20)
    given, others = parser.parse_known_args(words)
    flags = [part for word in others for part in word.split("=", 1)]
    if len(flags) % 2:
        parser.error("give each flag a value, such as --noisy true")
    if own := {"--csv_file", "--save_weights_prefix"} & {*flags}:
        parser.error(f"leave out {own.pop()}: each trial has a CSV of its own, and no snapshots")
    settings: dict[str, Any] = {"epochs": 10, "random_seed": 1}
    settings |= {flag.strip("-"): value for flag, value in zip(flags[::2], flags[1::2], strict=True)}
    folder = Path("results", "tune", Path(given.game).stem)
    folder.mkdir(parents=True, exist_ok=True)
    pruner, storage = optuna.pruners.MedianPruner(4, 3), f"sqlite:///{folder}.db"
    study = optuna.create_study(storage=storage, study_name=folder.name, pruner=pruner,
                                direction="maximize", load_if_exists=True)  # fmt: skip
    asked = {name: str(value) for name, value in settings.items()}
    if (earlier := study.user_attrs.get("settings", asked)) != asked:  # scores that cannot be compared
        parser.error(f"{folder}.db has trials with other flags, {earlier}: repeat them, or move it away")
    study.set_user_attr("settings", asked)

    def score(trial: optuna.Trial) -> float:
        rewards: list[float] = []

        def on_phase_end(row: dict[str, Any]) -> None:
            if row["phase"] == "train" and row["average_reward"] is not None:
                rewards.append(row["average_reward"])
                trial.report(fmean(rewards[-3:]), row["epoch"])
                if trial.should_prune():
                    raise optuna.TrialPruned

        searched = [flag for flag in SPACE if flag not in settings]
        chosen = {flag: trial.suggest_categorical(flag, SPACE[flag]) for flag in searched}
        files: dict[str, Any] = {"csv_file": folder / f"{trial.number}.csv", "save_weights_prefix": None}
        simple_dqn.train(given.game, on_phase_end=on_phase_end, **settings, **chosen, **files)
        return fmean(rewards[-3:])  # of a game that ended; if none did, the trial fails

    left = max(0, given.trials - len(study.trials))
    study.optimize(score, left, catch=(simple_dqn.UserError, ValueError))
    if not study.get_trials(states=[optuna.trial.TrialState.COMPLETE]):
        parser.exit(2, "no trial completed: fix the errors above, then raise --trials\n")
    print(f"./train.sh {given.game} best --config {folder}/{study.best_trial.number}.yaml")


if __name__ == "__main__":
    main()
