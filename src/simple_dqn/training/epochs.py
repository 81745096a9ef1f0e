"""The phases of a run: random play once, then in each epoch training, a snapshot and a test."""

import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from simple_dqn.agent import Agent, DivergedError
from simple_dqn.config import Config, RunConfig
from simple_dqn.interrupt import Interrupt
from simple_dqn.player import Player, Tester
from simple_dqn.snapshot import Checkpoint, Keeper, Snapshot, copied
from simple_dqn.statistics import PhaseOutcome, Resumed, Statistics
from simple_dqn.training.serial import SerialSchedule
from simple_dqn.types import CheckpointState, Experience, States

logger = logging.getLogger(__name__)

HELD_OUT_STATES = 256  # states of which `meanq` is the mean of the highest Q-values


@dataclass
class Phase:
    """A number of steps of one kind."""

    name: str  # random, train or test
    epoch: int  # counted from 1; 0 for random play
    done: int = 0  # steps so far, over all games

    def length(self, config: RunConfig) -> int:
        """Return the number of its steps, over all games."""
        return int(getattr(config, f"{self.name}_steps"))

    def next(self, config: RunConfig) -> "Phase":
        """Return the phase that follows."""
        if self.name == "train":
            return Phase("test", self.epoch)
        return Phase("train", max(self.epoch, config.start_epoch) + 1)

    @property
    def trained(self) -> int:
        """The number of complete epochs of training."""
        return self.epoch if self.name == "test" else max(0, self.epoch - 1)

    @property
    def before(self) -> Resumed:
        """The phase before it, after whose row the CSV is continued."""
        epoch, name = (self.epoch, "train") if self.name == "test" else (self.epoch - 1, "test")
        return Resumed(epoch, name, stopped=self.done > 0)


class Epochs:
    """A run from its first phase to its last; `phase` is the current one."""

    def __init__(
        self,
        agent: Agent,
        tester: Player,
        statistics: Statistics,
        keeper: Keeper | None,
        config: Config,
        interrupt: Interrupt,
        schedule: SerialSchedule | None = None,
    ) -> None:
        """Set up a run that has not begun; the default `schedule` is the serial one."""
        self.agent = agent
        self.phase = Phase("random", 0)
        agent.count_from(config.run.start_epoch * config.run.train_steps)
        self._tester = Tester(tester, config.agent.exploration_rate_test, config.run.test_steps)
        self._statistics = statistics
        self._keeper = keeper
        self._config = config.run
        self._interrupt = interrupt
        self._schedule = schedule or SerialSchedule()
        self._held_out: States | None = None  # uint8 [HELD_OUT_STATES, S, H, W]

    def begin(self, resumed: Snapshot | None = None) -> None:
        """Fill the replay memory, then train and test up to the last epoch or an interrupt.

        Args:
            resumed: The snapshot to go on from; the memory is filled by the agent's policy, not at random.
        """
        if self._keeper:
            self._keeper.begin(resumed)
        self._start_games()
        if resumed:
            steps = self._config.random_steps
            logger.info("Refilling replay memory with %d steps of the agent's own play", steps)
            self._schedule.fill(self.agent, steps, None, self._stopped)
            self.phase = self.phase.next(self._config)
        self._run()

    def resume(self, checkpoint: Checkpoint) -> None:
        """Resume from a checkpoint, and train and test up to the last epoch or an interrupt."""
        if self._keeper:
            self._keeper.resume(checkpoint)
        self.set_state(checkpoint.run, checkpoint.experience())
        self._restart_unsaved_games()
        self._run()

    def close(self) -> None:
        """Log the speed profiler, finish writing checkpoints, and close files and games."""
        for line in self.agent.profiler.lines():
            logger.info(line)
        train = self.agent.profiler.phases["train"]
        if train.steps:
            updates = self.agent.config.updates_in(train.steps)
            logger.info(self.agent.network.share_of_peak(updates, train.wall))
        self._statistics.close()
        self._schedule.close()
        self.agent.player.environment.close()
        self._tester.close()
        if self._keeper:
            self._keeper.close()

    def get_state(self) -> CheckpointState:
        """Return the state for a checkpoint, without the experience in the replay memory."""
        return {
            "phase": asdict(self.phase),
            "agent": self.agent.get_state(),
            "tester": self._tester.get_state(),
            "statistics": self._statistics.get_state(),
            "held_out": self._held_out,
        }

    def set_state(self, state: dict[str, Any], experience: Iterable[Experience]) -> None:
        """Restore what `get_state` returned, and fill the replay memory with `experience`."""
        self.phase = Phase(**state["phase"])
        self.agent.set_state(state["agent"], experience)
        self._tester.set_state(state["tester"])
        if self.phase.name == "test" and "board" not in state["tester"]:
            self.phase.done = 0  # a checkpoint of version 1.0.0, without the scores of the test
        self._statistics.set_state(state["statistics"])
        self._held_out = state["held_out"]

    def _run(self) -> None:
        """Run the phases up to the last epoch or an interrupt.

        Raises:
            DivergedError: A loss or a weight is not finite; no file has such values.
            UserError: A snapshot could not be written.
        """
        self._skip_empty_phases()
        try:
            while not self._is_over():
                self._run_phase(self.phase)
        except DivergedError as error:
            back = f", and go on from before with ./resume.sh {self._keeper.folder}" if self._keeper else ""
            raise DivergedError(f"{error}: lower --learning_rate{back}") from None
        if self._keeper:
            self._keeper.require_snapshots()

    def _skip_empty_phases(self) -> None:
        while not self.phase.length(self._config) and self.phase.epoch <= self._config.epochs:
            self.phase = self.phase.next(self._config)

    def _run_phase(self, phase: Phase) -> None:
        """Make the steps of `phase` that are left, and a checkpoint after them."""
        length = phase.length(self._config)
        if phase.done:
            self._statistics.on_phase_resume(length)
        else:
            self._statistics.on_phase_start(phase.name, phase.epoch, length)
        with self.agent.profiler.phase(phase.name):
            PHASES[phase.name](self, length - phase.done)
        self.agent.check()
        if self._is_complete(phase):
            self._end_phase()
            self.phase = phase.next(self._config)
            self._skip_empty_phases()
            self._save_checkpoint(wait=self._is_over())
            return
        # The resumed run goes on with this phase and replaces its row and its snapshot.
        state = copied(self.get_state())
        if phase.done and phase.name != "random":
            self._end_phase(complete=False)
        self._save_checkpoint(wait=True, state=state)

    def _is_complete(self, phase: Phase) -> bool:
        """Return whether all steps of `phase` were made."""
        if phase.name == "test":
            return self._tester.complete
        return phase.done >= phase.length(self._config)

    def _play_random(self, steps: int) -> None:
        logger.info("Populating replay memory with %d random moves", steps)
        self._schedule.fill(self.agent, steps, 1.0, self._stopped, self._at_rest)

    def _train(self, steps: int) -> None:
        logger.info("Epoch #%d", self.phase.epoch)
        logger.info(" Training for %d steps", steps)
        self._schedule.train(self.agent, steps, self._stopped, self._at_rest)

    def _test(self, steps: int) -> None:
        logger.info(" Testing for %d steps", max(0, steps))
        tester = self._tester
        if not self.phase.done:
            tester.begin()
        while not (tester.complete or self._stopped()):
            self._statistics.on_steps(tester.games, tester.step(), tester.exploration_rate)
            self._at_rest(tester.games)

    def _at_rest(self, steps: int) -> None:
        """Count `steps` steps of the phase, and make a checkpoint if one is due."""
        before = self.phase.done
        self.phase.done += steps
        if self.phase.name == "train" and self._statistics.point_due(before, self.phase.done):
            qvalues = None if self._held_out is None else self.agent.network.predict(self._held_out)
            self._statistics.on_point(self.agent.total_train_steps, qvalues)
        if self._keeper is None or self._stopped() or self._is_complete(self.phase):
            return  # A checkpoint follows at the end of the phase.
        games = self._tester.games if self.phase.name == "test" else 1
        if self._keeper.is_due(before, self.phase.done, games):
            self.agent.check()
            self._save_checkpoint()

    def _save_checkpoint(self, wait: bool = False, state: CheckpointState | None = None) -> None:
        """Make a checkpoint, which is written while training continues; `Agent.check` comes first.

        Args:
            wait: Wait until the checkpoint before it is written, rather than leave this one out.
            state: What `get_state` returned a moment ago; None: the present state.
        """
        if self._keeper:
            held = self.agent.memory.count // self.agent.games
            self._keeper.save_checkpoint(state or self.get_state(), held, wait)
            self._restart_unsaved_games()

    def _restart_unsaved_games(self) -> None:
        """Start new games if a checkpoint cannot save them, so that the run continues like a resumed one."""
        if not self.agent.player.environment.can_save:
            self._start_games()
            self._tester.restart_games()

    def _start_games(self) -> None:
        self._schedule.start(self.agent)
        self._statistics.on_games_start()

    def _end_phase(self, complete: bool = True) -> None:
        """Write the row of the phase and, after training, a snapshot; `complete`: all its steps were made."""
        agent = self.agent
        if self._held_out is None and agent.memory.ready:
            self._held_out = agent.memory.sample_states(HELD_OUT_STATES)
        meanq = None if self._held_out is None else agent.mean_q(self._held_out)
        count, updates, more = agent.memory.count, agent.network.updates, self._schedule.report()
        self._statistics.on_phase_end(PhaseOutcome(agent.total_train_steps, count, meanq, updates, more))
        if self.phase.name == "train" and self._keeper:
            steps, weights = agent.total_train_steps, agent.network.get_weights(average=True)
            self._statistics.on_file(self._keeper.save_snapshot(self.phase.epoch, steps, weights, complete))

    def _is_over(self) -> bool:
        return self.phase.epoch > self._config.epochs or self._stopped()

    def _stopped(self) -> bool:
        return self._interrupt.requested


# How the steps of each kind of phase are made.
PHASES = {"random": Epochs._play_random, "train": Epochs._train, "test": Epochs._test}
