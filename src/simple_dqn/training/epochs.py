"""simple_dqn's main loop: random play once, then epochs of training, a snapshot, and a test."""

import logging
from typing import Any

import numpy as np

from simple_dqn.agent import Agent, Player
from simple_dqn.config import Config
from simple_dqn.interrupt import Interrupt
from simple_dqn.snapshot import Keeper
from simple_dqn.statistics import PhaseOutcome, Statistics
from simple_dqn.training import concurrent, serial
from simple_dqn.types import State, States

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
    ) -> None:
        self.agent = agent
        self.trained = self.tested = config.run.start_epoch  # epochs so far
        agent.total_train_steps = config.run.start_epoch * config.run.train_steps
        self._tester = tester
        self._exploration_rate_test = config.agent.exploration_rate_test
        self._statistics = statistics
        self._keeper = keeper
        self._config = config.run
        self._interrupt = interrupt
        self._held_out: States | None = None  # uint8 [HELD_OUT_STATES, S, H, W]
        self._agent_state = State()  # of the agent, when it was last written down

    def begin(self, random_play: bool = True) -> None:
        """Fill the memory, then train and test up to the last epoch, or until interrupted.

        Args:
            random_play: Fill it by random moves, as phase "random"; else by the agent's own policy.
        """
        self._start_games()
        if random_play:
            self._play_random()
        else:
            self._refill()
        self._run()

    def go_on(self, state: dict[str, Any], memory: dict[str, Any] | None) -> None:
        """Take up a run that was saved, and train and test up to the last epoch.

        Args:
            state: What `get_state` returned.
            memory: What the replay memory's `get_state` returned; None: it was lost.
        """
        self.set_state(state)
        if memory is None:
            self._start_games()
            self._refill()
        else:
            self.agent.memory.set_state(memory)
            self._start_anew_what_cannot_be_saved()
        self._run()

    def _run(self) -> None:
        """Train and test up to the last epoch, or until interrupted."""
        if self.tested < self.trained:
            self._test()
        while self.trained < self._config.epochs and not self._stopped():
            logger.info("Epoch #%d", self.trained + 1)
            self._train()
            if not self._stopped():
                self._test()

    def close(self) -> None:
        """Log the speed ledger, and close the statistics' files and the games."""
        for line in self.agent.ledger.lines():
            logger.info(line)
        self._statistics.close()
        self.agent.player.environment.close()
        self._tester.environment.close()

    def get_state(self) -> State:
        """Return all that is needed to go on after the last training, but for the replay memory."""
        return {
            "agent": self._agent_state,
            "tester": self._tester.get_state(),
            "statistics": self._statistics.get_state(),
            "trained": self.trained,
            "tested": self.tested,
            "held_out": self._held_out,
            "total_train_steps": self.agent.total_train_steps,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` returned."""
        self._agent_state = state["agent"]
        self.agent.set_state(self._agent_state)
        self._tester.set_state(state["tester"])
        self._statistics.set_state(state["statistics"])
        self.trained, self.tested = int(state["trained"]), int(state["tested"])
        self._held_out = state["held_out"]

    def _play_random(self) -> None:
        steps = self._config.random_steps
        if not steps:
            return
        logger.info("Populating replay memory with %d random moves", steps)
        self._statistics.on_phase_start("random", 0, steps)
        with self.agent.ledger.phase("random"):
            serial.fill(self.agent, steps, 1.0, self._stopped)
        self._end_phase()

    def _refill(self) -> None:
        steps = self._config.random_steps
        logger.info("Refilling replay memory with %d steps of the agent's own play", steps)
        serial.fill(self.agent, steps, None, self._stopped)

    def _train(self) -> None:
        steps = self._config.train_steps
        if steps:
            logger.info(" Training for %d steps", steps)
            self._statistics.on_phase_start("train", self.trained + 1, steps)
            schedule = concurrent if self.agent.config.concurrent else serial
            try:
                with self.agent.ledger.phase("train"):
                    schedule.train(self.agent, steps, self._stopped)
            except Exception:
                self._keep_weights(self.trained + 1)  # The last of a run that comes to grief.
                raise
            self._end_phase()
        self.trained += 1
        if steps and self._keeper:
            self._keep_weights(self.trained)
            self._agent_state = self.agent.get_state()
            self._keeper.keep_run(self.get_state(), self.agent.memory.get_state())
            self._start_anew_what_cannot_be_saved()

    def _test(self) -> None:
        steps = self._config.test_steps
        if steps:
            logger.info(" Testing for %d steps", steps)
            self._statistics.on_phase_start("test", self.trained, steps)
            with self.agent.ledger.phase("test"):
                self._play_test_games(steps)
            self._end_phase()
        self.tested = self.trained
        if steps and self._keeper:
            self._keeper.keep_run(self.get_state(), memory=None)

    def _play_test_games(self, steps: int) -> None:
        self._tester.start()
        for _ in range(0, steps, self._tester.environment.games):
            if self._stopped():
                return
            step = self._tester.step(self._exploration_rate_test)
            self._statistics.on_step(step, self._exploration_rate_test)

    def _keep_weights(self, epoch: int) -> None:
        if self._keeper:
            steps, weights = self.agent.total_train_steps, self.agent.network.get_weights()
            self._keeper.keep_weights(epoch, steps, weights)

    def _start_anew_what_cannot_be_saved(self) -> None:
        """Start new games where a saved state has none, so that the run goes on as a resumed one would."""
        if not self.agent.player.environment.can_save:
            self._start_games()

    def _start_games(self) -> None:
        self.agent.start()
        self._statistics.on_games_start()

    def _end_phase(self) -> None:
        agent = self.agent
        agent.tell_losses()
        if self._held_out is None and agent.memory.ready:
            self._held_out = agent.memory.sample_states(HELD_OUT_STATES)
        self._statistics.on_phase_end(
            PhaseOutcome(
                total_train_steps=agent.total_train_steps,
                replay_memory_count=agent.memory.count,
                meanq=self._mean_q(),
                weight_updates=agent.network.updates,
            )
        )

    def _mean_q(self) -> float | None:
        """Return the mean over the held-out states of the highest Q-value (Mnih et al., 2013, 5.1)."""
        if self._held_out is None:
            return None
        return float(np.mean(self.agent.network.predict(self._held_out).max(axis=1)))

    def _stopped(self) -> bool:
        return self._interrupt.requested
