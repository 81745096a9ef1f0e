"""The Python API (docs/api.md): the commands as functions. `simple_dqn` re-exports it.

Flags are keyword arguments with the names, values and limits of the command line. Errors are raised as
`UserError`, with the messages of the command line.
"""

import inspect
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from simple_dqn import evaluation, hub, random_streams, rules
from simple_dqn.command_line import parser_of_settings
from simple_dqn.config import SETTINGS, Config, words
from simple_dqn.config import read as read_settings
from simple_dqn.environment import as_played
from simple_dqn.environment.interface import FACTS, Environment, Frame
from simple_dqn.errors import Interrupt, UserError
from simple_dqn.own_code import check_call, import_code, register
from simple_dqn.run import make_environment, make_network, make_player
from simple_dqn.samplers import SAMPLERS, Uniform
from simple_dqn.snapshot import MALFORMED, Snapshot, check_fits, check_layers, quotable
from simple_dqn.snapshot.saver import best_snapshot, snapshots_after
from simple_dqn.statistics import PhaseSummary, Statistics, Writer
from simple_dqn.statistics.writers import TRACKERS, Console, ConsoleHandler
from simple_dqn.types import Actions, CheckpointState, QValues, States, Step, observation_dtype
from simple_dqn.verbs import play
from simple_dqn.verbs.settings import resolve
from simple_dqn.verbs.train import learn, read
from simple_dqn.watch.player import WatchedPlayer

if TYPE_CHECKING:
    from simple_dqn.dqn import TargetRule
    from simple_dqn.networks import NetworkSpec

Callback = Callable[[dict[str, Any]], object]
# Settings that have other names as arguments here.
NAMES = {"workers": "games", "play_games": "games", "random_seed": "seed", "exploration_rate_test": "epsilon"}

# fmt: off
_Path = str | Path | None
# The fields of `config.py`, as a test requires; `imports` are your own files or modules.
Settings = TypedDict("Settings", {  # noqa: UP013 - shorter than a class with a line for each
    "imports": str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    "environment": str, "observation": str, "emulator": str, "workers": int, "processes": int,
    "display_screen": bool, "frame_skip": int, "repeat_action_probability": float,
    "terminal_on_life_loss": bool, "minimal_action_set": bool, "color_averaging": bool, "frame_maximum": bool,
    "screen_width": int, "screen_height": int,
    "record_screen_path": _Path, "record_sound_filename": _Path, "max_game_frames": int, "random_starts": int,
    "random_start_frames": int, "replay_size": int, "history_length": int, "n_step": int,
    "rollout_steps": int, "sampler": str, "priority_exponent": float, "priority_beta_start": float,
    "priority_beta_steps": int | str, "replay_compression": str, "replay_device": str, "learning_rate": float,
    "learning_rate_end": float, "learning_rate_decay_updates": int | str, "discount_rate": float,
    "trace_decay": float, "batch_size": int, "optimizer": str, "decay_rate": float, "adam_epsilon": float,
    "loss": str, "clip_error": float, "min_reward": float, "max_reward": float, "average_updates": int | str,
    "network": str, "initializer": str, "normalization": str, "dueling": bool, "target_rule": str,
    "munchausen_alpha": float, "munchausen_tau": float, "munchausen_floor": float, "noisy": bool,
    "noisy_sigma": float, "distributional": str, "atoms": int, "v_min": float, "v_max": float,
    "quantiles": int, "backend": str, "device_id": int, "datatype": str, "threads": int,
    "exploration_rate_start": float, "exploration_rate_end": float, "exploration_decay_steps": int | str,
    "exploration_spread": float, "exploration_rate_test": float, "train_frequency": int, "train_repeat": int,
    "target_steps": int, "schedule": str, "synchronize": bool | None, "random_steps": int, "train_steps": int,
    "test_steps": int, "epochs": int, "start_epoch": int, "play_games": int, "load_weights": _Path,
    "save_weights_prefix": _Path, "checkpoint_minutes": float, "checkpoint_steps": int, "keep": int | str,
    "csv_file": _Path, "tensorboard": bool | str, "track": str, "visualization_filters": int,
    "visualization_file": _Path, "random_seed": int | None, "log_level": str, "cluster": str, "actors": int,
    "chunk_steps": int, "weights_every": int,
}, total=False)
Settings.__doc__ = """Every setting, by name, so that editors complete them.

Example:
    >>> few: simple_dqn.Settings = {"epochs": 1, "train_steps": 5000}
    >>> simple_dqn.train("pong", **few)
"""
# fmt: on


@dataclass(frozen=True)
class TrainingRun:
    """The files and the score of a run.

    Example:
        >>> simple_dqn.load(run.best or run.snapshots[-1])
    """

    csv_file: Path | None
    snapshots: list[Path]  # by epoch
    mean_reward: float | None  # of the call's last phase in which a game ended, raw points; None: none did
    best: Path | None = None  # the snapshot of the best test, with `keep="best"`
    stopped: bool = False  # whether a callback ended it; `resume=True` continues

    def __repr__(self) -> str:
        last = f" up to {self.snapshots[-1]}" if self.snapshots else ""
        best = f", best {self.best}" if self.best else ""
        score = "" if self.mean_reward is None else f", mean reward {self.mean_reward:.2f}"
        parts = f"snapshots: {len(self.snapshots)}{last}{best}{score}, {self.csv_file or 'no CSV'}"
        return f"<TrainingRun{' stopped' if self.stopped else ''}: {parts}>"


class _Callbacks(Writer):
    """Keeps the last mean reward, and calls the callbacks of `train`, each of which may end the run."""

    mean_reward: float | None = None
    stopped = False
    error: BaseException | None = None  # what one of them raised; it also ends the run

    def __init__(self, on_phase_end: Callback | None, on_step: Callback | None, every: int) -> None:
        if isinstance(every, bool) or not isinstance(every, int | np.integer) or every < 1:
            raise UserError(f"every is {every!r}: give a whole number of steps, such as 1000")
        for one in (on_phase_end, on_step):
            if (one is not None and not callable(one)) or inspect.iscoroutinefunction(one):
                raise UserError(f"{one!r} cannot be called: give a function of a row, such as print")
        self._on_phase_end, self._on_step, self.every = on_phase_end, on_step, int(every) if on_step else 0

    def on_phase_end(self, summary: PhaseSummary) -> None:
        if summary.average_reward is not None:
            self.mean_reward = summary.average_reward
        self._call(self._on_phase_end, summary)

    def on_safe_point(self, summary: PhaseSummary) -> None:
        self._call(self._on_step, summary)

    def _call(self, function: Callback | None, summary: PhaseSummary) -> None:
        try:
            answer = function(summary.row()) if function and not self.error else None
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            answer, self.error = True, error
        if isinstance(answer, bool | np.bool) and answer:
            self.stopped = self.interrupt.requested = True


def train(
    game: str, preset: str | None = None, label: str | None = None, on_phase_end: Callback | None = None,
    on_step: Callback | None = None, every: int = 1000, config: str | Path | None = None,
    resume: bool = False, **settings: Unpack[Settings],
) -> TrainingRun:  # fmt: skip
    """Train an agent as `./train.sh GAME LABEL --preset PRESET --FLAG VALUE ...` does, and wait for its end.

    A callback that returns True, or raises an exception, ends the run with a checkpoint, as Ctrl-C does.
    `resume=True` continues from there, exactly. The run logs to standard error, unless the application had
    configured logging before its first run.

    Args:
        game: The name of a game, the path of a ROM, FILE.py, or an id of Gymnasium's.
        preset: The settings that `settings` change; None: those of `config`, or the game's usual ones.
        label: Part of the names of the files in `results/` and `snapshots/`.
        on_phase_end: Called with a dict, the row of the CSV by column, after each phase, also a stopped one.
        on_step: Called with the row so far at the first safe point of a phase after every `every` steps.
        every: The steps between its calls, over all games; schedules reach a safe point after 1 to some
            thousand steps.
        config: A YAML file of settings, over those of the preset and below `settings`.
        resume: Whether to continue from the run's last checkpoint, if there is one.
        settings: Flags, such as `epochs=5`; and `imports`, your own files or modules to run first.

    Raises:
        UserError: A flag is unknown, out of range or contradicts another, or a file cannot be written.
        KeyboardInterrupt: A signal ended the run.

    Example:
        >>> run = simple_dqn.train("pong", on_phase_end=print, on_step=lambda row: row["total_time"] > 3600)
    """
    if "play_games" in settings:
        raise UserError("play_games is not for a training: use simple_dqn.load(SNAPSHOT).evaluate(games=...)")
    calls, labels = _Callbacks(on_phase_end, on_step, every), [] if label is None else [_word("label", label)]
    others = {"preset": preset, "config": config, "resume": resume or None}
    flags = settings | {name: value for name, value in others.items() if value is not None}
    given = read([_word("game", game), *labels, *_flag_words(flags)], "simple-dqn train")
    unconfigured = all(isinstance(handler, ConsoleHandler) for handler in logging.getLogger().handlers)
    run = learn(given, [calls], log=unconfigured)
    if calls.error:
        raise calls.error
    prefix = Path(run.save_weights_prefix).absolute() if run.save_weights_prefix else None
    best = best_snapshot(prefix) if prefix and run.keep == "best" else None
    return TrainingRun(
        Path(run.csv_file).absolute() if run.csv_file else None, snapshots_after(prefix, 0) if prefix else [],
        calls.mean_reward, best if best and best.exists() else None, calls.stopped,
    )  # fmt: skip


def make(
    game: str, games: int = 1, training: bool = False, seed: int = 0, preset: str = "simple_dqn",
    **settings: Unpack[Settings],
) -> Environment:  # fmt: skip
    """Return E `games` side by side: `reset()` and `step(actions int64 [E])` return a `Step`.

    Args:
        game: The name of a game, the path of a ROM, FILE.py, or an id of Gymnasium's.
        games: The number of games, E.
        training: Whether a lost life ends an episode (if `terminal_on_life_loss`).
        seed: The seed of all random streams.
        preset: The settings that `settings` change; by default those of simple_dqn.
        settings: Flags, such as `screen_width=64`.

    Raises:
        UserError: The game does not exist, or a flag is unknown or out of range.

    Example:
        >>> simple_dqn.make("pong", games=8).reset().screens.shape
        (8, 84, 84)
    """
    if "workers" in settings or "random_seed" in settings:
        raise UserError("workers and random_seed are called games and seed here: give those")
    if seed is None:
        raise UserError("seed is None: give a whole number, such as 0")
    if not isinstance(training, bool):
        raise UserError(f"training is {training!r}: give True or False")
    asked = {"preset": preset, **read_settings({"workers": games, "random_seed": seed}, NAMES), **settings}
    given = resolve(read([_word("game", game), *_flag_words(asked)], "simple-dqn train"))
    rules.check(Config(environment=given.environment))  # those of training may not fit
    return _CheckedGames(make_environment(replace(given, environment=as_played(given.environment)), training))


def _flag_words(flags: Mapping[str, Any]) -> list[str]:
    """Return `flags` as words of a command line, and run the files or modules in `imports`."""
    for name in {"help", "h", "print_config"} & flags.keys():
        raise UserError(f"{name} is for the command line: leave it out")
    import_code(flags.get("imports") or ())
    flags = {name: value for name, value in flags.items() if name != "imports"}
    read_settings({name: flags[name] for name in flags if name in SETTINGS})  # its messages name no flag
    return words(flags)


def _word(name: str, value: object) -> str:
    """Return `value`, a word or a path, not a flag, as a word of a command line."""
    word = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(word, str) or not word or word.startswith("-"):
        own = "; register an environment of your own with Gymnasium, and give its id" * (name == "game")
        raise UserError(f"{name} is {value!r}: give text, such as 'pong', or a path{own}")
    return word


class _CheckedGames(Environment):
    """Games that refuse wrong actions, and any call after `close`; training does without the checks."""

    def __init__(self, games: Environment) -> None:
        self._games, self._closed = games, False
        for name in (*FACTS, "games", "actions", "device"):
            setattr(self, name, getattr(games, name))

    def _open(self) -> Environment:
        if self._closed:
            raise UserError(f"the games of {self.name} were closed: call simple_dqn.make again")
        return self._games

    def reset(self) -> Step:
        return self._open().reset()

    def step(self, actions: Actions) -> Step:
        games, given, most = self._open(), np.array(actions, object), self.actions - 1
        if given.shape != (self.games,) or not all(action in range(self.actions) for action in given):
            raise UserError(f"the actions are {actions!r}: give int64 [{self.games}] from 0 to {most}")
        return games.step(given.astype(np.int64))

    def get_state(self) -> CheckpointState:
        return self._open().get_state()

    def set_state(self, state: CheckpointState) -> None:
        try:
            self._open().set_state(state)
        except MALFORMED as error:
            remedy = "give what get_state returned for such games"
            raise UserError(f"the state is not one of these games ({quotable(error)}): {remedy}") from None

    def close(self) -> None:
        self._closed = True
        self._games.close()


class Scores(NamedTuple):
    """The scores of a test, in raw game points."""

    mean: float
    deviation: float  # standard deviation of the games
    games: list[float]  # of each game, in the order of their ends


class PlayedStep(NamedTuple):
    """One action of an agent, and its effect."""

    screen: NDArray[np.uint8]  # after the action: a color frame [height, width, 3], or a screen [H, W]
    action: int  # index into `TrainedAgent.action_names`
    q_values: NDArray[np.float32]  # [A], by which the action was chosen
    reward: float  # raw game points
    done: bool  # whether the game ended


class TrainedAgent:
    """The agent in a snapshot of this project or of Neon; loading runs no code from the file.

    Its methods raise UserError if states have another shape or type, or a number is out of range.

    Args:
        path: The snapshot, or hf://USER/REPO for one on the Hugging Face Hub.
        game: The game of a Neon snapshot whose file name does not contain it.
        settings: Flags that replace the snapshot's, such as `backend="cpu"`.

    Attributes:
        game: The name of the agent's game.
        actions: The number of its actions, A.
        action_names: The names of these actions.
        settings: All settings with which it plays, by flag.

    Raises:
        UserError: The file is missing, damaged or no snapshot, a flag is wrong, or the game cannot be played.

    Example:
        >>> agent = simple_dqn.load("snapshots/trained/breakout_200.pkl")
        >>> agent.evaluate(games=10).mean
    """

    def __init__(self, path: str | Path, game: str | None = None, **settings: Unpack[Settings]) -> None:
        file = hub.local(_word("path", path))
        snapshot = play.open_snapshot(file, None if game is None else _word("game", game))
        given = parser_of_settings("simple-dqn train", "").parse(_flag_words(settings))
        self.__setstate__((file, snapshot, given))

    def __getstate__(self) -> tuple[Path, Snapshot, dict[str, Any]]:
        """Return the state of a copy or a pickle, with the weights; its random streams begin anew."""
        return self._path, self._snapshot, self._given

    def __setstate__(self, state: tuple[Path, Snapshot, dict[str, Any]]) -> None:
        """Build the network and the player."""
        self._path, self._snapshot, self._given = state
        config = self._config(play.ONE_GAME, self._given.get("random_seed", 0))
        with make_environment(config, training=False) as environment:
            # Check first, because importing PyTorch takes seconds.
            check_fits(self._path, self._snapshot, environment.name, environment.actions)
            check_layers(self._path, self._snapshot, config)
            self._network = make_network(config, environment)
            play.load_weights(self._path, environment, self._network, self._snapshot)
            self._player = make_player(config, environment, self._network)
        self.game, self.settings = environment.name, config.flags()
        self.actions, self.action_names = environment.actions, environment.action_names
        self._state_shape = (config.memory.history_length, *environment.screen_shape)

    def __repr__(self) -> str:
        epoch, steps = self._snapshot.epoch, self._snapshot.total_train_steps
        return f"<TrainedAgent: {self.game}, epoch {epoch}, {steps:,} training steps, {self._path}>"

    def q_values(self, states: States) -> QValues:
        """Return the value of each action, the discounted sum of clipped rewards, float32 [B, A].

        `states` are uint8 [B, S, H, W], oldest screen first; of numbers float32 [B, S, D] or [B, S, K, H, W].
        """
        return self._network.predict(self._checked(states))

    def act(self, states: States, epsilon: float = 0.0) -> Actions:
        """Return the action with the highest Q-value, or with probability ε a random one, int64 [B].

        `states` are as for `q_values`; an action is an index into `action_names`.
        """
        rate = read_settings({"exploration_rate_test": epsilon}, NAMES)["exploration_rate_test"]
        return self._player.choose(rate, self.q_values(states))

    def saliency(self, states: States) -> NDArray[np.float32]:
        """Return which pixels raised the highest Q-value of each state, by guided backpropagation.

        `states` are uint8 [B, S, H, W]. Returns float32 [B, S, H, W]: the change of the Q-value for a change
        of the pixel from black to white.
        """
        return self._network.guided_backpropagation().saliency(self._checked(states))

    def evaluate(self, games: int = 10, seed: int = 0, epsilon: float | None = None) -> Scores:
        """Play whole games, as `./test.sh SNAPSHOT --play_games GAMES` does, and return their scores.

        `seed` is that of all random streams, and `epsilon` the probability of a random action; None: that of
        the snapshot's tests. A bar on a terminal counts the games.
        """
        number = read_settings({"play_games": games}, NAMES)["play_games"]
        if number < 1:
            raise UserError(f"games: {games} have no score: give at least 1")
        fixed = play.PLAYS_ONLY | {"workers": play.workers_for(number, self._snapshot.flags)}
        config = self._config(fixed, seed, epsilon, play_games=number)
        with make_environment(config, training=False) as environment:
            player = make_player(config, environment, self._network)
            with closing(Statistics([Console()])) as bar:
                outcome = evaluation.evaluate(player, config, "simple_dqn", bar, Interrupt())
        return Scores(outcome.mean or 0.0, outcome.standard_deviation or 0.0, outcome.scores)

    def play(
        self, game: str | None = None, frames: bool = True, seed: int = 0, epsilon: float | None = None
    ) -> Iterator[PlayedStep]:
        """Play one game, and yield each step, with the color frame or, without `frames`, the agent's screen.

        `game` is the name or the ROM of the agent's game; None: the snapshot's. `seed` and `epsilon` are as
        for `evaluate`.
        """
        fixed = play.ONE_GAME | ({} if game is None else {"game": _word("game", game)})
        config = self._config(fixed, seed, epsilon, workers=1, processes=0)  # `load`'s are for `evaluate`
        seen: deque[Frame] = deque(maxlen=1)
        with make_environment(config, training=False, watcher=seen.append if frames else None) as environment:
            check_fits(self._path, self._snapshot, environment.name, environment.actions)
            rng = random_streams.stream(config.seed, "test exploration")
            player = WatchedPlayer(environment, self._network.predict, config.memory.history_length, rng)
            done = player.start().resets[0]
            while not done:
                step = player.step(config.agent.exploration_rate_test)
                done = bool(step.resets[0])
                assert player.qvalues is not None
                screen = seen[0].picture if frames else step.screens[0]
                yield PlayedStep(screen, player.action, player.qvalues, float(step.rewards[0]), done)

    def _config(self, fixed: dict[str, Any], seed: int, epsilon: float | None = None, **asked: Any) -> Config:
        """Return the settings `fixed` by a verb, with those `asked` in place of the snapshot's."""
        asked |= {"random_seed": seed} | ({} if epsilon is None else {"exploration_rate_test": epsilon})
        given = self._given | read_settings(asked, NAMES)
        return play.settings_of_agent(self._path, self._snapshot, given, fixed)

    def _checked(self, states: States) -> States:
        shape: tuple[int, ...] = getattr(states, "shape", ())
        kind = getattr(states, "dtype", type(states).__name__)
        right = observation_dtype(self._state_shape[1:])
        if kind != right or shape[1:] != self._state_shape or not shape[0]:
            wanted = ", ".join(map(str, self._state_shape))
            raise UserError(f"the states are {kind} {list(shape)}: give {right} [B, {wanted}]")
        return states


load = TrainedAgent


def register_network(name: str, spec: "NetworkSpec") -> None:
    """Register hidden layers for `--network NAME`, which snapshots record; a known name is replaced.

    Raises:
        UserError: The name is not valid, or `spec` is no `NetworkSpec` of layers that can be built.

    Example:
        >>> spec = NetworkSpec((Convolution(16, 8, 4), Dense(128)), True, uniform_by_inputs)
        >>> simple_dqn.register_network("tiny", spec)
    """
    from simple_dqn.networks import NETWORKS, check_spec

    check_spec(spec)
    register("network", name, spec, NETWORKS)


def register_target_rule(name: str, rule: "TargetRule") -> None:
    """Register a target rule for `--target_rule NAME`, as `examples/expected_sarsa.py` does.

    `rule` returns the targets [B, 1, N] of transitions; a known name is replaced.

    Raises:
        UserError: The name is not valid, or `rule` is not a function (target, config, transitions, noise).

    Example:
        >>> simple_dqn.register_target_rule("sarsa", of_policy)
    """
    from simple_dqn.dqn import TARGET_RULES

    contract = "give a function (target, config, transitions, noise) that returns targets [B, 1, N]"
    check_call(rule, "target, config, transitions, noise", contract)
    register("target_rule", name, rule, TARGET_RULES)


def register_sampler(name: str, sampler: type[Uniform]) -> None:
    """Register a sampler of the replay memory for `--sampler NAME`, as `examples/combined_replay.py` does.

    It receives TD errors if its `uses_errors` is true; a known name is replaced.

    Raises:
        UserError: The name is not valid, or `sampler` is not a subclass of `simple_dqn.samplers.Uniform`.

    Example:
        >>> simple_dqn.register_sampler("combined", Combined)
    """
    contract = "give a subclass of simple_dqn.samplers.Uniform"
    if not (isinstance(sampler, type) and issubclass(sampler, Uniform)):
        raise UserError(f"{sampler!r} is not a sampler: {contract}")
    check_call(sampler, "ring, config", contract)
    check_call(sampler.draw, "self, count, steps, rng", contract)
    check_call(sampler.set_errors, "self, numbers, errors", contract)
    register("sampler", name, sampler, SAMPLERS)


def register_track(name: str, make: Callable[[Path, Mapping[str, Any], bool], Writer]) -> None:
    """Register a writer for `--track NAME`; it receives the events of a run.

    `make` is called with the path of the run's CSV without its extension, the settings, and whether the run
    is resumed, and returns a `simple_dqn.statistics.Writer`.

    Raises:
        UserError: The name is not valid, or `make` cannot be called so.

    Example:
        >>> simple_dqn.register_track("mine", MyWriter)
    """
    contract = "give a function (path, settings, resumed) that returns a simple_dqn.statistics.Writer"
    check_call(make, "path, settings, resumed", contract)
    if isinstance(make, type) and not issubclass(make, Writer):
        raise UserError(f"{make.__qualname__} is not a Writer: {contract}")
    register("track", name, make, TRACKERS)
