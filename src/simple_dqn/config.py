"""Every setting, in one frozen dataclass per room; the command line's flags are made from them.

A field's name is its flag's name, its default the flag's default, and its help says the unit.
A "step" is one choice of the agent: `frame_skip` frames of the emulator in one game.
"""

import re
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any


def option(
    default: Any,
    help: str,  # noqa: A002 - argparse's own word
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    endless: bool = False,
    choices: tuple[str, ...] | None = None,
    file: str | None = None,
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
        endless: Whether infinity is a value, too.
        choices: The words allowed.
        file: What else is allowed, a file that is named so.
        group: The heading in `--help`, where it is not that of the dataclass.
        local: It is about this machine, and so stays out of files that are shared.
    """
    limits = {"minimum": minimum, "above": above, "maximum": maximum, "endless": endless}
    words = {"choices": choices, "file": file}
    return field(default=default, metadata={"help": help, **limits, **words, "group": group, "local": local})


CLASS_FILE = re.compile(r"(.+\.py)(?::([^\W\d]\w*))?")  # a file with a game of the user's own, and its class


@dataclass(frozen=True)
class EnvironmentConfig:
    """What is played, and what of it the agent sees."""

    game: str = field(default="", metadata={"positional": True, "local": True})
    environment: str = option(
        "ale", "which kind of environment plays, or a class of your own", choices=("ale", "gym", "catch"),
        file="FILE.py:CLASS",
    )  # fmt: skip
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
        30, "a game starts with 0 to this many no-op steps of frame_skip frames", minimum=0, group="Agent"
    )
    random_start_frames: int = option(
        0, "a game starts with 0 to this many single no-op frames; needs random_starts 0",
        minimum=0, maximum=3600, group="Agent",
    )  # fmt: skip

    @property
    def own(self) -> bool:
        """Whether the game is a class of the user's own."""
        return CLASS_FILE.fullmatch(self.environment) is not None

    def unseen(self) -> "EnvironmentConfig":
        """Return the same games, neither displayed nor recorded."""
        return replace(self, display_screen=False, record_screen_path=None, record_sound_filename=None)


@dataclass(frozen=True)
class MemoryConfig:
    """What is remembered."""

    replay_size: int = option(1_000_000, "experiences kept, one screen each", minimum=1)
    history_length: int = option(4, "screens that form a state", minimum=1, maximum=64)
    n_step: int = option(
        1, "steps whose rewards are learnt from at once, before the value of the state they lead to",
        minimum=1, maximum=100,
    )  # fmt: skip
    # The numbers are those of Schaul et al. (2016), proportional variant; Rainbow's exponent is 0.5.
    prioritized: bool = option(False, "draw the likelier what was predicted worse, not all alike")
    priority_exponent: float = option(
        0.6, "how far the error decides what is drawn; 0: not at all, 1: in proportion", minimum=0, maximum=1
    )
    priority_beta_start: float = option(
        0.4, "how far smaller updates make up for that at first; 0: not at all, 1: wholly",
        minimum=0, maximum=1,
    )  # fmt: skip
    priority_beta_steps: int = option(
        50_000_000, "steps of training until they make up for it wholly", minimum=0
    )
    replay_file: str | None = option(
        None, "keep the screens in this memory-mapped file, not in memory", local=True
    )
    replay_compression: str = option(
        "none", "keep the screens compressed in memory: less of it, a little slower",
        choices=("none", "lz4"), local=True,
    )  # fmt: skip
    replay_device: str = option(
        "auto", "where the screens lie; auto: on the GPU if there is one and they fit, uncompressed",
        choices=("auto", "gpu", "memory"), local=True,
    )  # fmt: skip


@dataclass(frozen=True)
class NetworkConfig:
    """How the network is made, and how it learns."""

    learning_rate: float = option(0.00025, "step size of the optimizer", above=0)
    learning_rate_end: float = option(
        0.00005, "what it falls to, linearly, over learning_rate_decay_updates", above=0
    )
    learning_rate_decay_updates: int = option(
        0, "updates over which the step size falls; 0: it stays as it is", minimum=0
    )
    discount_rate: float = option(0.99, "what a reward one step later is worth", minimum=0, maximum=1)
    batch_size: int = option(32, "experiences in one update", minimum=1)
    optimizer: str = option("rmsprop", "the rule of the update", choices=("rmsprop", "adam", "adadelta"))
    decay_rate: float = option(
        0.95, "decay of the running mean in RMSProp and Adadelta", minimum=0, maximum=1
    )
    adam_epsilon: float = option(
        1.5e-4, "added to the root in Adam: where gradients are smaller, steps shrink with them", above=0
    )
    loss: str = option(
        "huber", "what grows with the error: its square, or linearly beyond clip_error",
        choices=("huber", "mse"),
    )  # fmt: skip
    clip_error: float = option(1.0, "temporal-difference errors are clipped to ± this; 0: not", minimum=0)
    min_reward: float = option(-1.0, "rewards below count as this, in game points", endless=True)
    max_reward: float = option(1.0, "rewards above count as this, in game points", endless=True)
    network: str = option(
        "nature", "its layers; neon: without biases, as simple_dqn had it",
        choices=("nature", "neon", "small", "impala"),
    )  # fmt: skip
    batch_norm: bool = option(False, "normalise each hidden layer over the batch")
    layer_norm: bool = option(False, "normalise each hidden layer over its units, state by state")
    dueling: bool = option(False, "add up the value of a state and the advantage of each action")
    double: bool = option(False, "the online network chooses the action that the target network values")
    munchausen: bool = option(
        False, "reward an action by how likely the network was to take it, and keep its policy soft"
    )
    munchausen_alpha: float = option(0.9, "how much of that is added to the reward", minimum=0, maximum=1)
    munchausen_tau: float = option(0.03, "temperature of the soft policy, in Q-values", above=0)
    munchausen_floor: float = option(-1.0, "the least that is added, before alpha", maximum=0)
    noisy: bool = option(False, "explore by noise in the dense layers, which is learnt")
    noisy_sigma: float = option(0.5, "how strong that noise is at first", above=0)
    distributional: str = option(
        "none", "learn how returns are distributed: their odds on fixed atoms (c51), or their quantiles",
        choices=("none", "c51", "quantile"),
    )  # fmt: skip
    atoms: int = option(51, "atoms of c51", minimum=2, maximum=1024)
    v_min: float = option(-10.0, "return of the first atom")
    v_max: float = option(10.0, "return of the last atom")
    quantiles: int = option(200, "quantiles that are learnt of each action's return", minimum=1, maximum=1024)


@dataclass(frozen=True)
class BackendConfig:
    """What the network runs on."""

    backend: str = option(
        "gpu", "where the network runs; no GPU: the CPU, with a word", choices=("gpu", "cpu")
    )
    device_id: int = option(0, "which GPU, counted from 0", minimum=0)
    datatype: str = option(
        "float32",
        "precision of the hidden layers; the output layer and the loss stay float32 or wider; auto: bfloat16 "
        "where the processor computes in it, else float32",
        choices=("float32", "bfloat16", "float16", "float64", "auto"),
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
    exploration_spread: float = option(
        0.0, "how unlike each other games explore in training: game i of N by ε ** (1 + SPREAD i / (N - 1)); "
        "0: all alike; with --cluster 0.4 is ε, from first to last, and 7 the spread", minimum=0, maximum=100,
    )  # fmt: skip
    slip_probability: float = option(
        0.0, "probability that a training game does a random action in place of the one that is remembered, "
        "so that the network learns to be safe from random moves", minimum=0, maximum=1,
    )  # fmt: skip
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


@dataclass(frozen=True)
class ClusterConfig:
    """Whether actors on a cluster play, and how they and the learner keep each other in step.

    All are about these machines, and stay out of files that are shared.
    """

    cluster: str = option(
        "none", "where actors play: local, processes of this machine; auto, the Ray cluster that this "
        "machine belongs to; or the ADDRESS of its head, as 10.0.0.1:6379", local=True,
    )  # fmt: skip
    actors: int = option(
        1, "actors, each a process with --workers games of its own", minimum=1, maximum=100_000, local=True
    )
    chunk_steps: int = option(
        50, "steps of each of its games that an actor plays by the same weights, and sends together",
        minimum=1, maximum=100_000, local=True,
    )  # fmt: skip
    weights_every: int = option(
        100, "updates from one version of the weights that actors play by to the next", minimum=1, local=True
    )

    @property
    def on(self) -> bool:
        """Whether actors play."""
        return self.cluster != "none"


@dataclass(frozen=True)
class Config:
    """All settings of a run."""

    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    backend: BackendConfig = field(default_factory=BackendConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    run: RunConfig = field(default_factory=RunConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)

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
        """Return every setting but those that are about this machine, of a class's file all but the name."""
        settings = [setting for room in fields(self) for setting in fields(getattr(self, room.name))]
        local = {setting.name for setting in settings if setting.metadata["local"]}
        shared = {name: value for name, value in self.flags().items() if name not in local}
        if self.environment.own and Path(self.environment.environment).is_absolute():
            shared["environment"] = Path(self.environment.environment).name
        return shared
