"""Every setting: its type, default, limits and help, and how text is converted to its value.

A field's name is its flag's name and its key in settings files and snapshots. A "step" is one choice of the
agent: `frame_skip` frames of the emulator in one game.
"""

import difflib
import math
import re
from argparse import ArgumentTypeError
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import NoneType
from typing import Any, get_args, get_type_hints

from simple_dqn.errors import UserError


def option(
    default: Any,
    help: str,  # noqa: A002 - argparse's own word
    minimum: float = -math.inf,
    maximum: float = math.inf,
    **more: Any,
) -> Any:
    """Return a dataclass field that is a setting.

    Args:
        default: The value when nothing is given; None: "not given".
        help: The text for `--help`, with the unit.
        minimum: The least value.
        maximum: The largest value.
        more: `above`: a limit below all values; `endless`: infinity is allowed; `choices`: the values
            allowed; `group`: the heading in `--help`, if it differs from that of the dataclass; `local`: it
            concerns this machine, and snapshots leave it out; `share_of`: "steps" or "updates": a share of
            the whole run's, such as 10%, is allowed.
    """
    return field(default=default, metadata={"help": help, "minimum": minimum, "maximum": maximum, **more})


@dataclass(frozen=True)
class Share:
    """A share of a whole run, which `Config` converts to a number of steps or updates."""

    percent: float

    def __str__(self) -> str:
        """Return it as written on the command line."""
        return f"{self.percent:g}%"


# The choices that `simple_dqn.api` adds to.
REGISTERED: dict[str, list[str]] = {
    "network": ["nature", "neon", "small", "impala"],
    "sampler": ["uniform", "prioritized"],
    "target_rule": ["max", "double", "munchausen"],
    "track": ["none", "wandb", "trackio"],
}
OPEN = ("sampler", "target_rule")  # a snapshot may have names that are not registered here; see `rules`
ROLLOUT = 16  # steps of a rollout unless told otherwise


# fmt: off
@dataclass(frozen=True)
class EnvironmentConfig:
    """The games and their preprocessing."""

    game: str = field(default="", metadata={"positional": True, "local": True})
    # The names of the files of `--import`, without folders: text for messages, which nothing imports.
    imports: str | None = field(default=None, metadata={"positional": True})
    environment: str = option("ale", "kind of environment; by default the one that has the game",
        choices=("ale", "gym", "catch"))
    emulator: str = option("ale", "emulator of Atari games: ALE, or one in NVIDIA Warp (docs/emulator.md)",
        choices=("ale", "warp"), local=True)
    workers: int = option(1, "games played side by side", 1, 4096)
    processes: int = option(0, "processes that play the games; 0: this one does", 0, 256, local=True)
    display_screen: bool = option(False, "show the emulator's own window during training and tests")
    frame_skip: int = option(4, "frames for which each action is repeated", 1, 60)
    repeat_action_probability: float = option(0.0,
        "probability per frame that the game repeats the previous action (sticky actions)", 0, 1)
    minimal_action_set: bool = option(True, "use only the actions with an effect in the game, not all 18")
    color_averaging: bool = option(True,
        "average each frame with the one before it, as ALE does; false: see frame_maximum")
    frame_maximum: bool = option(True,
        "without color_averaging: the maximum of the last two frames; false: the last frame alone")
    screen_width: int = option(84, "width of a screen after preprocessing, in pixels", 8, 1024)
    screen_height: int = option(84, "height of a screen after preprocessing, in pixels", 8, 1024)
    record_screen_path: str | None = option(None, "folder to write every frame to, as PNG files", local=True)
    record_sound_filename: str | None = option(None, "WAV file to write the game's sound to", local=True)
    max_game_frames: int = option(108_000, "frames (60 per second) that end a game; 0: never", 0)
    random_starts: int = option(30,
        "a game starts with 0 to this many no-op steps of frame_skip frames", 0, group="Agent")
    random_start_frames: int = option(0,
        "the same in single frames; needs random_starts 0", 0, 3600, group="Agent")

    def unseen(self) -> "EnvironmentConfig":
        """Return the same settings without display or recording."""
        return replace(self, display_screen=False, record_screen_path=None, record_sound_filename=None)


@dataclass(frozen=True)
class MemoryConfig:
    """The replay memory."""

    replay_size: int = option(1_000_000, "transitions in the replay memory, one screen each", 1)
    history_length: int = option(4, "screens that form a state", 1, 64)
    n_step: int = option(1, "steps of reward in a target before it bootstraps (n-step return)", 1, 100)
    rollout_steps: int = option(0, "with --schedule rollouts: steps of each game; 0: 16", 0, 100_000)
    sampler: str = option("uniform", "how to sample; prioritized: by the TD error",
        choices=REGISTERED["sampler"])
    # The numbers are those of Schaul et al. (2016), proportional variant; Rainbow's exponent is 0.5.
    priority_exponent: float = option(0.6,
        "exponent α of prioritized sampling; 0: uniform, 1: in proportion to the TD error", 0, 1)
    priority_beta_start: float = option(0.4,
        "initial importance-sampling exponent β; 0: no correction, 1: full correction", 0, 1)
    priority_beta_steps: int = option(50_000_000, "training steps until β is 1", 0, share_of="steps")
    replay_compression: str = option("none", "compress the screens in RAM: less of it, slightly slower",
        choices=("none", "lz4"), local=True)
    replay_device: str = option("auto", "where to keep the screens; auto: on a GPU with room for them",
        choices=("auto", "gpu", "memory"), local=True)


@dataclass(frozen=True)
class NetworkConfig:
    """The network's architecture and its updates."""

    learning_rate: float = option(0.00025, "learning rate of the optimizer", above=0)
    learning_rate_end: float = option(0.00005, "learning rate after learning_rate_decay_updates", above=0)
    learning_rate_decay_updates: int = option(0,
        "updates over which the learning rate falls linearly; 0: it is constant", 0, share_of="updates")
    discount_rate: float = option(0.99, "discount factor γ per step", 0, 1)
    trace_decay: float = option(0.65, "with --schedule rollouts: λ of the returns; 0: one-step targets", 0, 1)
    batch_size: int = option(32, "transitions in a minibatch", 1)
    optimizer: str = option("rmsprop", "optimizer", choices=("rmsprop", "adam", "radam", "adadelta"))
    decay_rate: float = option(0.95, "decay of the running mean in RMSProp and Adadelta", 0, 1)
    adam_epsilon: float = option(1.5e-4, "Adam's ε: smaller gradients take smaller steps", above=0)
    loss: str = option("huber", "loss of the TD error; mse: half its square", choices=("huber", "mse"))
    clip_error: float = option(1.0, "TD error beyond which the Huber loss is linear; 0: never", 0)
    min_reward: float = option(-1.0, "lower bound to which rewards are clipped, in game points", endless=True)
    max_reward: float = option(1.0, "upper bound to which rewards are clipped, in game points", endless=True)
    average_updates: int = option(0,
        "updates over which the weights of tests and snapshots are averaged; 0: none", 0, share_of="updates")
    network: str = option("nature", "architecture; neon: nature without biases, as in simple_dqn",
        choices=REGISTERED["network"])
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
    munchausen_alpha: float = option(0.9, "scale of that added reward", 0, 1)
    munchausen_tau: float = option(0.03, "temperature of the softmax policy, in Q-values", above=0)
    munchausen_floor: float = option(-1.0, "lower bound of the log-probability term", maximum=0)
    noisy: bool = option(False, "explore by learned noise in the dense layers (noisy networks)")
    noisy_sigma: float = option(0.5, "initial scale σ₀ of that noise", above=0)
    distributional: str = option("none",
        "learn the distribution of returns: probabilities of fixed atoms (c51), or quantiles",
        choices=("none", "c51", "quantile"))
    atoms: int = option(51, "atoms of c51", 2, 1024)
    v_min: float = option(-10.0, "return of the lowest atom")
    v_max: float = option(10.0, "return of the highest atom")
    quantiles: int = option(200, "quantiles of each action's return", 1, 1024)


@dataclass(frozen=True)
class BackendConfig:
    """The device that the network computes on."""

    backend: str = option("gpu", "device of the network; without a GPU: the CPU, with a warning",
        choices=("gpu", "cpu"))
    device_id: int = option(0, "index of the GPU, from 0", 0)
    datatype: str = option("float32",
        "precision of the hidden layers; the output layer and the loss stay float32 or wider; auto: "
        "bfloat16 where the processor has instructions for it, else float32",
        choices=("float32", "bfloat16", "float16", "float64", "auto"))
    threads: int = option(0, "CPU threads of the network; 0: one for each idle core", 0, 1024, local=True)


@dataclass(frozen=True)
class AgentConfig:
    """Exploration, and how often the network is updated."""

    exploration_rate_start: float = option(1.0, "initial ε: the probability of a random action", 0, 1)
    exploration_rate_end: float = option(0.1, "final ε", 0, 1)
    exploration_decay_steps: int = option(1_000_000, "steps over which ε falls linearly", 0, share_of="steps")
    exploration_spread: float = option(0.0,
        "vary ε between games in training: game i of N explores with ε ** (1 + SPREAD i / (N - 1)); 0: all "
        "alike; on a cluster ε is constant at 0.4 and the spread 7", 0, 100)
    exploration_rate_test: float = option(0.05, "ε in tests", 0, 1)
    train_frequency: int = option(4, "steps between updates", 1)
    train_repeat: int = option(1, "updates at a time", 1)
    target_steps: int = option(10_000, "steps between copies to the target network; 0: no such network", 0)
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

    random_steps: int = option(50_000, "steps of random play that fill the memory before training", 0)
    train_steps: int = option(250_000, "training steps per epoch", 0)
    test_steps: int = option(125_000,
        "test steps after each epoch; with several games, all but one are then played to their end", 0)
    epochs: int = option(200, "epochs of the whole run", 0)
    start_epoch: int = option(0, "number of the epoch after which the run starts", 0)
    play_games: int = option(0, "play this many games instead of training and testing", 0)
    load_weights: str | None = option(None, "snapshot with the initial weights", local=True)
    save_weights_prefix: str | None = option(None, "snapshots are written to PREFIX_EPOCH.pkl", local=True)
    checkpoint_minutes: float = option(10,
        "minutes between checkpoints within an epoch; 0: only at its end", 0, local=True)
    checkpoint_steps: int = option(50_000,
        "steps between checkpoints, for games that cannot be saved and restart at each checkpoint", 0)
    keep: int = option(2, "checkpoints to keep", 1, local=True)
    csv_file: str | None = option(None, "file for the statistics, one row per phase", local=True)
    tensorboard: bool | str = option(False,
        "also write TensorBoard event files, beside the CSV; true: scalars, also within a phase; "
        "histograms: those of Q-values too", choices=("scalars", "histograms"))
    track: str = option("none", "also write to an experiment tracker (docs/guide.md)",
        choices=REGISTERED["track"], local=True)
    visualization_filters: int = option(4, "filters of each layer on the page of nvis", 1, 64)
    visualization_file: str | None = option(None, "HTML file for that page", local=True)
    random_seed: int | None = option(None,
        "seed of all randomness; by default a random one, which is logged", 0, group="Common")
    log_level: str = option("INFO", "least severe messages to show",
        choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), group="Common")


@dataclass(frozen=True)
class ClusterConfig:
    """Actors on a cluster; all settings are local."""

    cluster: str = option("none",
        "where actors play: local, processes of this machine; auto, the Ray cluster that this machine "
        "belongs to; or the ADDRESS of its head, such as 10.0.0.1:6379", local=True)
    actors: int = option(1, "actors, each a process with --workers games", 1, 100_000, local=True)
    chunk_steps: int = option(50,
        "steps of each game that an actor plays by one version of the weights", 1, 100_000, local=True)
    weights_every: int = option(100, "updates between the versions of the weights for actors", 1, local=True)

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
    def from_flags(*layers: Mapping[str, Any]) -> "Config":
        """Return the defaults with the settings of `layers` in their place; see `with_flags`."""
        return Config().with_flags(*layers)

    def with_flags(self, *layers: Mapping[str, Any]) -> "Config":
        """Return these settings with those of `layers`, by name, in their place; unknown names are ignored.

        Of several layers the later ones win. A `Share` becomes a number of steps or updates: of the run as
        long as it is now, not as it may become.
        """
        flags = layered(*layers, below=self.flags())
        shares = {name: flags.pop(name).percent for name in [*flags] if isinstance(flags[name], Share)}
        config = self._with(flags)
        steps = config.run.epochs * config.run.train_steps
        lengths = {"steps": steps, "updates": config.agent.updates_in(steps)}
        numbers = {n: round(lengths[SETTINGS[n].about["share_of"]] * of / 100) for n, of in shares.items()}
        return config._with(numbers) if numbers else config

    def _with(self, flags: Mapping[str, Any]) -> "Config":
        given: dict[str, dict[str, Any]] = {}
        for name in flags.keys() & SETTINGS.keys():
            given.setdefault(SETTINGS[name].group, {})[name] = flags[name]
        groups = {group: replace(getattr(self, group), **values) for group, values in given.items()}
        config = replace(self, **groups)
        steps = (config.memory.rollout_steps or ROLLOUT) if config.agent.schedule == "rollouts" else 0
        return replace(config, memory=replace(config.memory, rollout_steps=steps))

    @property
    def seed(self) -> int:
        """The seed of all randomness, once it was given or drawn."""
        assert self.run.random_seed is not None
        return self.run.random_seed

    def flags(self) -> dict[str, Any]:
        """Return every setting by its flag's name."""
        return {name: value for group in vars(self).values() for name, value in vars(group).items()}

    def shared_flags(self) -> dict[str, Any]:
        """Return every setting that is not local."""
        return {name: value for name, value in self.flags().items() if name not in LOCAL}


@dataclass(frozen=True)
class Setting:
    """A setting, as its field declares it."""

    group: str  # the field of `Config` that has it
    default: Any
    kind: Any  # its type, T of T | None
    optional: bool  # whether it may be None
    about: Mapping[str, Any]  # see `option`

    def convert(self, word: str) -> Any:
        """Return the value that `word` means.

        Raises:
            ArgumentTypeError: It means none; the message is the reason.
        """
        about, choices = self.about, self.about.get("choices")
        if self.optional and word == "none":
            return None
        if "share_of" in about and word.endswith("%"):
            return Share(number(float, word[:-1], minimum=0, maximum=100))
        if self.kind is bool:
            if choices and word in choices:  # the first of them means yes
                return word == choices[0] or word
            return yes_or_no(word)
        if choices and word not in choices and choices not in map(REGISTERED.get, OPEN):
            form = "FILE.py:CLASS" if re.fullmatch(r".+\.py(:\w*)?", word) else word
            if form in GONE:
                raise ArgumentTypeError(f"{form} is gone: {GONE[form]}")
            raise ArgumentTypeError(f"invalid choice: {word!r} (choose from {', '.join(choices)})")
        if self.kind is str:
            if NO_TEXT.search(word):
                raise ArgumentTypeError(f"'{word}' is not UTF-8 text")
            return word
        limits = {name: about[name] for name in ("minimum", "above", "maximum", "endless") if name in about}
        return number(self.kind, word, **limits)


SETTINGS: dict[str, Setting] = {}  # by name
for _group in fields(Config):
    _kind: Any = _group.default_factory
    _hints = get_type_hints(_kind)
    for _one in fields(_kind):
        _types = get_args(_hints[_one.name]) or (_hints[_one.name],)
        SETTINGS[_one.name] = Setting(_group.name, _one.default, _types[0], NoneType in _types, _one.metadata)
LOCAL = {name for name, setting in SETTINGS.items() if setting.about.get("local")}  # those of one machine
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
# Settings, flags and values of earlier versions that are gone, and what replaces them.
GONE = {
    "slip_probability": "leave it out: what it gained was never separated from --average_updates",
    "demonstrations": "leave it out",
    "replay_file": "leave it out",
    "trial_seconds": "./profile_train.sh pong measures the speed of training",
    "FILE.py:CLASS": "make the game a Gymnasium environment that FILE.py registers, and give FILE.py as the "
    "game (docs/modify.md)",
    "mlflow": "give wandb or trackio, or a writer of your own (simple_dqn.register_track)",
}
# The names of flags in other projects.
OTHER_NAMES = {
    "lr": "learning_rate", "alpha": "learning_rate", "gamma": "discount_rate", "discount": "discount_rate",
    "epsilon": "exploration_rate_start", "eps_start": "exploration_rate_start",
    "eps_end": "exploration_rate_end", "exploration_fraction": "exploration_decay_steps",
    "epsilon_decay": "exploration_decay_steps", "buffer_size": "replay_size", "memory_size": "replay_size",
    "learning_starts": "random_steps", "total_timesteps": "epochs", "env": "environment",
    "env_id": "environment", "num_envs": "workers", "n_envs": "workers", "seed": "random_seed",
    "target_network_frequency": "target_steps", "target_update_interval": "target_steps",
    "model": "load_weights", "checkpoint": "load_weights", "cpu": "backend", "gpu": "backend",
    "cuda": "backend", "dtype": "datatype", "per": "sampler", "frameskip": "frame_skip",
    "sticky_actions": "repeat_action_probability", "n_steps": "n_step", "num_epochs": "epochs",
}  # fmt: skip


def unknown(kind: str, word: str, known: Iterable[str]) -> str:
    """Return the message on `word`, no flag or setting: its replacement, or the nearest of those `known`."""
    dashes, name = "--" if word[:1] == "-" else "", word.split("=")[0].lstrip("-").lower().replace("-", "_")
    if name in GONE:
        return f"{dashes}{name} is gone: {GONE[name]}"
    known = sorted(known)
    near = [OTHER_NAMES[name]] if name in OTHER_NAMES else difflib.get_close_matches(name, known, n=1)
    return f"unknown {kind} {word}" + (f": did you mean {dashes}{near[0]}?" if {*near} & {*known} else "")


def layered(*layers: Mapping[str, Any], below: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the settings of all layers, of which later ones win, with `BOOLEANS` as today's choices.

    Args:
        layers: Values by name.
        below: The settings that the layers are put over: a boolean that is false removes a choice if it is
            theirs or a lower layer's.

    Raises:
        UserError: Two settings of a layer make different choices.
    """
    result: dict[str, Any] = {}
    for layer in layers:
        result |= _translated(layer, {**(below or {}), **result})
    return result


def _translated(flags: Mapping[str, Any], below: Mapping[str, Any]) -> dict[str, Any]:
    result = {
        name: value
        for name, value in flags.items()
        if name not in BOOLEANS and not (name in OPEN and value == "auto")  # as in earlier versions
    }
    for name, (choice, word) in {**BOOLEANS, "rollout_steps": ("schedule", "rollouts")}.items():
        if flags.get(name) and result.setdefault(choice, word) != word:
            both = f"--{name} {as_word(flags[name])} and --{choice} {result[choice]}"
            raise UserError(f"{both} exclude each other: give one of them")
        if name in flags and not flags[name] and below.get(choice) == word:
            result.setdefault(choice, SETTINGS[choice].default)
    if result.get("schedule", "rollouts") != "rollouts":
        result["rollout_steps"] = 0
    return result


def read(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings from a file, a snapshot or keywords, converted and checked as flags are.

    Args:
        values: Words, or values of the settings' types, by name.

    Raises:
        UserError: A name is unknown or gone, or a value is not of its setting.
    """
    result = {}
    for name, value in values.items():
        if name not in SETTINGS and name not in BOOLEANS:
            raise UserError(unknown("setting", name, SETTINGS))
        try:
            result[name] = convert(name, as_word(value))
        except ArgumentTypeError as error:
            raise UserError(f"{name}: {error}") from None
    return result


def convert(name: str, word: str) -> Any:
    """Return the value of the setting `name`, or of one of `BOOLEANS`, that `word` means.

    Raises:
        ArgumentTypeError: It means none; the message is the reason.
    """
    return yes_or_no(word) if name in BOOLEANS else SETTINGS[name].convert(word)


NO_TEXT = re.compile("[\0\ud800-\udfff]")  # with surrogates Python marks bytes that are not UTF-8
LARGEST = 3e38  # a number that 32-bit floats have
LONGEST = 40  # characters of a wrong number that its message quotes
YES, NO = ("yes", "true", "t", "1"), ("no", "false", "f", "0")


def number(
    kind: Any,
    word: str,
    minimum: float = -math.inf,
    above: float = -math.inf,
    maximum: float = math.inf,
    endless: bool = False,
) -> Any:
    """Return `word` as an int or float within limits; 1e3 and 1_000 are whole numbers.

    Raises:
        ArgumentTypeError: It is none; the message is the reason.
    """
    shown = word if len(word) <= LONGEST else f"{word[:LONGEST]}..."
    try:
        value = float(word)
        whole = kind is int and (int(word) if re.fullmatch(r"[+-]?[\d_]+", word.strip()) else int(value))
    except (ValueError, OverflowError):
        value, whole = math.nan, None
    if math.isnan(value) or (kind is int and whole != value):
        raise ArgumentTypeError(f"{shown!r} is not {'a whole number' if kind is int else 'a number'}")
    if kind is float and abs(value) > LARGEST and not endless:
        raise ArgumentTypeError(f"{shown} is not finite or too large: give a smaller number")
    if value < minimum or (value <= above and not endless):
        least = f"at least {minimum:g}" if value < minimum else f"more than {above:g}"
        raise ArgumentTypeError(f"{shown} is too small: give {least}")
    if value > maximum:
        raise ArgumentTypeError(f"{shown} is too large: give at most {maximum:g}")
    return whole if kind is int else value


def yes_or_no(word: str) -> bool:
    """Return the boolean that `word` means, as in simple_dqn.

    Raises:
        ArgumentTypeError: It means none.
    """
    if word.lower() not in YES + NO:
        raise ArgumentTypeError(f"{word!r} is not one of {', '.join(YES + NO)}")
    return word.lower() in YES


def as_word(value: Any) -> str:
    """Return `value` as written on the command line."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def words(given: Mapping[str, Any]) -> list[str]:
    """Return the flags `given` as on the command line."""
    return [f"--{name}={as_word(value)}" for name, value in given.items()]
