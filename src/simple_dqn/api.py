"""The Python API (docs/api.md): what the command line does, as functions. `simple_dqn` re-exports it.

Flags are keyword arguments with the names and limits that `--help all` lists. Errors have the messages of the
command line, and are raised as `UserError`.
"""

import inspect
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simple_dqn import evaluation, random_streams, rules
from simple_dqn.command_line import parser_of_settings
from simple_dqn.config import REGISTERED, Config, words
from simple_dqn.environment import Environment, Frame, as_played
from simple_dqn.errors import Interrupt, UserError
from simple_dqn.own_code import import_code
from simple_dqn.run import make_environment, make_network, make_player
from simple_dqn.samplers import SAMPLERS, Uniform
from simple_dqn.snapshot import check_fits, check_layers, snapshots_after
from simple_dqn.statistics import PhaseSummary, Statistics, Writer
from simple_dqn.statistics.writers import TRACKERS, Console
from simple_dqn.types import Actions, QValues, States, Step
from simple_dqn.verbs.play import (
    ONE_GAME,
    PLAYS_ONLY,
    load_weights,
    open_snapshot,
    settings_of_agent,
    workers_for,
)
from simple_dqn.verbs.settings import resolve
from simple_dqn.verbs.train import learn, read
from simple_dqn.watch.player import WatchedPlayer

if TYPE_CHECKING:
    from simple_dqn.dqn import TargetRule
    from simple_dqn.networks import NetworkSpec


@dataclass(frozen=True)
class TrainingRun:
    """The files and the score of a finished run."""

    csv_file: Path | None
    snapshots: list[Path]  # by epoch
    mean_reward: float | None  # of the last phase in which a game ended, raw game points; None: none did


class _PhaseEnds(Writer):
    """Keeps the last mean reward, and calls a function, if there is one, with the row of each phase."""

    def __init__(self, call: Callable[[dict[str, Any]], object] | None) -> None:
        self.mean_reward: float | None = None
        self._call = call

    def on_phase_end(self, summary: PhaseSummary) -> None:
        row: dict[str, Any] = summary.row()
        self.mean_reward = self.mean_reward if row["average_reward"] is None else row["average_reward"]
        if self._call:
            self._call(row)


def train(
    game: str,
    preset: str | None = None,
    label: str | None = None,
    on_phase_end: Callable[[dict[str, Any]], object] | None = None,
    **flags: Any,
) -> TrainingRun:
    """Train an agent as `./train.sh GAME LABEL --preset PRESET --FLAG VALUE ...` does, and wait for its end.

    Ctrl-C stops the run cleanly, writes a checkpoint and raises KeyboardInterrupt; `resume=True` continues
    from there. Unless the application has configured logging, the run logs to standard error.

    Args:
        game: The name of a game, the path of a ROM, FILE.py, or an id of Gymnasium's.
        preset: The settings that `flags` change; None: `quick`, or those of `config=FILE`.
        label: Part of the names of the files in `results/` and `snapshots/`.
        on_phase_end: Called after each phase with its row of the CSV, by column.
        flags: Settings, such as `epochs=5`; and `imports`, your own files or modules to run first.

    Raises:
        UserError: A flag is unknown, out of range or contradicts another, or a file cannot be written.
        KeyboardInterrupt: A signal ended the run.

    Example:
        >>> run = simple_dqn.train("pong", epochs=5, on_phase_end=print)
    """
    if "play_games" in flags:
        raise UserError("play_games is not for a training: use simple_dqn.load(SNAPSHOT).evaluate(games=...)")
    ends, labels = _PhaseEnds(on_phase_end), [] if label is None else [_word("label", label)]
    flags |= {} if preset is None else {"preset": preset}
    given = read([_word("game", game), *labels, *_flag_words(flags)], "simple-dqn train")
    run = learn(given, [ends], log=not logging.getLogger().handlers)
    snapshots = snapshots_after(Path(run.save_weights_prefix), 0) if run.save_weights_prefix else []
    return TrainingRun(Path(run.csv_file) if run.csv_file else None, snapshots, ends.mean_reward)


def make(game: str, games: int = 1, training: bool = False, seed: int = 0, **flags: Any) -> Environment:
    """Return E `games` side by side: `reset()` and `step(actions int64 [E])` return a `Step`.

    Args:
        game: The name of a game, the path of a ROM, FILE.py, or an id of Gymnasium's.
        games: The number of games, E.
        training: Whether a lost life ends an episode.
        seed: The seed of all random streams.
        flags: Settings, such as `screen_width=64` or `preset="quick"`; without a preset the defaults apply.

    Raises:
        UserError: The game does not exist, or a flag is unknown or out of range.

    Example:
        >>> simple_dqn.make("pong", games=8).reset().screens.shape
        (8, 84, 84)
    """
    asked = {"preset": "simple_dqn", "workers": games, "random_seed": seed, **flags}
    config = resolve(read([_word("game", game), *_flag_words(asked)], "simple-dqn train"))
    if config.run.random_seed is None:
        raise UserError("seed is None: give a whole number, such as 0")
    rules.check(Config(environment=config.environment))  # those of training may not fit
    played = replace(config, environment=as_played(config.environment))
    return _refusing(make_environment(played, training))


def _read(flags: dict[str, Any]) -> dict[str, Any]:
    return parser_of_settings("simple-dqn", "").parse(_flag_words(flags))


def _flag_words(flags: dict[str, Any]) -> list[str]:
    """Return `flags` as on the command line, and run what `imports` names."""
    for name in {"help", "h", "print_config"} & flags.keys():
        raise UserError(f"{name} is for the command line: leave it out")
    import_code(flags.get("imports") or ())
    return words({name: value for name, value in flags.items() if name != "imports"})


def _word(name: str, value: object) -> str:
    """Return `value`, a word or a path that is no flag, as a word of a command line."""
    word = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(word, str) or not word or word.startswith("-"):
        raise UserError(f"{name} is {value!r}: give a word or a path, such as 'pong'")
    return word


def _refusing(environment: Environment) -> Environment:
    """Let `environment` refuse wrong actions; training makes none, and does without the check."""
    step, games, actions = environment.step, environment.games, environment.actions

    def checked(chosen: Actions) -> Step:
        given = np.array(chosen, object)
        if given.shape != (games,) or not all(one in range(actions) for one in given):
            raise UserError(f"the actions are {chosen!r}: give int64 [{games}] from 0 to {actions - 1}")
        return step(given.astype(np.int64))

    environment.step = checked  # type: ignore
    return environment


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
    over: bool  # whether the game ended


class TrainedAgent:
    """The agent in a snapshot of this project or of Neon; loading runs no code from the file.

    Its methods raise UserError if states have another shape or type, or a number is out of range.

    Args:
        path: The snapshot.
        game: The game of a Neon snapshot whose file name does not contain it.
        flags: Settings that replace the snapshot's, such as `backend="cpu"`.

    Attributes:
        game: The name of its game.
        actions: The number of its actions, A.
        action_names: Their names.
        settings: All settings that it plays with, by flag.

    Raises:
        UserError: The file is missing, damaged or no snapshot, a flag is wrong, or the game cannot be played.

    Example:
        >>> agent = simple_dqn.load("snapshots/trained/breakout_200.pkl")
        >>> agent.evaluate(games=10).mean
    """

    def __init__(self, path: str | Path, game: str | None = None, **flags: Any) -> None:
        self._path = file = Path(_word("path", path))
        self._snapshot = open_snapshot(file, None if game is None else _word("game", game))
        self._given = _read(flags)
        config = self._config(ONE_GAME, {"random_seed": self._given.get("random_seed", 0)})
        with closing(make_environment(config, training=False)) as environment:
            # Check first, because importing PyTorch takes seconds.
            check_fits(file, self._snapshot, environment.name, environment.actions)
            check_layers(file, self._snapshot, config)
            self._network = make_network(config, environment)
            load_weights(file, environment, self._network, self._snapshot)
            self._player = make_player(config, environment, self._network)
        self.game, self.settings = environment.name, config.flags()
        self.actions, self.action_names = environment.actions, environment.action_names
        self._state_shape = (config.memory.history_length, *environment.screen_shape)

    def q_values(self, states: States) -> QValues:
        """Return the value of each action, the discounted sum of clipped rewards, float32 [B, A].

        `states` are uint8 [B, S, H, W], oldest screen first.
        """
        return self._network.predict(self._checked(states))

    def act(self, states: States, epsilon: float = 0.0) -> Actions:
        """Return the action with the highest Q-value, or with probability ε a random one, int64 [B].

        `states` are uint8 [B, S, H, W], oldest screen first; an action is an index into `action_names`.
        """
        rate = _read({"exploration_rate_test": epsilon})["exploration_rate_test"]
        return self._player.choose(rate, states=self._checked(states))

    def saliency(self, states: States) -> NDArray[np.float32]:
        """Return which pixels raised the highest Q-value of each state, by guided backpropagation.

        `states` are uint8 [B, S, H, W]. Returns float32 [B, S, H, W]: the change of the Q-value for a change
        of the pixel from black to white.
        """
        return self._network.guided_backpropagation().saliency(self._checked(states))

    def evaluate(self, games: int = 10, seed: int = 0, epsilon: float = 0.05) -> Scores:
        """Play whole games, as `./test.sh SNAPSHOT --play_games GAMES` does, and return their scores.

        `seed` is that of all random streams, and `epsilon` the probability of a random action. A bar on a
        terminal counts the games.
        """
        asked = {"play_games": games, "random_seed": seed, "exploration_rate_test": epsilon}
        number = _read(asked)["play_games"]
        if number < 1:
            raise UserError(f"{games} games have no score: give at least 1")
        config = self._config(PLAYS_ONLY, asked, **workers_for(number, self._snapshot.flags))
        with closing(make_environment(config, training=False)) as environment:
            player = make_player(config, environment, self._network)
            outcome = evaluation.evaluate(player, config, "simple_dqn", Statistics([Console()]), Interrupt())
        return Scores(outcome.mean or 0.0, outcome.standard_deviation or 0.0, outcome.scores)

    def play(
        self, game: str | None = None, frames: bool = True, seed: int = 0, epsilon: float = 0.05
    ) -> Iterator[PlayedStep]:
        """Play one game, and yield each step, with the color frame or, without `frames`, the agent's screen.

        `game` is the name or the ROM of the agent's game; None: the snapshot's. `seed` and `epsilon` are as
        for `evaluate`.
        """
        asked = {"random_seed": seed, "exploration_rate_test": epsilon}
        config = self._config(ONE_GAME, asked, **({} if game is None else {"game": _word("game", game)}))
        seen: deque[Frame] = deque(maxlen=1)
        watcher = seen.append if frames else None
        with closing(make_environment(config, training=False, watcher=watcher)) as environment:
            check_fits(self._path, self._snapshot, environment.name, environment.actions)
            rng = random_streams.stream(config.seed, "test exploration")
            player = WatchedPlayer(environment, self._network.predict, config.memory.history_length, rng)
            over = player.start().resets[0]
            while not over:
                step = player.step(config.agent.exploration_rate_test)
                over = bool(step.resets[0])
                assert player.qvalues is not None
                screen = seen[0].picture if frames else step.screens[0]
                yield PlayedStep(screen, player.action, player.qvalues, float(step.rewards[0]), over)

    def _config(self, base: dict[str, Any], asked: dict[str, Any], **fixed: Any) -> Config:
        """Return the settings of `verb`, with `asked` and `fixed` in place of the snapshot's."""
        given = {**self._given, **_read(asked)}
        return settings_of_agent(self._path, self._snapshot, given, {**base, **fixed})

    def _checked(self, states: States) -> States:
        shape: tuple[int, ...] = getattr(states, "shape", ())
        kind = getattr(states, "dtype", type(states).__name__)
        if kind != np.uint8 or shape[1:] != self._state_shape or not shape[0]:
            wanted = ", ".join(map(str, self._state_shape))
            raise UserError(f"the states are {kind} {list(shape)}: give uint8 [B, {wanted}]")
        return states


load = TrainedAgent


def register_network(name: str, spec: "NetworkSpec") -> None:
    """Register hidden layers for `--network NAME`, which snapshots record; a known name is replaced.

    Raises:
        UserError: The name is not valid, or `spec` is no `simple_dqn.networks.NetworkSpec`.

    Example:
        >>> spec = NetworkSpec((Convolution(16, 8, 4), Dense(128)), True, uniform_by_inputs)
        >>> simple_dqn.register_network("tiny", spec)
    """
    from simple_dqn.networks import NETWORKS, NetworkSpec

    if not isinstance(spec, NetworkSpec):
        raise UserError(f"{spec!r} is no network: give a simple_dqn.networks.NetworkSpec (docs/api.md)")
    _register("network", name, spec, NETWORKS)


def register_target_rule(name: str, rule: "TargetRule") -> None:
    """Register a target rule for `--target_rule NAME`, as `examples/expected_sarsa.py` does.

    `rule` returns the targets [B, 1, N] of transitions. The name `max`, `double` or `munchausen` replaces the
    rule that `auto` chooses.

    Raises:
        UserError: The name is not valid, or `rule` is no function (target, config, transitions, noise).

    Example:
        >>> simple_dqn.register_target_rule("sarsa", of_policy)
    """
    from simple_dqn.dqn import TARGET_RULES

    contract = "give a function (target, config, transitions, noise) that returns targets [B, 1, N]"
    _check_call(rule, "target, config, transitions, noise", contract)
    _register("target_rule", name, rule, TARGET_RULES)


def register_sampler(name: str, sampler: type[Uniform]) -> None:
    """Register a sampler of the replay memory for `--sampler NAME`, as `examples/combined_replay.py` does.

    It receives TD errors if its `uses_errors` is true. The name `uniform` or `prioritized` replaces the one
    that `auto` chooses.

    Raises:
        UserError: The name is not valid, or `sampler` is no subclass of `simple_dqn.samplers.Uniform`.

    Example:
        >>> simple_dqn.register_sampler("combined", Combined)
    """
    contract = "give a subclass of simple_dqn.samplers.Uniform"
    if not (isinstance(sampler, type) and issubclass(sampler, Uniform)):
        raise UserError(f"{sampler!r} is no sampler: {contract}")
    _check_call(sampler, "ring, config", contract)
    _check_call(sampler.draw, "self, count, steps, rng", contract)
    _check_call(sampler.set_errors, "self, numbers, errors", contract)
    _register("sampler", name, sampler, SAMPLERS)


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
    _check_call(make, "path, settings, resumed", contract)
    if isinstance(make, type) and not issubclass(make, Writer):
        raise UserError(f"{make.__qualname__} is no Writer: {contract}")
    _register("track", name, make, TRACKERS)


def _register(setting: str, name: str, entry: Any, table: dict[str, Any]) -> None:
    """Add `entry` to `table`, and a new `name` to the values of `setting`."""
    valid = isinstance(name, str) and name.isidentifier() and len(name) <= 100
    if not valid or name in ("auto", "none"):
        remedy = "use up to 100 letters, digits and _, with a letter first, but not auto or none"
        raise UserError(f"{name!r} cannot name a {setting}: {remedy}")
    if name not in table:
        REGISTERED[setting].append(name)
    table[name] = entry


def _check_call(function: object, arguments: str, contract: str) -> None:
    """Check that `function` can be called with `arguments`, their names, and returns at once."""
    late = inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function)
    if late or not callable(function):
        raise UserError(f"{function!r} cannot be called: {contract}")
    try:
        inspect.signature(function).bind(*arguments.split(", "))
    except (TypeError, ValueError) as error:  # ValueError: such as `int`, which has no signature
        name = getattr(function, "__qualname__", repr(function))
        raise UserError(f"{name} cannot be called with ({arguments}), {error}: {contract}") from None
