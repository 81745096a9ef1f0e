"""Every setting, in one frozen dataclass per room; the command line's flags are made from them.

A field's name is its flag's name, its default the flag's default, and its help says the unit.
A "step" is one choice of the agent: `frame_skip` frames of the emulator in one game.
"""

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any


def option(
    default: Any,
    help: str,  # noqa: A002 - argparse's own word
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] | None = None,
    group: str | None = None,
    local: bool = False,
) -> Any:
    """Return a dataclass field that is also a flag.

    Args:
        default: The value without the flag; None means "not given".
        help: What it does and in which unit, for `--help`.
        minimum: The least value allowed.
        above: A bound that the value must exceed.
        maximum: The greatest value allowed.
        choices: The words allowed.
        group: The heading in `--help`, where it is not that of the dataclass.
        local: It is about this machine, and so stays out of files that are shared.
    """
    limits = {"minimum": minimum, "above": above, "maximum": maximum, "choices": choices}
    return field(default=default, metadata={"help": help, **limits, "group": group, "local": local})


@dataclass(frozen=True)
class EnvironmentConfig:
    """What is played, and what of it the agent sees."""

    game: str = field(default="", metadata={"positional": True, "local": True})
    environment: str = option("ale", "which kind of environment plays", choices=("ale", "gym", "catch"))
    workers: int = option(1, "games played side by side", minimum=1, maximum=4096)
    processes: int = option(0, "processes that play the games; 0: this one", minimum=0, maximum=256)
    display_screen: bool = option(False, "show the emulator's own window while it trains and tests")
    frame_skip: int = option(4, "frames for which each chosen action is held", minimum=1, maximum=60)
    repeat_action_probability: float = option(
        0.0, "probability per frame that the game takes the previous action again", minimum=0, maximum=1
    )
    minimal_action_set: bool = option(True, "only the actions that do something in this game, not all 18")
    color_averaging: bool = option(
        True, "average each frame with the one before, as ALE does; else the maximum of the last two"
    )
    frame_maximum: bool = option(
        True, "without color_averaging: the maximum of the last two frames; false: the last frame alone"
    )
    screen_width: int = option(
        84, "width of a screen after preprocessing, in pixels", minimum=8, maximum=1024
    )
    screen_height: int = option(84, "height of a screen, in pixels", minimum=8, maximum=1024)
    record_screen_path: str | None = option(
        None, "folder in which every frame is written as a PNG file", local=True
    )
    record_sound_filename: str | None = option(
        None, "WAV file in which the game's sound is written", local=True
    )
    max_game_frames: int = option(
        108_000, "frames (60 a second) after which a game is cut off; 0: never", minimum=0
    )
    random_starts: int = option(
        30, "a game starts with 0 to this many steps of doing nothing", minimum=0, group="Agent"
    )


@dataclass(frozen=True)
class MemoryConfig:
    """What is remembered."""

    replay_size: int = option(1_000_000, "experiences kept, one screen each", minimum=1)
    history_length: int = option(4, "screens that form a state", minimum=1, maximum=64)
    replay_file: str | None = option(
        None, "keep the screens in this memory-mapped file, not in memory", local=True
    )
    replay_device: str = option(
        "auto", "where the screens lie; auto: on the GPU if there is one and they fit",
        choices=("auto", "gpu", "memory"), local=True,
    )  # fmt: skip


@dataclass(frozen=True)
class NetworkConfig:
    """How the network learns."""

    learning_rate: float = option(0.00025, "step size of the optimizer", above=0)
    discount_rate: float = option(0.99, "what a reward one step later is worth", minimum=0, maximum=1)
    batch_size: int = option(32, "experiences in one update", minimum=1)
    optimizer: str = option("rmsprop", "the rule of the update", choices=("rmsprop", "adam", "adadelta"))
    decay_rate: float = option(
        0.95, "decay of the running mean in RMSProp and Adadelta", minimum=0, maximum=1
    )
    adam_epsilon: float = option(
        1.5e-4, "added to the root in Adam: where gradients are smaller, steps shrink with them", above=0
    )
    clip_error: float = option(1.0, "temporal-difference errors are clipped to ± this; 0: not", minimum=0)
    min_reward: float = option(-1.0, "rewards below count as this, in game points")
    max_reward: float = option(1.0, "rewards above count as this, in game points")
    batch_norm: bool = option(False, "normalise each hidden layer over the batch")
    network: str = option(
        "nature", "its layers; neon: without biases, as simple_dqn had it", choices=("nature", "neon")
    )


@dataclass(frozen=True)
class BackendConfig:
    """What the network runs on."""

    backend: str = option(
        "gpu", "where the network runs; no GPU: the CPU, with a word", choices=("gpu", "cpu")
    )
    device_id: int = option(0, "which GPU, counted from 0", minimum=0)
    datatype: str = option(
        "float32",
        "precision of the hidden layers; the output layer and the loss stay float32 or wider",
        choices=("float32", "bfloat16", "float16", "float64"),
    )
    threads: int = option(
        0, "CPU threads of the network; 0: as measured at start", minimum=0, maximum=1024, local=True
    )


@dataclass(frozen=True)
class AgentConfig:
    """How the agent explores, and how often it learns."""

    exploration_rate_start: float = option(1.0, "share of random actions at first", minimum=0, maximum=1)
    exploration_rate_end: float = option(0.1, "share of random actions at last", minimum=0, maximum=1)
    exploration_decay_steps: int = option(1_000_000, "steps from the first to the last share", minimum=0)
    exploration_rate_test: float = option(0.05, "share of random actions in tests", minimum=0, maximum=1)
    train_frequency: int = option(4, "steps between trainings", minimum=1)
    train_repeat: int = option(1, "updates in each training", minimum=1)
    target_steps: int = option(10_000, "steps between copies to the target network; 0: no such", minimum=0)
    concurrent: bool = option(False, "play by the target network while the online network learns")
    synchronize: bool | None = option(
        None, "predict for all workers at once, not one by one; without the flag, where there are several"
    )


@dataclass(frozen=True)
class RunConfig:
    """How long, and where the outcome goes."""

    random_steps: int = option(50_000, "steps of random play that fill the memory at first", minimum=0)
    train_steps: int = option(250_000, "steps of training in an epoch", minimum=0)
    test_steps: int = option(125_000, "steps of testing after each epoch", minimum=0)
    epochs: int = option(200, "epochs, counted from the first of all", minimum=0)
    start_epoch: int = option(0, "epochs that count as done", minimum=0)
    play_games: int = option(0, "play this many games instead of training and testing", minimum=0)
    load_weights: str | None = option(None, "snapshot whose weights to start from", local=True)
    demonstrations: str | None = option(
        None, "what play --record_play wrote, to be in the replay memory from the start", local=True
    )
    save_weights_prefix: str | None = option(
        None, "snapshots are written as this, _, the epoch, .pkl", local=True
    )
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


@dataclass(frozen=True)
class Config:
    """All settings of a run."""

    environment: EnvironmentConfig = EnvironmentConfig()
    memory: MemoryConfig = MemoryConfig()
    network: NetworkConfig = NetworkConfig()
    backend: BackendConfig = BackendConfig()
    agent: AgentConfig = AgentConfig()
    run: RunConfig = RunConfig()

    @staticmethod
    def from_flags(flags: dict[str, Any]) -> "Config":
        """Return the settings in which `flags`, by flag name, replace the defaults.

        Names that no room knows are ignored: a snapshot may bring flags of another version.
        """
        return Config().with_flags(flags)

    def with_flags(self, flags: dict[str, Any]) -> "Config":
        """Return these settings with `flags`, by flag name, in place of their own."""
        rooms = {}
        for room in fields(self):
            settings = getattr(self, room.name)
            given = {f.name: flags[f.name] for f in fields(settings) if f.name in flags}
            rooms[room.name] = replace(settings, **given)
        return Config(**rooms)

    @property
    def seed(self) -> int:
        """The seed of all randomness, once one was given or drawn."""
        assert self.run.random_seed is not None
        return self.run.random_seed

    def flags(self) -> dict[str, Any]:
        """Return every setting by its flag's name."""
        return {name: value for room in asdict(self).values() for name, value in room.items()}

    def shared_flags(self) -> dict[str, Any]:
        """Return every setting but those that are about this machine."""
        settings = [setting for room in fields(self) for setting in fields(getattr(self, room.name))]
        local = {setting.name for setting in settings if setting.metadata["local"]}
        return {name: value for name, value in self.flags().items() if name not in local}
