"""A run: random play once, then in each epoch training, a snapshot and a test; and how its objects are built.

They are built here from the settings. Only an actor on a cluster, which has games but neither memory nor
statistics, builds its own (`cluster/actor.py`).
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simple_dqn import random_streams
from simple_dqn.agent import Agent, Player
from simple_dqn.config import Config, RunConfig
from simple_dqn.environment import make
from simple_dqn.environment.interface import Environment, Watcher
from simple_dqn.errors import Interrupt, LostError, UserError, one_line
from simple_dqn.evaluation import Tester
from simple_dqn.replay import ReplayMemory
from simple_dqn.schedules import ConcurrentSchedule, OverlappedSchedule, RolloutSchedule, SerialSchedule
from simple_dqn.snapshot import MALFORMED
from simple_dqn.snapshot.checkpoint import Checkpoint, DamagedError, check_form
from simple_dqn.snapshot.saver import Saver
from simple_dqn.statistics import Statistics, Writer
from simple_dqn.statistics.csv_file import CLUSTER_COLUMNS, CsvWriter
from simple_dqn.statistics.writers import TRACKERS, Console, TensorboardWriter
from simple_dqn.types import CONTEXT, CheckpointState, Experience, States, observation_dtype

if TYPE_CHECKING:
    from simple_dqn.dqn import DeepQNetwork

logger = logging.getLogger(__name__)

PHASES = ("random", "train", "test")
# Parts of a checkpoint that a resumed run begins anew if their setting has changed.
PARTS = {
    "average": "average_updates", "sampler": "sampler", "scaler": "datatype", "target": "target_steps",
    "tester": "test_steps",
}  # fmt: skip
GPU_GAMES = 256  # fewer games are not emulated on the GPU: a step takes as long (estimated, not measured)
HELD_OUT_STATES = 256  # states over which `meanq` averages the highest Q-value


@dataclass
class Phase:
    """A number of steps of one kind."""

    name: str  # random, train or test
    epoch: int  # counted from 1; 0 for random play
    done: int = 0  # steps so far, over all games

    @staticmethod
    def of(run: dict[str, Any]) -> "Phase":
        """Return the phase in the state of a run, or raise ValueError if there is no such phase."""
        phase = Phase(**run["phase"])
        numbers = (phase.epoch, phase.done)
        if phase.name not in PHASES or any(type(number) is not int or number < 0 for number in numbers):
            raise ValueError(f"it has no phase {phase.name!r} {phase.epoch!r} {phase.done!r}")
        return phase

    def length(self, config: RunConfig) -> int:
        """Return the number of its steps, over all games."""
        return int(getattr(config, f"{self.name}_steps"))

    def next(self, config: RunConfig) -> "Phase":
        """Return the next phase that has steps, or one after the last epoch."""
        if self.name == "train" and config.test_steps:
            return Phase("test", self.epoch)
        epoch = max(self.epoch, config.start_epoch) + 1
        if config.test_steps and not config.train_steps and epoch <= config.epochs:
            return Phase("test", epoch)
        return Phase("train", epoch if config.train_steps else max(epoch, config.epochs + 1))

    @property
    def trained(self) -> int:
        """The number of complete epochs of training."""
        return self.epoch if self.name == "test" else max(0, self.epoch - 1)


class Run:
    """A run from its first phase to its last; `phase` is the current one, `config` its length and files."""

    def __init__(
        self, agent: Agent, tester: Tester | None, statistics: Statistics, saver: Saver | None,
        config: Config, interrupt: Interrupt, schedule: SerialSchedule,
    ) -> None:  # fmt: skip
        self.agent = agent
        self.phase = Phase("random", 0)
        agent.count_from(config.run.start_epoch * config.run.train_steps)
        self._tester, self._schedule = tester, schedule
        self._statistics, self._saver = statistics, saver
        self.config, self._settings = config.run, config.flags()
        self._interrupt = interrupt
        self._held_out: States | None = None  # uint8 [HELD_OUT_STATES, S, H, W]

    def begin(self, refill: bool = False) -> None:
        """Fill the replay memory, then train and test up to the last epoch or an interrupt.

        With `refill` the policy of a snapshot fills the memory, not a random one. If a signal has come during
        the start-up, a KeyboardInterrupt is raised and nothing is written.
        """
        if self._interrupt.requested:  # during the start-up: an earlier run of that name keeps its files
            raise KeyboardInterrupt(self._interrupt.number)
        self._statistics.begin()  # fails if another run writes the CSV, before files are renamed
        if self._saver:
            self._saver.begin(self.agent.network.get_weights(average=True))
        self._start_games()
        if refill:
            if steps := self.config.random_steps:
                logger.info("Refilling replay memory with %d steps of the agent's own play", steps)
            for _ in self._schedule.fill(self.agent, steps):
                if self._interrupt.requested:
                    break
            self.phase = self.phase.next(self.config)
        self._run()

    def resume(self, checkpoint: Checkpoint) -> None:
        """Resume from a checkpoint, and train and test up to the last epoch or an interrupt.

        Raises:
            DamagedError: The checkpoint is not of such a run; nothing was written.
        """
        try:
            settings, now = checkpoint.run["flags"], self._settings
            changed = {part for part, name in PARTS.items() if settings.get(name, now[name]) != now[name]}
            check_form(checkpoint.run, self.get_state(games=False), changed)
            if "sampler" in changed:  # the state is another's
                checkpoint.run["agent"]["memory"]["sampler"] = None
            self.set_state(checkpoint.run, checkpoint.experience())
        except LostError:
            raise
        except (UserError, *MALFORMED) as error:
            reason = one_line(error) or type(error).__name__
            raise DamagedError(f"{checkpoint.path} cannot be used (it is damaged: {reason})") from error
        if self._saver:
            self._saver.resume(checkpoint)
        self._restart_unsaved_games()
        self._run()

    def close(self) -> None:
        """Finish writing checkpoints, and close files and games, each also where closing another fails."""
        with ExitStack() as stack:  # which closes the last one first
            games = self.agent.player.environment
            for part in (self._saver, self._tester, games, self._schedule, self._statistics):
                if part:
                    stack.callback(part.close)

    def get_state(self, games: bool = True) -> CheckpointState:
        """Return the state for a checkpoint, without the experience in the replay memory."""
        return {
            "phase": asdict(self.phase),
            "agent": self.agent.get_state(games),
            "schedule": self._schedule.get_state(),
            "tester": self._tester.get_state(games) if self._tester else None,
            "statistics": self._statistics.get_state(),
            "held_out": self._held_out,
        }

    def set_state(self, state: dict[str, Any], experience: Iterable[Experience]) -> None:
        """Restore what `get_state` returned, and fill the replay memory with `experience`."""
        self._schedule.set_state(state["schedule"])
        self.phase = Phase.of(state)
        self.agent.set_state(state["agent"], self._checked(experience))
        if self._tester and state["tester"]:
            self._tester.set_state(state["tester"])
        self._statistics.set_state(state["statistics"])
        self._held_out = state["held_out"]
        running, held = state["statistics"]["running"], self._held_out
        shape = state["agent"]["player"]["states"]["states"].shape
        fits = running is None or (running.shape == shape[:1] and running.dtype == np.float64)
        if not fits or (held is not None and (held.shape[1:] != shape[1:] or not len(held))):
            raise ValueError("its games or their screens are of another run")
        tally = {**state["statistics"]["tally"]}
        known = tally.pop("phase") in PHASES
        if not (known and all(one is None or isinstance(one, int | float | dict) for one in tally.values())):
            raise ValueError("its statistics are not those of a phase")

    def _checked(self, experience: Iterable[Experience]) -> Iterator[Experience]:
        """Yield the pieces of `experience`; raise ValueError if they are of other games."""
        games = self.agent.player.environment
        right = (games.screen_shape, observation_dtype(games.screen_shape))
        for piece in experience:
            played = (piece.actions >= CONTEXT) & (piece.actions < games.actions)
            if (piece.screens.shape[2:], piece.screens.dtype) != right or not played.all():
                raise ValueError("its experience is of other games")
            yield piece

    def _run(self) -> None:
        """Run the phases up to the last epoch or an interrupt.

        Raises:
            UserError: A loss or a weight is not finite, a file could not be written, or an environment
                failed. No file has values that are not finite.
        """
        if not self.phase.length(self.config) and self.phase.epoch <= self.config.epochs:
            self.phase = self.phase.next(self.config)
        try:
            while not self._is_over():
                for steps in self._loop():
                    if self._on_safe_point(steps):
                        break
                self._end_loop()
        except UserError as error:
            resume_hint = self._saver.resume_hint() if self._saver else ""
            raise type(error)(f"{error}{resume_hint}") from error
        if self._saver:
            self._saver.require_snapshots()

    def _loop(self) -> Iterator[int]:
        """Return the loop over the steps of the phase that are left."""
        phase, length = self.phase, self.phase.length(self.config)
        left = length - phase.done
        if phase.done:
            self._statistics.on_phase_resume(length)
        else:
            self._statistics.on_phase_start(phase.name, phase.epoch, length)
        self.agent.network.use_threads()  # a callback may have loaded an agent
        if phase.name == "random":
            logger.info("Populating replay memory with %d random moves", left)
            return self._schedule.fill(self.agent, left, exploration_rate=1.0)
        if phase.name == "train":
            logger.info("Epoch #%d", phase.epoch)
            logger.info(" Training for %d steps", max(0, left))
            return self._schedule.train(self.agent, left)
        logger.info(" Testing for %d steps", max(0, left))
        assert self._tester, "a test phase has steps"
        if not phase.done:
            self._tester.begin()
        return self._tester.play()

    def _on_safe_point(self, steps: int) -> bool:
        """Count `steps` steps, make a checkpoint if one is due, and return whether to end the loop."""
        phase, before = self.phase, self.phase.done
        phase.done += steps
        every = self._statistics.point_steps
        if phase.name == "train" and every and phase.done // every > before // every:
            qvalues = None if self._held_out is None else self.agent.network.predict(self._held_out)
            self._statistics.on_point(self.agent.total_train_steps, qvalues)
        self._statistics.on_safe_point(before, phase.done, **self._counts())
        self.agent.network.use_threads()
        if self._saver and not self._interrupt.requested:
            games = self._tester.games if self._tester and phase.name == "test" else 1
            # At the end of the phase a checkpoint follows anyway.
            if self._saver.is_due(before, phase.done, games) and not self._is_complete():
                self.agent.check()
                self._save_checkpoint()
        return self._interrupt.requested

    def _end_loop(self) -> None:
        """Make a checkpoint after the steps of the phase, all of them or those up to an interrupt."""
        self.agent.check()
        if self._is_complete():
            self._end_phase()
            self.phase = self.phase.next(self.config)
            self._save_checkpoint(wait=self._is_over())
            return
        # The resumed run goes on with this phase and replaces its row and its snapshot.
        state = deepcopy(self.get_state())
        if self.phase.done and self.phase.name != "random":
            self._end_phase(complete=False)
        self._save_checkpoint(wait=True, state=state)

    def _is_complete(self) -> bool:
        """Return whether all steps of the phase were made."""
        if self.phase.name == "test":
            return not self._tester or self._tester.board.complete
        return self.phase.done >= self.phase.length(self.config)

    def _save_checkpoint(self, wait: bool = False, state: CheckpointState | None = None) -> None:
        """Make a checkpoint, which is written while training continues; `Agent.check` comes first.

        If the previous one is still being written, `wait` waits for it; otherwise this one is postponed.
        `state` is what `get_state` returned a moment ago; None: the present state.
        """
        if self._saver:
            held = self.agent.memory.count // self.agent.games
            self._saver.save_checkpoint(state or self.get_state(), held, wait)
            self._restart_unsaved_games()

    def _restart_unsaved_games(self) -> None:
        """Start new games if a checkpoint cannot save them, so that the run continues like a resumed one."""
        if not self.agent.player.environment.can_save:
            self._start_games()
            if self._tester:
                self._tester.restart_games()

    def _start_games(self) -> None:
        self._schedule.start(self.agent)
        self._statistics.on_games_start()

    def _end_phase(self, complete: bool = True) -> None:
        """Write the phase's row and, after training, a snapshot; `complete`: all steps were made."""
        agent = self.agent
        if self._held_out is None and agent.memory.ready:
            self._held_out = agent.memory.sample_states(HELD_OUT_STATES)
        meanq = None  # the mean of max_a Q(s, a) (Mnih et al. 2013, section 5.1)
        if self._held_out is not None:
            meanq = float(np.mean(agent.network.predict(self._held_out).max(axis=1)))
        self._statistics.on_phase_end(complete, **self._counts(), meanq=meanq, more=self._schedule.report())
        if not self._saver or self.phase.name == "random":
            return
        saved = (self.phase.epoch, agent.total_train_steps, agent.network.get_weights(average=True))
        if self.phase.name == "train":
            self._statistics.on_file(self._saver.save_snapshot(*saved, complete))
        elif self._tester and complete:
            self._saver.save_best(self._tester.board.scores, *saved)

    def _counts(self) -> dict[str, int]:
        """Return the numbers of a row that the statistics do not count."""
        agent = self.agent
        return {
            "total_train_steps": agent.total_train_steps, "replay_memory_count": agent.memory.count,
            "weight_updates": agent.network.updates,
        }  # fmt: skip

    def _is_over(self) -> bool:
        return self.phase.epoch > self.config.epochs or self._interrupt.requested


def make_environment(
    config: Config, training: bool, watcher: Watcher | None = None, device: Any = None
) -> Environment:
    """Return `workers` games, each with a random stream of its own.

    In `training` a lost life ends an episode. The `watcher` receives each frame of the first game. `device`
    is that of `device_of_games`; without it, screens are NumPy arrays.
    """
    name = "environment" if training else "test environment"
    streams = [random_streams.stream(config.seed, name, i) for i in range(config.environment.workers)]
    return make(config.environment, streams, training, watcher, device)


def device_of_games(config: Config) -> Any:
    """Return PyTorch's device of the network if it is a GPU that plays the games, too; else None."""
    games = config.environment
    if games.emulator != "warp" or games.processes or games.workers < GPU_GAMES or config.cluster.on:
        return None
    from simple_dqn.device import choose_device

    device = choose_device(config.backend)
    return None if device.is_cpu else device.torch_device


def make_network(config: Config, environment: Environment) -> "DeepQNetwork":
    """Return a network that sees `environment`'s screens and chooses among its actions.

    If `config.run.load_weights` names a snapshot, its weights must be loaded next.
    """
    logger.info("Loading PyTorch")
    from simple_dqn.dqn import DeepQNetwork  # this takes seconds that --help can do without
    from simple_dqn.networks import NETWORKS

    # The learning thread leaves cores to the actor and the sampler.
    spare_cores = int(config.agent.schedule in ("concurrent", "overlapped"))
    return DeepQNetwork(
        environment.actions, config.memory.history_length, environment.screen_shape, config.network,
        config.backend, random_streams.stream(config.seed, "weights"),
        use_target_network=config.agent.target_steps > 0, spec=NETWORKS[config.network.network],
        spare_cores=config.cluster.actors if config.cluster.cluster == "local" else spare_cores,
        initialize=not config.run.load_weights,
    )  # fmt: skip


def make_player(config: Config, environment: Environment, network: "DeepQNetwork") -> Player:
    """Return a player of test games, which acts by the network's averaged weights if there are any."""
    rng = random_streams.stream(config.seed, "test exploration")
    predict = partial(network.predict, average=True)
    return Player(environment, predict, config.memory.history_length, rng, device=network.device)


def make_agent(
    config: Config, environment: Environment, network: "DeepQNetwork", statistics: Statistics,
    saver: Saver | None = None,
) -> Agent:  # fmt: skip
    """Return an agent that has seen nothing yet.

    Its replay memory stores the screens on the GPU of `network` if that has one with enough memory. Steps
    that are added also go to the experience log of `saver`.

    Raises:
        UserError: `--replay_device gpu` was given and no GPU has enough memory; or this machine has not.
    """
    settings, games, shape = config.memory, environment.games, environment.screen_shape
    rows, screens = settings.rows(games), None
    if settings.replay_device != "memory" and settings.replay_compression == "none":
        screens = network.device.make_screens(rows, games, shape)
    if settings.replay_device == "gpu" and screens is None:
        raise UserError(
            f"--replay_device gpu: there is no GPU with room for {rows * games} screens: "
            "leave out --replay_device, or use a GPU with more memory"
        )
    sampling = random_streams.stream(config.seed, "sampling")
    exploration = random_streams.stream(config.seed, "exploration")
    log = saver.log if saver else None
    memory = ReplayMemory(settings, games, shape, config.network.discount_rate, sampling, screens, log)
    predict = partial(network.predict, explore=True, target=config.agent.schedule == "concurrent")
    together = config.agent.synchronize is not False
    player = Player(environment, predict, settings.history_length, exploration, together, network.device)
    return Agent(player, memory, network, config.agent, config.network.batch_size, statistics)


def make_schedule(config: Config, environment: Environment, statistics: Statistics) -> SerialSchedule:
    """Return the schedule that the settings choose, or raise UserError if the cluster cannot be joined."""
    if not config.cluster.on:
        schedules: dict[str, type[SerialSchedule]] = {
            "serial": SerialSchedule, "concurrent": ConcurrentSchedule, "overlapped": OverlappedSchedule,
            "rollouts": RolloutSchedule,
        }  # fmt: skip
        return schedules[config.agent.schedule]()
    from simple_dqn.cluster.session import Session

    session = Session(config.cluster.cluster, config.cluster.actors)
    try:
        # After the session has set what Ray reads when it is imported, which takes seconds.
        from simple_dqn.cluster.learner import ActorPool, ClusterSchedule

        return ClusterSchedule(config, ActorPool(config, environment.rom_md5), session, statistics)
    except BaseException:
        session.close()
        raise


def make_statistics(
    config: Config, interrupt: Interrupt, resumed: str | None = None, writers: Sequence[Writer] = ()
) -> Statistics:
    """Return statistics with the writers that `config` asks for, and `writers`; see `make_run`."""
    own: list[Writer] = [Console(config.run.epochs, config.run.test_steps)]
    run = config.run
    if run.csv_file:
        path, again = Path(run.csv_file), resumed is not None
        own.append(CsvWriter(path, resumed, CLUSTER_COLUMNS if config.cluster.on else ()))
        if run.tensorboard:
            own.append(TensorboardWriter(path.with_suffix(""), again, run.tensorboard == "histograms"))
        if run.track != "none":
            own.append(TRACKERS[run.track](path.with_suffix(""), config.shared_flags(), again))
    own += writers
    for writer in own:
        if not isinstance(writer, Writer):
            raise UserError(f"--track {run.track}: its function returned {writer!r}: return a Writer")
        writer.interrupt = interrupt
    return Statistics(own)


def make_run(
    config: Config, interrupt: Interrupt, resumed: str | None = None, writers: Sequence[Writer] = ()
) -> Run:
    """Return a whole run that has not begun yet.

    Args:
        config: All settings.
        interrupt: What can end the run early.
        resumed: The beginning of the row after which the CSV goes on; None: it is a new one.
        writers: Receive the events of phases, beside those that `config` asks for.

    Raises:
        UserError: A setting cannot be met; nothing was written.
    """
    # Only one environment displays and records: the training one. With a cluster actors play, and the learner
    # only needs to know what the games are like. Without tests no second environment is opened.
    unseen = replace(config, environment=config.environment.unseen())
    device, test_environment = device_of_games(config), None
    with ExitStack() as opened:  # closed again if another part fails
        if config.run.test_steps or config.cluster.on:
            test_environment = opened.enter_context(make_environment(unseen, training=False, device=device))
        environment = test_environment if config.cluster.on else None
        if not environment:
            environment = opened.enter_context(make_environment(config, training=True, device=device))
        network = make_network(config, environment)
        # Float sums depend on the number of threads, too: a run that is resumed goes on with the same.
        # Paths are absolute: a callback may change the current folder, and a resume may start in another.
        paths = {name: getattr(config.run, name) for name in ("csv_file", "save_weights_prefix")}
        paths = {name: path and str(Path(path).absolute()) for name, path in paths.items()}
        config = config.with_flags({"threads": network.threads, "datatype": network.device.datatype, **paths})
        prefix, saver, tester = config.run.save_weights_prefix, None, None
        if prefix:
            if config.environment.environment == "gym":  # a faulty method fails now, not hours later
                environment.set_state(environment.get_state())
            name, actions, can_save = environment.name, environment.actions, environment.can_save
            saver = Saver(Path(prefix), name, actions, config, can_save=can_save)
        statistics = make_statistics(config, interrupt, resumed, writers)
        agent = make_agent(config, environment, network, statistics, saver)
        if test_environment:
            player, rate = make_player(config, test_environment, network), config.agent.exploration_rate_test
            tester = Tester(player, rate, statistics, games=0, steps=config.run.test_steps)
        schedule = make_schedule(config, environment, statistics)
        opened.pop_all()  # from now on `Run.close` does it
    return Run(agent, tester, statistics, saver, config, interrupt, schedule)
