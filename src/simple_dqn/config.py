"""Every setting: its type, default, limits and help, and how text is converted to its value.

A field's name is its flag's name and its key in settings files and snapshots. A "step" is one choice of the
agent: `frame_skip` frames of the emulator in one game.
"""

import difflib
import math
import re
from argparse import ArgumentTypeError
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import NoneType
from typing import Any, get_args, get_type_hints

from simple_dqn.errors import UserError

INF = math.inf


def option(default: Any, text: str, minimum: float = -INF, maximum: float = INF, **more: Any) -> Any:
    """Return a dataclass field that is a setting, with its `text` for `--help` and its limits.

    `more` has `above`: an exclusive lower limit; `endless`: any size is allowed; `group`: the heading in
    `--help`, if it is not that of the dataclass; `local`: it concerns this machine, and snapshots leave it
    out; `share_of`: "steps" or "updates": a share of the whole run's is allowed.
    """
    return field(default=default, metadata={"help": text, "minimum": minimum, "maximum": maximum, **more})


def choice(values: str | list[str], text: str, **more: Any) -> Any:
    """Return a setting with one of `values`, of which the first is the default; see `option`."""
    choices = values.split() if isinstance(values, str) else values
    return option(choices[0], text, choices=choices, **more)


class Share(float):
    """A share of a whole run in percent, which `Config` converts to a number of steps or updates."""

    def __str__(self) -> str:
        return f"{float(self):g}%"


# The choices to which `simple_dqn.api` adds.
REGISTERED: dict[str, list[str]] = {
    "network": ["nature", "neon", "small", "impala", "mlp", "minatar", "auto"],
    "sampler": ["uniform", "prioritized"],
    "target_rule": ["max", "double", "munchausen"],
    "track": ["none", "wandb", "trackio"],
}
AUTO = ("network", "observation")  # `auto` keeps the value of the layer below


# fmt: off
@dataclass(frozen=True)
class EnvironmentConfig:
    """The games and their preprocessing."""

    game: str = field(default="", metadata={"positional": True, "local": True})
    imports: str | None = field(default=None, metadata={"positional": True})  # names of files, for messages
    environment: str = choice("ale gym catch", "kind of environment; by default the one that has the game")
    observation: str = choice("pixels vector auto",
        "what the network sees; pixels: a screen; vector: the numbers that a Gymnasium environment observes; "
        "auto: the numbers of one that observes no image")
    emulator: str = choice("auto ale warp", "warp: our own; auto: warp where it can, else ale", local=True)
    workers: int = option(1, "games played side by side", 1, 4096)
    processes: int = option(0, "processes that play the games; 0: this one does", 0, 256, local=True)
    display_screen: bool = option(False, "show the emulator's window in training and tests", local=True)
    frame_skip: int = option(4, "frames for which each action is repeated", 1, 60)
    repeat_action_probability: float = option(0.0, "chance per frame that the last action is repeated", 0, 1)
    terminal_on_life_loss: bool = option(True, "in training a lost life ends an episode, but not the game")
    minimal_action_set: bool = option(True, "use only the actions with an effect in the game, not all 18")
    color_averaging: bool = option(True, "average a frame and the one before it; false: see frame_maximum")
    frame_maximum: bool = option(True, "without color_averaging: the maximum of two frames; false: the last")
    screen_width: int = option(84, "width of a screen after preprocessing, in pixels", 8, 1024)
    screen_height: int = option(84, "height of a screen after preprocessing, in pixels", 8, 1024)
    record_screen_path: str | None = option(None, "folder to write every frame to, as PNG files", local=True)
    record_sound_filename: str | None = option(None, "WAV file to write the game's sound to", local=True)
    max_game_frames: int = option(108_000, "frames (60 per second) that end a game; 0: never", 0)
    random_starts: int = option(30, "a game starts with 0 to this many no-op steps", 0, 3600, group="Agent")
    random_start_frames: int = option(0, "the same in frames; needs random_starts 0", 0, 3600, group="Agent")

    def unseen(self) -> "EnvironmentConfig":
        """Return the same settings without display or recording."""
        return replace(self, display_screen=False, record_screen_path=None, record_sound_filename=None)


@dataclass(frozen=True)
class MemoryConfig:
    """The replay memory."""

    replay_size: int = option(1_000_000, "transitions in the replay memory, one screen each", 1)
    history_length: int = option(4, "screens that form a state", 1, 64)
    n_step: int = option(1, "steps of reward in a target before it bootstraps (n-step return)", 1, 100)
    rollout_steps: int = option(0, "with --schedule rollouts: steps per game and rollout; 0: 16", 0, 100_000)
    sampler: str = choice(REGISTERED["sampler"], "how to sample; prioritized: by the TD error")
    # The numbers are those of Schaul et al. (2016), proportional variant; Rainbow's exponent is 0.5.
    priority_exponent: float = option(0.6, "exponent α of prioritized sampling; 0: uniform", 0, 1)
    priority_beta_start: float = option(0.4, "initial exponent β of importance sampling; 1: unbiased", 0, 1)
    priority_beta_steps: int = option(50_000_000, "training steps until β is 1", 0, share_of="steps")
    replay_compression: str = choice("none lz4", "compress the screens in RAM: slightly slower", local=True)
    replay_device: str = choice("auto gpu memory", "place of the screens; auto: a GPU with room", local=True)

    def rows(self, games: int) -> int:
        """Return T, the rows of a memory of `games`: for `replay_size`, or a rollout and its first state."""
        return self.rollout_steps + self.history_length if self.rollout_steps else self.replay_size // games


@dataclass(frozen=True)
class NetworkConfig:
    """The network's architecture and its updates."""

    learning_rate: float = option(0.00025, "learning rate of the optimizer; Adadelta's starts at 1", above=0)
    learning_rate_end: float = option(0.00005, "learning rate to which it falls linearly", above=0)
    learning_rate_decay_updates: int = option(0, "updates until that rate; 0: never", 0, share_of="updates")
    discount_rate: float = option(0.99, "discount factor γ per step", 0, 1)
    trace_decay: float = option(0.65, "with --schedule rollouts: λ of the returns; 0: one-step targets", 0, 1)
    batch_size: int = option(32, "transitions in a minibatch", 1)
    optimizer: str = choice("rmsprop adam radam adadelta", "optimizer")
    decay_rate: float = option(0.95, "decay of the running mean in RMSProp and Adadelta", 0, 1)
    adam_epsilon: float = option(1.5e-4, "Adam's ε: smaller gradients take smaller steps", above=0)
    loss: str = choice("huber mse", "loss of the TD error; mse: half its square")
    clip_error: float = option(1.0, "TD error from which the loss is linear; 0: never (quantiles: always)", 0)
    min_reward: float = option(-1.0, "lower bound to which rewards are clipped, in game points", endless=True)
    max_reward: float = option(1.0, "upper bound to which rewards are clipped, in game points", endless=True)
    average_updates: int = option(0, "updates whose weights tests average; 0: none", 0, share_of="updates")
    network: str = choice(REGISTERED["network"],
        "one of nature, neon, small, impala, mlp, minatar; neon: nature without biases (simple_dqn); auto: "
        "the preset's, or mlp for a vector and minatar for the channels of a small image", metavar="NAME")
    initializer: str = choice("auto uniform gaussian orthogonal", "initial weights; auto: the network's")
    normalization: str = choice("none layer batch", "normalize hidden layers over their units or a minibatch")
    dueling: bool = option(False, "separate streams for the state value and the action advantages")
    target_rule: str = choice(REGISTERED["target_rule"],
        "value of the next state in a target; double: of the online network's action; munchausen: adds the "
        "policy's scaled log-probability to the reward")
    munchausen_alpha: float = option(0.9, "scale of Munchausen's added reward", 0, 1)
    munchausen_tau: float = option(0.03, "temperature of the softmax policy, in Q-values", above=0)
    munchausen_floor: float = option(-1.0, "lower bound of the log-probability term", maximum=0)
    noisy: bool = option(False, "explore by learned noise in the dense layers (noisy networks)")
    noisy_sigma: float = option(0.5, "initial scale σ₀ of the noise of noisy layers", above=0)
    distributional: str = choice("none c51 quantile iqn",
        "learn distributions of returns: atoms, quantiles, or quantiles at random fractions")
    atoms: int = option(51, "atoms of c51", 2, 1024)
    v_min: float = option(-10.0, "return of the lowest atom")
    v_max: float = option(10.0, "return of the highest atom")
    quantiles: int = option(200, "quantiles of each action's return; with iqn: how many are drawn", 1, 1024)


@dataclass(frozen=True)
class BackendConfig:
    """The device that the network computes on."""

    backend: str = choice("gpu cpu", "device of the network; without a GPU: the CPU, with a warning")
    device_id: int = option(0, "index of the GPU, from 0", 0, local=True)
    datatype: str = choice("float32 bfloat16 float16 float64 auto",
        "precision of the hidden layers; auto: bfloat16 if the processor has instructions for it, or float32")
    threads: int = option(0, "CPU threads of the network; 0: one for each idle core", 0, 1024, local=True)


@dataclass(frozen=True)
class AgentConfig:
    """Exploration, and how often the network is updated."""

    exploration_rate_start: float = option(1.0, "initial ε: the probability of a random action", 0, 1)
    exploration_rate_end: float = option(0.1, "final ε", 0, 1)
    exploration_decay_steps: int = option(1_000_000, "steps over which ε falls linearly", 0, share_of="steps")
    exploration_spread: float = option(0.0,
        "game i of N explores in training with ε ** (1 + SPREAD i / (N - 1)); 0: all games alike", 0, 100)
    exploration_rate_test: float = option(0.05, "ε in tests", 0, 1)
    train_frequency: int = option(4, "steps between updates", 1)
    train_repeat: int = option(1, "updates every train_frequency steps", 1)
    target_steps: int = option(10_000, "steps between copies to the target network; 0: no such network", 0)
    schedule: str = choice("serial concurrent overlapped rollouts",
        "order of acting and learning; concurrent: act by the target network while the other learns; "
        "overlapped: play while the network learns; rollouts: learn from the latest rollout_steps (PQN)")
    synchronize: bool | None = option(None, "predict for all games in one batch; none: if there are several")

    def updates_in(self, steps: int) -> int:
        """Return the number of updates in `steps` training steps."""
        return steps // self.train_frequency * self.train_repeat


@dataclass(frozen=True)
class RunConfig:
    """The length of a run, and its files."""

    random_steps: int = option(50_000, "steps of random play that fill the memory before training", 0)
    train_steps: int = option(250_000, "training steps per epoch", 0)
    test_steps: int = option(125_000,
        "steps of a test; with several games, all but one are then played to their end", 0)
    epochs: int = option(200, "epochs of the whole run", 0)
    start_epoch: int = option(0, "number of the epoch after which the run starts", 0)
    play_games: int = option(0, "play this many games, then stop", 0)
    load_weights: str | None = option(None, "snapshot with the initial weights", local=True)
    save_weights_prefix: str | None = option(None, "snapshots are written to PREFIX_EPOCH.pkl", local=True)
    checkpoint_minutes: float = option(10, "minutes between checkpoints; 0: one per epoch", 0, local=True)
    checkpoint_steps: int = option(50_000, "steps between checkpoints, for games that cannot be saved", 0)
    keep: int | str = option(2, "checkpoints to keep; best: 2, and the snapshot of the best test", 1,
        choices=("best",), local=True)
    csv_file: str | None = option(None, "file for the statistics, one row per phase", local=True)
    tensorboard: bool | str = option(False, "also write TensorBoard files, beside the CSV; true: scalars",
        choices=("scalars", "histograms"))
    track: str = choice(REGISTERED["track"], "also write to a tracker (docs/guide.md)", local=True)
    visualization_filters: int = option(4, "filters per layer on the page of nvis.sh", 1, 64)
    visualization_file: str | None = option(None, "HTML file that nvis.sh writes", local=True)
    random_seed: int | None = option(None, "seed; by default it is drawn", 0, group="Common", endless=True)
    log_level: str = choice("INFO DEBUG WARNING ERROR CRITICAL", "lowest level to show", group="Common")


@dataclass(frozen=True)
class ClusterConfig:
    """Actors on a cluster; all settings are local."""

    cluster: str = option("none", "where actors play: local, this machine; auto, the Ray cluster of this "
        "machine; or the ADDRESS of a head, such as 10.0.0.1:6379", local=True)
    actors: int = option(1, "actors, each a process with --workers games", 1, 100_000, local=True)
    chunk_steps: int = option(50, "steps of each game in a trajectory", 1, 100_000, local=True)
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

        Of several layers the later ones win. A `Share` becomes a number of steps or updates, that of the
        length the run has now; a longer run does not change it.
        """
        flags = layered(self.flags(), *layers)
        steps = flags["epochs"] * flags["train_steps"]
        lengths = {"steps": steps, "updates": steps // flags["train_frequency"] * flags["train_repeat"]}
        groups: dict[str, dict[str, Any]] = {}
        for name, setting in SETTINGS.items():
            if isinstance(flags[name], Share):
                flags[name] = round(lengths[setting["share_of"]] * flags[name] / 100)
            groups.setdefault(setting["part"], {})[name] = flags[name]
        if flags["schedule"] == "rollouts" and not flags["rollout_steps"]:
            groups["memory"]["rollout_steps"] = 16
        return Config(**{name: GROUPS[name](**values) for name, values in groups.items()})

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


GROUPS: dict[str, Any] = {group.name: group.default_factory for group in fields(Config)}
# Name -> what `option` was given, the field of `Config` with it, its default, and its types: int, None.
SETTINGS: dict[str, dict[str, Any]] = {
    one.name: {**one.metadata, "part": name, "default": one.default, "types": get_args(kind) or (kind,)}
    for name, group in GROUPS.items()
    for one, kind in zip(fields(group), get_type_hints(group).values(), strict=True)
}
LOCAL = {name for name, setting in SETTINGS.items() if setting.get("local")}  # those of one machine
# Booleans of earlier versions, simple_dqn and fast-dqn, each of which is now one value of a choice.
BOOLEANS = {
    "concurrent": ("schedule", "concurrent"), "overlap": ("schedule", "overlapped"),
    "double": ("target_rule", "double"), "munchausen": ("target_rule", "munchausen"),
    "prioritized": ("sampler", "prioritized"), "batch_norm": ("normalization", "batch"),
    "layer_norm": ("normalization", "layer"),
}  # fmt: skip
# The names of flags in other projects.
OTHER_NAMES = {
    "lr": "learning_rate", "gamma": "discount_rate", "epsilon": "exploration_rate_start",
    "buffer_size": "replay_size", "learning_starts": "random_steps", "total_timesteps": "epochs",
    "env": "environment", "num_envs": "workers", "n_envs": "workers", "seed": "random_seed",
    "target_update_interval": "target_steps", "model": "load_weights", "cuda": "backend",
}  # fmt: skip


def unknown(kind: str, word: str, known: Iterable[str]) -> str:
    """Return the message on `word`, no flag or setting, with the nearest of those `known`."""
    dashes, name = "--" if word[:1] == "-" else "", word.split("=")[0].lstrip("-").lower().replace("-", "_")
    known = sorted(known)
    near = [OTHER_NAMES[name]] if name in OTHER_NAMES else difflib.get_close_matches(name, known, n=1)
    return f"unknown {kind} {word}" + (f": did you mean {dashes}{near[0]}?" if {*near} & {*known} else "")


def layered(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of all layers, of which later ones win, with `BOOLEANS` as today's choices.

    A boolean that is false undoes its choice in a lower layer.

    Raises:
        UserError: Two settings of a layer make different choices.
    """
    result: dict[str, Any] = {}
    for layer in layers:
        kept = {name for name in AUTO if layer.get(name) == "auto"}
        now = {name: value for name, value in layer.items() if name not in {*BOOLEANS, *kept}}
        for name, (choice, word) in {**BOOLEANS, "rollout_steps": ("schedule", "rollouts")}.items():
            if layer.get(name) and now.setdefault(choice, word) != word:
                both = f"--{name} {as_word(layer[name])} and --{choice} {now[choice]}"
                raise UserError(f"{both} exclude each other: give one of them")
            if layer.get(name) is False and result.get(choice) == word:
                now.setdefault(choice, SETTINGS[choice]["default"])
        if now.get("schedule", "rollouts") != "rollouts" and "rollout_steps" in result | now:
            now["rollout_steps"] = 0
        result |= now
    return result


def read(values: Mapping[str, Any], names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return settings from a file, a snapshot or keywords, words or values, checked as flags are.

    Raises:
        UserError: A name is unknown, or a value is not of its setting, which has another name in `names`.
    """
    result = {}
    for name, value in values.items():
        if name not in SETTINGS and name not in BOOLEANS:
            raise UserError(unknown("setting", name, SETTINGS))
        if isinstance(value, bytes | dict | list | set | tuple):
            raise UserError(f"{name} has no single value: give one")
        try:
            result[name] = convert(name, as_word(value))
        except ArgumentTypeError as error:
            raise UserError(f"{(names or {}).get(name, name)}: {error}") from None
    return result


def convert(name: str, word: str) -> Any:
    """Return the value that `word` means of the setting or boolean `name`, or raise ArgumentTypeError."""
    if name in BOOLEANS:
        return yes_or_no(word)
    about, kind = SETTINGS[name], SETTINGS[name]["types"][0]
    choices: Sequence[str] = about.get("choices", ())
    if NoneType in about["types"] and word == "none":
        return None
    if "share_of" in about and word.endswith("%"):
        return Share(number(float, word[:-1], minimum=0, maximum=100))
    if word in choices:  # for a boolean, the first choice means true
        return (kind is bool and word == choices[0]) or word
    if kind is not str:
        return yes_or_no(word, choices) if kind is bool else number(kind, word, **about)
    if choices and name not in REGISTERED:  # a name that is not registered here: see `rules.check`
        raise ArgumentTypeError(f"invalid choice: {word!r} (choose from {', '.join(choices)})")
    if NO_TEXT.search(word):
        raise ArgumentTypeError(f"'{word}' is not UTF-8 text")
    return word


NO_TEXT = re.compile("[\0\ud800-\udfff]")  # with surrogates Python marks bytes that are not UTF-8
LARGEST, MOST_WHOLE = 3e38, 10**18  # numbers that float32 and int64 have
YES, NO = ("yes", "true", "t", "1"), ("no", "false", "f", "0")


def number(kind: Any, word: str, minimum: float = -INF, maximum: float = INF, above: float = -INF,
           endless: bool = False, choices: Sequence[str] = (), **_: Any) -> Any:  # fmt: skip
    """Return `word` as an int or float within the limits of `option`, or raise ArgumentTypeError."""
    most = min(maximum, MOST_WHOLE) if kind is int and not endless else maximum
    shown = word if len(word) <= 40 else f"{word[:40]}..."
    try:
        result = value = float(word)
        if kind is int:
            result = int(word) if re.fullmatch(r"[+-]?[\d_]+", word.strip()) else int(value)
        exact = float(result) == value  # false for a fraction, and for NaN
    except (ValueError, OverflowError):
        exact = False
    if not exact:
        words = ("a whole number" if kind is int else "a number", *choices)
        raise ArgumentTypeError(f"{shown!r} is not {' or '.join(words)}")
    if kind is float and abs(value) > LARGEST and not endless:
        raise ArgumentTypeError(f"{shown} is not finite or too large: give a smaller number")
    if value < minimum or (value <= above and not endless):
        allowed = f"at least {minimum:g}" if value < minimum else f"more than {above:g}"
        raise ArgumentTypeError(f"{shown} is too small: give {allowed}")
    if value > most:
        raise ArgumentTypeError(f"{shown} is too large: give at most {most:g}")
    return result


def yes_or_no(word: str, others: Sequence[str] = ()) -> bool:
    """Return the boolean that `word` means, as in simple_dqn; an ArgumentTypeError names `others`, too."""
    if word.lower() not in YES + NO:
        raise ArgumentTypeError(f"{word!r} is not one of {', '.join((*YES, *NO, *others))}")
    return word.lower() in YES


def as_word(value: Any) -> str:
    """Return `value` as written on the command line."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def words(given: Mapping[str, Any]) -> list[str]:
    """Return the flags `given` as on the command line."""
    return [f"--{name}={as_word(value)}" for name, value in given.items()]
