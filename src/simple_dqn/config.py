"""Every setting: its type, default, limits and help, and how text is converted to its value.

A field's name is its flag's name and its key in settings files and snapshots. A "step" is one choice of the
agent: `frame_skip` frames of the emulator in one game.
"""

from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from functools import cache
from types import NoneType
from typing import Any, get_args, get_type_hints

from simple_dqn.errors import UserError


def option(default: Any, help: str, **more: Any) -> Any:  # noqa: A002 - argparse's own word
    """Return a dataclass field that is a setting.

    Args:
        default: The value when nothing is given; None: "not given".
        help: The text for `--help`, with the unit.
        more: `minimum`, `above` and `maximum`: limits of the value; `endless`: infinity is allowed;
            `choices`: the values allowed; `group`: the heading in `--help`, if it differs from that of the
            dataclass; `local`: it concerns this machine only, and snapshots leave it out; `share_of`: "steps"
            or "updates": a share of those of the whole run, such as 10%, is allowed.
    """
    return field(default=default, metadata={"help": help, **more})


@dataclass(frozen=True)
class Share:
    """A share of a whole run, which `Config` converts to a number of steps or updates."""

    percent: float

    def __str__(self) -> str:
        """Return it as written on the command line."""
        return f"{self.percent:g}%"


# The choices that `simple_dqn.api.registration` adds to.
REGISTERED: dict[str, list[str]] = {
    "network": ["nature", "neon", "small", "impala"],
    "sampler": ["uniform", "prioritized"],
    "target_rule": ["max", "double", "munchausen"],
    "track": ["none", "wandb", "trackio"],
}
# Values that have gone -> the replacement.
GONE_VALUES = {
    "FILE.py": "FILE.py:CLASS is gone: make the game a Gymnasium environment, which FILE.py registers, and "
    "give FILE.py as the game (docs/modify.md)",
    "mlflow": "mlflow is gone: give wandb or trackio, or a writer of your own (simple_dqn.register_track)",
}

ROLLOUT = 16  # steps of a rollout unless told otherwise


# fmt: off
@dataclass(frozen=True)
class EnvironmentConfig:
    """The games and their preprocessing."""

    game: str = field(default="", metadata={"positional": True, "local": True})
    # The names of the files of `--import`, without folders: text for messages, which nothing imports.
    imports: str | None = field(default=None, metadata={"positional": True})
    environment: str = option("ale",
        "kind of environment; by default the one that has the game", choices=("ale", "gym", "catch"))
    emulator: str = option("ale",
        "emulator of Atari games: ALE, or one in NVIDIA Warp that is equal to it in the games of "
        "docs/emulator.md", choices=("ale", "warp"), local=True)
    workers: int = option(1, "games played side by side", minimum=1, maximum=4096)
    processes: int = option(0,
        "worker processes that play the games; 0: none, this process plays them",
        minimum=0, maximum=256, local=True)
    display_screen: bool = option(False, "show the emulator's own window during training and tests")
    frame_skip: int = option(4, "frames for which each action is repeated", minimum=1, maximum=60)
    repeat_action_probability: float = option(0.0,
        "probability per frame that the game repeats the previous action (sticky actions)",
        minimum=0, maximum=1)
    minimal_action_set: bool = option(True,
        "use only the actions that have an effect in the game, not all 18")
    color_averaging: bool = option(True,
        "average each frame with the one before it, as ALE does; false: see frame_maximum")
    frame_maximum: bool = option(True,
        "without color_averaging: the maximum of the last two frames; false: the last frame alone")
    screen_width: int = option(84,
        "width of a screen after preprocessing, in pixels", minimum=8, maximum=1024)
    screen_height: int = option(84,
        "height of a screen after preprocessing, in pixels", minimum=8, maximum=1024)
    record_screen_path: str | None = option(None, "folder to write every frame to, as PNG files", local=True)
    record_sound_filename: str | None = option(None, "WAV file to write the game's sound to", local=True)
    max_game_frames: int = option(108_000,
        "frames (60 per second) after which a game is truncated; 0: never", minimum=0)
    random_starts: int = option(30,
        "a game starts with 0 to this many no-op steps of frame_skip frames", minimum=0, group="Agent")
    random_start_frames: int = option(0,
        "a game starts with 0 to this many single no-op frames; needs random_starts 0",
        minimum=0, maximum=3600, group="Agent")

    def unseen(self) -> "EnvironmentConfig":
        """Return the same settings without display or recording."""
        return replace(self, display_screen=False, record_screen_path=None, record_sound_filename=None)


@dataclass(frozen=True)
class MemoryConfig:
    """The replay memory."""

    replay_size: int = option(1_000_000, "transitions in the replay memory, one screen each", minimum=1)
    history_length: int = option(4, "screens that form a state", minimum=1, maximum=64)
    n_step: int = option(1,
        "steps of reward in a target before it bootstraps (n-step return)", minimum=1, maximum=100)
    rollout_steps: int = option(0,
        "with --schedule rollouts: steps of each game in a rollout; 0: 16", minimum=0, maximum=100_000)
    sampler: str = option("uniform",
        "how transitions are sampled; prioritized: those with large TD errors more often",
        choices=REGISTERED["sampler"])
    # The numbers are those of Schaul et al. (2016), proportional variant; Rainbow's exponent is 0.5.
    priority_exponent: float = option(0.6,
        "exponent α of prioritized sampling; 0: uniform, 1: in proportion to the TD error",
        minimum=0, maximum=1)
    priority_beta_start: float = option(0.4,
        "initial importance-sampling exponent β; 0: no correction, 1: full correction", minimum=0, maximum=1)
    priority_beta_steps: int = option(50_000_000, "training steps until β is 1", minimum=0, share_of="steps")
    replay_compression: str = option("none",
        "compress the screens in RAM: less of it, slightly slower", choices=("none", "lz4"), local=True)
    replay_device: str = option("auto",
        "where to keep the screens; auto: on the GPU if there is one and they fit, uncompressed",
        choices=("auto", "gpu", "memory"), local=True)


@dataclass(frozen=True)
class NetworkConfig:
    """The network's architecture and its updates."""

    learning_rate: float = option(0.00025, "learning rate of the optimizer", above=0)
    learning_rate_end: float = option(0.00005,
        "final learning rate, reached linearly after learning_rate_decay_updates", above=0)
    learning_rate_decay_updates: int = option(0,
        "updates over which the learning rate falls; 0: it is constant", minimum=0, share_of="updates")
    discount_rate: float = option(0.99, "discount factor γ per step", minimum=0, maximum=1)
    trace_decay: float = option(0.65,
        "with --schedule rollouts: λ of the returns; 0: bootstrap after each step, 1: at the rollout's end",
        minimum=0, maximum=1)
    batch_size: int = option(32, "transitions in a minibatch", minimum=1)
    optimizer: str = option("rmsprop", "optimizer", choices=("rmsprop", "adam", "radam", "adadelta"))
    decay_rate: float = option(0.95,
        "decay of the running mean in RMSProp and Adadelta", minimum=0, maximum=1)
    adam_epsilon: float = option(1.5e-4,
        "Adam's ε, added to the root: smaller gradients take smaller steps", above=0)
    loss: str = option("huber",
        "loss of the TD error: huber grows linearly beyond clip_error, mse is half its square",
        choices=("huber", "mse"))
    clip_error: float = option(1.0, "TD error beyond which the Huber loss is linear; 0: never", minimum=0)
    min_reward: float = option(-1.0, "lower bound to which rewards are clipped, in game points", endless=True)
    max_reward: float = option(1.0, "upper bound to which rewards are clipped, in game points", endless=True)
    average_updates: int = option(0,
        "updates over which the weights are averaged: tests play by the mean and snapshots hold it; 0: the "
        "latest weights", minimum=0, share_of="updates")
    network: str = option("nature",
        "network architecture; neon: nature without biases, as in simple_dqn", choices=REGISTERED["network"])
    initializer: str = option("auto",
        "initial weights: uniform as DeepMind's, gaussian as simple_dqn's, or orthogonal, for layer "
        "normalization; auto: the network's", choices=("auto", "uniform", "gaussian", "orthogonal"))
    normalization: str = option("none",
        "normalize each hidden layer: over its units, separately for each state (layer), or over the "
        "minibatch (batch)", choices=("none", "layer", "batch"))
    dueling: bool = option(False, "separate streams for the state value and the action advantages")
    target_rule: str = option("max",
        "value of the next state in a target; double: the online network chooses the action (double DQN); "
        "munchausen: adds the policy's scaled log-probability to the reward",
        choices=REGISTERED["target_rule"])
    munchausen_alpha: float = option(0.9, "scale of that added reward", minimum=0, maximum=1)
    munchausen_tau: float = option(0.03, "temperature of the softmax policy, in Q-values", above=0)
    munchausen_floor: float = option(-1.0, "lower bound of the log-probability term", maximum=0)
    noisy: bool = option(False, "explore by learned noise in the dense layers (noisy networks)")
    noisy_sigma: float = option(0.5, "initial scale σ₀ of that noise", above=0)
    distributional: str = option("none",
        "learn the distribution of returns: probabilities of fixed atoms (c51), or quantiles",
        choices=("none", "c51", "quantile"))
    atoms: int = option(51, "atoms of c51", minimum=2, maximum=1024)
    v_min: float = option(-10.0, "return of the lowest atom")
    v_max: float = option(10.0, "return of the highest atom")
    quantiles: int = option(200, "quantiles of each action's return", minimum=1, maximum=1024)


@dataclass(frozen=True)
class BackendConfig:
    """The device that the network computes on."""

    backend: str = option("gpu",
        "device of the network; without a GPU it falls back to the CPU with a warning",
        choices=("gpu", "cpu"))
    device_id: int = option(0, "index of the GPU, from 0", minimum=0)
    datatype: str = option("float32",
        "precision of the hidden layers; the output layer and the loss stay float32 or wider; auto: "
        "bfloat16 where the processor has instructions for it, else float32",
        choices=("float32", "bfloat16", "float16", "float64", "auto"))
    threads: int = option(0,
        "CPU threads of the network; 0: one for each idle core", minimum=0, maximum=1024, local=True)


@dataclass(frozen=True)
class AgentConfig:
    """Exploration, and how often the network is updated."""

    exploration_rate_start: float = option(1.0,
        "initial ε: the probability of a random action", minimum=0, maximum=1)
    exploration_rate_end: float = option(0.1, "final ε", minimum=0, maximum=1)
    exploration_decay_steps: int = option(1_000_000,
        "training steps over which ε falls linearly", minimum=0, share_of="steps")
    exploration_spread: float = option(0.0,
        "vary ε between games in training: game i of N explores with ε ** (1 + SPREAD i / (N - 1)); 0: all "
        "alike; on a cluster ε is constant at 0.4 and the spread 7", minimum=0, maximum=100)
    exploration_rate_test: float = option(0.05, "ε in tests", minimum=0, maximum=1)
    train_frequency: int = option(4, "steps between updates", minimum=1)
    train_repeat: int = option(1, "updates at a time", minimum=1)
    target_steps: int = option(10_000,
        "steps between copies of the online network to the target network; 0: no target network", minimum=0)
    schedule: str = option("serial",
        "order of acting and learning; concurrent: act by the target network while the online network "
        "learns (fast-dqn); overlapped: play and sample while the network learns, one step of all games "
        "behind; rollouts: learn from the latest rollout_steps alone (PQN)",
        choices=("serial", "concurrent", "overlapped", "rollouts"))
    synchronize: bool | None = option(None,
        "predict for all games in one batch, not one by one; by default where there are several games")

    def updates_in(self, steps: int) -> int:
        """Return the number of updates in `steps` training steps."""
        return steps // self.train_frequency * self.train_repeat


@dataclass(frozen=True)
class RunConfig:
    """The length of a run, and its files."""

    random_steps: int = option(50_000, "steps of random play that fill the memory before training", minimum=0)
    train_steps: int = option(250_000, "training steps per epoch", minimum=0)
    test_steps: int = option(125_000,
        "test steps after each epoch; with several games, all but one are then played to their end",
        minimum=0)
    epochs: int = option(200, "epochs of the whole run", minimum=0)
    start_epoch: int = option(0, "number of the epoch after which the run starts", minimum=0)
    play_games: int = option(0, "play this many games instead of training and testing", minimum=0)
    load_weights: str | None = option(None, "snapshot with the initial weights", local=True)
    save_weights_prefix: str | None = option(None, "snapshots are written to PREFIX_EPOCH.pkl", local=True)
    checkpoint_minutes: float = option(10,
        "minutes between checkpoints within an epoch; 0: only at its end", minimum=0, local=True)
    checkpoint_steps: int = option(50_000,
        "steps between checkpoints, for games that cannot be saved and restart at each checkpoint", minimum=0)
    keep: int = option(2, "checkpoints to keep", minimum=1, local=True)
    csv_file: str | None = option(None, "file for the statistics, one row per phase", local=True)
    tensorboard: bool | str = option(False,
        "also write TensorBoard event files, beside the CSV; true: scalars, also within a phase; "
        "histograms: those of Q-values too", choices=("scalars", "histograms"))
    track: str = option("none",
        "also write to an experiment tracker, an extra package; see docs/guide.md",
        choices=REGISTERED["track"], local=True)
    visualization_filters: int = option(4, "filters of each layer on the page of nvis", minimum=1, maximum=64)
    visualization_file: str | None = option(None, "HTML file for that page", local=True)
    random_seed: int | None = option(None,
        "seed of all randomness; by default a random one, which is logged", minimum=0, group="Common")
    log_level: str = option("INFO",
        "least severe messages to show",
        group="Common", choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"))


@dataclass(frozen=True)
class ClusterConfig:
    """Actors on a cluster; all settings are local."""

    cluster: str = option("none",
        "where actors play: local, processes of this machine; auto, the Ray cluster that this machine "
        "belongs to; or the ADDRESS of its head, such as 10.0.0.1:6379", local=True)
    actors: int = option(1,
        "actors, each a process with --workers games", minimum=1, maximum=100_000, local=True)
    chunk_steps: int = option(50,
        "steps of each game in a trajectory, which an actor plays by the same weights and sends at once",
        minimum=1, maximum=100_000, local=True)
    weights_every: int = option(100,
        "updates between the versions of the weights that actors get", minimum=1, local=True)

    @property
    def on(self) -> bool:
        """Whether actors play."""
        return self.cluster != "none"


# fmt: on
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
    def from_flags(flags: Mapping[str, Any]) -> "Config":
        """Return the defaults with `flags`, by name, in their place; unknown names are ignored."""
        return Config().with_flags(flags)

    def with_flags(self, flags: Mapping[str, Any]) -> "Config":
        """Return these settings with `flags`, by name, in their place; unknown names are ignored.

        A `Share` becomes a number of steps or updates: of the run as long as it is now, not as it may become.
        """
        flags = translated(flags, self.flags())
        config = self._with({name: value for name, value in flags.items() if not isinstance(value, Share)})
        steps = config.run.epochs * config.run.train_steps
        lengths = {"steps": steps, "updates": config.agent.updates_in(steps)}
        shares = {name: value.percent for name, value in flags.items() if isinstance(value, Share)}
        numbers = {
            n: round(lengths[known()[n][0].metadata["share_of"]] * of / 100) for n, of in shares.items()
        }
        return config._with(numbers)

    def _with(self, flags: Mapping[str, Any]) -> "Config":
        groups = {group.name: getattr(self, group.name) for group in fields(self)}
        given = {
            name: {one.name: flags[one.name] for one in fields(group) if one.name in flags}
            for name, group in groups.items()
        }
        config = Config(**{name: replace(group, **given[name]) for name, group in groups.items()})
        steps = (config.memory.rollout_steps or ROLLOUT) if config.agent.schedule == "rollouts" else 0
        return replace(config, memory=replace(config.memory, rollout_steps=steps))

    @property
    def seed(self) -> int:
        """The seed of all randomness, once it was given or drawn."""
        assert self.run.random_seed is not None
        return self.run.random_seed

    def flags(self) -> dict[str, Any]:
        """Return every setting by its flag's name."""
        return {name: value for group in asdict(self).values() for name, value in group.items()}

    def shared_flags(self) -> dict[str, Any]:
        """Return every setting that is not local."""
        return {
            name: value for name, value in self.flags().items() if not known()[name][0].metadata.get("local")
        }


@cache
def known() -> "dict[str, tuple[Field[Any], Any, bool]]":
    """Return every setting's field, its type (T of T | None), and whether it may be None, by name."""
    result: dict[str, tuple[Field[Any], Any, bool]] = {}
    for group in fields(Config):
        kind = group.default_factory
        assert isinstance(kind, type)
        hints = get_type_hints(kind)
        for one in fields(kind):
            types = get_args(hints[one.name]) or (hints[one.name],)
            result[one.name] = one, types[0], NoneType in types
    return result


# Booleans of earlier versions, simple_dqn and fast-dqn, each of which is now one value of a choice.
BOOLEANS = {
    "concurrent": ("schedule", "concurrent"),
    "overlap": ("schedule", "overlapped"),
    "double": ("target_rule", "double"),
    "munchausen": ("target_rule", "munchausen"),
    "prioritized": ("sampler", "prioritized"),
    "batch_norm": ("normalization", "batch"),
    "layer_norm": ("normalization", "layer"),
}
# Settings of earlier versions that are gone, and what replaces them.
GONE = {
    "slip_probability": "leave it out: what it gained was never separated from --average_updates",
    "demonstrations": "leave it out",
    "replay_file": "leave it out",
    "trial_seconds": "./profile_train.sh pong measures the speed of training",
}


def layered(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of all layers, of which later ones win, with `BOOLEANS` as today's choices."""
    result: dict[str, Any] = {}
    for layer in layers:
        result |= translated(layer, result)
    return result


def translated(flags: Mapping[str, Any], below: Mapping[str, Any]) -> dict[str, Any]:
    """Return `flags` with the `BOOLEANS` of earlier versions as values of today's choices.

    Args:
        flags: Values by name.
        below: The settings that `flags` are put over: false removes the choice if it is theirs.

    Raises:
        UserError: Two of `flags` make different choices.
    """
    result = {name: value for name, value in flags.items() if name not in BOOLEANS}
    for name in ("sampler", "target_rule"):
        if result.get(name) == "auto":
            del result[name]
    for name, (choice, word) in BOOLEANS.items():
        if name not in flags:
            continue
        if not flags[name]:
            if below.get(choice) == word:
                result.setdefault(choice, known()[choice][0].default)
        elif result.setdefault(choice, word) != word:
            raise UserError(
                f"--{name} true and --{choice} {result[choice]} exclude each other: give one of them"
            )
    steps = result.get("rollout_steps")
    if steps and result.setdefault("schedule", "rollouts") != "rollouts":
        raise UserError(
            f"--rollout_steps {steps} and --schedule {result['schedule']} exclude each other: "
            "give one of them"
        )
    if steps == 0 and below.get("schedule") == "rollouts":
        result.setdefault("schedule", "serial")
    if result.get("schedule", "rollouts") != "rollouts":
        result["rollout_steps"] = 0
    return result


def as_word(value: Any) -> str:
    """Return `value` as written on the command line."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def words(given: Mapping[str, Any]) -> list[str]:
    """Return the flags `given` as on the command line."""
    return [f"--{name}={as_word(value)}" for name, value in given.items()]
