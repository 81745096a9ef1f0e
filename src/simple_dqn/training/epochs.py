"""simple_dqn's main loop: random play once, then epochs of training, a snapshot, and a test."""

import logging
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from simple_dqn.agent import Agent, DivergedError
from simple_dqn.config import Config
from simple_dqn.demonstrations import Demonstrations
from simple_dqn.interrupt import Interrupt
from simple_dqn.player import Player
from simple_dqn.snapshot import Keeper, Saved, Snapshot
from simple_dqn.statistics import PhaseOutcome, Statistics
from simple_dqn.training.phase import Phase
from simple_dqn.training.schedule import OneMachine, Schedule
from simple_dqn.training.tester import Tester
from simple_dqn.types import CheckpointState, Experience, States

logger = logging.getLogger(__name__)

HELD_OUT_STATES = 256  # states whose highest Q-value is followed through the run, as `meanq`


class Epochs:
    """A whole run: where it stands, and how it goes on from there."""

    def __init__(
        self,
        agent: Agent,
        tester: Player,
        statistics: Statistics,
        keeper: Keeper | None,
        config: Config,
        interrupt: Interrupt,
        schedule: Schedule | None = None,
    ) -> None:
        """Get ready; `schedule` is that of one machine unless another is given."""
        self.agent = agent
        self.phase = Phase("random", 0)
        agent.count_from(config.run.start_epoch * config.run.train_steps)
        self._tester = Tester(tester, config.agent.exploration_rate_test, config.run.test_steps)
        self._statistics = statistics
        self._keeper = keeper
        self._config = config.run
        self._interrupt = interrupt
        self._schedule = schedule or OneMachine()
        self._held_out: States | None = None  # uint8 [HELD_OUT_STATES, S, H, W]

    def begin(self, shown: Demonstrations | None = None, resumed: Snapshot | None = None) -> None:
        """Fill the memory, then train and test up to the last epoch, or until interrupted.

        Args:
            shown: What the memory starts with, and keeps.
            resumed: What the agent goes on from: the memory is filled by its own play, not by random moves.
        """
        if self._keeper:
            self._keeper.begin(resumed)
        if shown:
            shown.fill(self.agent.memory, self.agent.games)
            if self._keeper:
                self._keeper.keep_experience()
        self._start_games()
        if resumed:
            self._refill()
            self.phase = self.phase.next(self._config)
        self._run()

    def go_on(self, saved: Saved) -> None:
        """Take up the run that was saved, and train and test up to the last epoch."""
        if self._keeper:
            self._keeper.take_up(saved)
        self.set_state(saved.run, saved.experience())
        self._start_anew_what_cannot_be_saved()
        self._run()

    def close(self) -> None:
        """Log the speed ledger, wait for what is being written, and close the files and the games."""
        for line in self.agent.ledger.lines():
            logger.info(line)
        self._statistics.close()
        self._schedule.close()
        self.agent.player.environment.close()
        self._tester.close()
        if self._keeper:
            self._keeper.close()

    def get_state(self) -> CheckpointState:
        """Return all that is needed to go on from where all stands still, but for the experience."""
        return {
            "phase": asdict(self.phase),
            "agent": self.agent.get_state(),
            "tester": self._tester.get_state(),
            "statistics": self._statistics.get_state(),
            "held_out": self._held_out,
        }

    def set_state(self, state: dict[str, Any], experience: Iterable[Experience]) -> None:
        """Go on from what `get_state` returned, and remember `experience`."""
        self.phase = Phase(**state["phase"])
        self.agent.set_state(state["agent"], experience)
        self._tester.set_state(state["tester"])
        if self.phase.name == "test" and "board" not in state["tester"]:
            self.phase.done = 0  # a checkpoint of version 1.0.0, without the scores of the test
        self._statistics.set_state(state["statistics"])
        self._held_out = state["held_out"]

    def _run(self) -> None:
        """Carry out phase after phase up to the last epoch, or until interrupted.

        Raises:
            DivergedError: The network has diverged; nothing of that was written.
            UserError: A snapshot could not be written to the end.
        """
        self._skip_empty_phases()
        try:
            while not self._over():
                self._carry_out(self.phase)
                if self._counts(self.phase):
                    self.phase = self.phase.next(self._config)
                    self._skip_empty_phases()
                self._keep_run(wait=self._over())
        except DivergedError as error:
            back = f", and go on from before with ./resume.sh {self._keeper.folder}" if self._keeper else ""
            raise DivergedError(f"{error}: lower --learning_rate{back}") from None
        if self._keeper:
            self._keeper.require_snapshots()

    def _skip_empty_phases(self) -> None:
        while not self.phase.length(self._config) and self.phase.epoch <= self._config.epochs:
            self.phase = self.phase.next(self._config)

    def _carry_out(self, phase: Phase) -> None:
        """Make the steps of `phase`, or what is left of them."""
        length = phase.length(self._config)
        if phase.done:
            self._statistics.on_phase_resume(length)
        else:
            self._statistics.on_phase_start(phase.name, phase.epoch, length)
        with self.agent.ledger.phase(phase.name):
            PHASES[phase.name](self, length - phase.done)
        if self._counts(phase):
            self._end_phase()
        if phase.name == "train" and self._keeper:
            steps, weights = self.agent.total_train_steps, self.agent.network.get_weights()
            self._keeper.keep_weights(phase.epoch, steps, weights)

    def _counts(self, phase: Phase) -> bool:
        """Return whether `phase` is over: an epoch is when it is interrupted, random play is gone on with."""
        return phase.name != "random" or phase.done >= phase.length(self._config)

    def _play_random(self, steps: int) -> None:
        logger.info("Populating replay memory with %d random moves", steps)
        self._schedule.fill(self.agent, steps, 1.0, self._stopped, self._at_rest)

    def _refill(self) -> None:
        steps = self._config.random_steps
        logger.info("Refilling replay memory with %d steps of the agent's own play", steps)
        self._schedule.fill(self.agent, steps, None, self._stopped)

    def _train(self, steps: int) -> None:
        logger.info("Epoch #%d", self.phase.epoch)
        logger.info(" Training for %d steps", steps)
        self._schedule.train(self.agent, steps, self._stopped, self._at_rest)
        self.agent.check()

    def _test(self, steps: int) -> None:
        logger.info(" Testing for %d steps", max(0, steps))
        tester = self._tester
        if not self.phase.done:
            tester.begin()
        while not (tester.complete or self._stopped()):
            self._statistics.on_chunk(tester.games, tester.step(), tester.exploration_rate)
            self._at_rest(tester.games)

    def _at_rest(self, steps: int) -> None:
        """Make a checkpoint if it is time for one; `steps` steps were made, and all stands still."""
        before = self.phase.done
        self.phase.done += steps
        testing = self.phase.name == "test"
        over = self._tester.complete if testing else self.phase.done >= self.phase.length(self._config)
        if self._keeper is None or self._stopped() or over:
            return  # The phase's end is near, and has a checkpoint of its own.
        if self._can_save:
            due = self._keeper.due
        elif testing and self._tester.games > 1:
            return  # Games would begin anew in every place: a test that drops so many favours short ones.
        else:
            # By the clock no run would be like another, as the games begin anew.
            every = self._config.checkpoint_steps
            due = every > 0 and self.phase.done // every > before // every
        if due:
            self._keep_run()

    def _keep_run(self, wait: bool = False) -> None:
        """Make a checkpoint; it is written while training goes on.

        Args:
            wait: Wait for the disk if it is still busy with the one before.
        """
        if self._keeper is None:
            return
        self.agent.check()
        held = self.agent.memory.count // self.agent.games
        self._keeper.keep_run(self.get_state(), held, wait or not self._can_save)
        self._start_anew_what_cannot_be_saved()

    @property
    def _can_save(self) -> bool:
        return self.agent.player.environment.can_save

    def _start_anew_what_cannot_be_saved(self) -> None:
        """Start new games where a saved state has none, so that the run goes on as a resumed one would."""
        if not self._can_save:
            self._start_games()
            self._tester.restart_games()

    def _start_games(self) -> None:
        self._schedule.start(self.agent)
        self._statistics.on_games_start()

    def _end_phase(self) -> None:
        agent = self.agent
        if self._held_out is None and agent.memory.ready:
            self._held_out = agent.memory.sample_states(HELD_OUT_STATES)
        held_out = self._held_out
        # The mean over these states of the highest Q-value: Mnih et al. (2013), section 5.1.
        meanq = None if held_out is None else float(np.mean(agent.network.predict(held_out).max(axis=1)))
        self._statistics.on_phase_end(
            PhaseOutcome(
                total_train_steps=agent.total_train_steps,
                replay_memory_count=agent.memory.count,
                meanq=meanq,
                weight_updates=agent.network.updates,
                more=self._schedule.report(),
            )
        )

    def _over(self) -> bool:
        return self.phase.epoch > self._config.epochs or self._stopped()

    def _stopped(self) -> bool:
        return self._interrupt.requested


# How the steps of each kind of phase are made.
PHASES = {"random": Epochs._play_random, "train": Epochs._train, "test": Epochs._test}
