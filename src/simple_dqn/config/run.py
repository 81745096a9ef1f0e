"""How long a run is."""

from dataclasses import dataclass

from simple_dqn.config.option import option


@dataclass(frozen=True)
class RunConfig:
    """How long, and where the outcome goes."""

    random_steps: int = option(50_000, "steps of random play that fill the memory at first", minimum=0)
    train_steps: int = option(250_000, "steps of training in an epoch", minimum=0)
    test_steps: int = option(
        125_000, "steps of testing after each epoch; of games side by side, all but one are then finished",
        minimum=0,
    )  # fmt: skip
    epochs: int = option(200, "epochs, counted from the first of all", minimum=0)
    start_epoch: int = option(0, "epochs that count as done", minimum=0)
    play_games: int = option(0, "play this many games instead of training and testing", minimum=0)
    load_weights: str | None = option(None, "snapshot whose weights to start from", local=True)
    demonstrations: str | None = option(
        None, "what play --record_play wrote, to be in the replay memory for good", local=True
    )
    save_weights_prefix: str | None = option(
        None, "snapshots are written as this, _, the epoch, .pkl", local=True
    )
    checkpoint_minutes: float = option(
        10, "minutes between checkpoints within an epoch; 0: only at its end", minimum=0, local=True
    )
    checkpoint_steps: int = option(
        50_000, "the same in steps, where games cannot be saved and start anew at a checkpoint", minimum=0
    )
    keep: int = option(2, "checkpoints kept", minimum=1, local=True)
    csv_file: str | None = option(None, "statistics, one row per phase, are written here", local=True)
    tensorboard: bool = option(False, "write TensorBoard event files beside the CSV")
    visualization_filters: int = option(4, "filters of each layer on the page of nvis", minimum=1, maximum=64)
    visualization_file: str | None = option(None, "HTML file in which that page is written", local=True)
    random_seed: int | None = option(
        None, "seed of all randomness; without one it is drawn and logged", minimum=0, group="Common"
    )
    log_level: str = option(
        "INFO", "least important messages shown", group="Common",
        choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
    )  # fmt: skip
