"""The overlapped schedule: the games play on while the network learns, at most one round of all games behind.

A round is one step of all E games. Two threads share each round:

- the player executes the round's actions, stores the step, and samples the minibatches of the updates that
  are now due, with their targets;
- the trainer makes the updates that were due one round before.

Both wait for each other at the end of a round. Then the memory receives the TD errors, the target network is
copied if that is due, and the actions of the next round are chosen by the newest weights. So actions, targets
and priorities lag one round of updates behind those of the serial schedule. No thread writes what the other
reads: the result is the same whether they overlap or not, bit for bit. Every `REST` steps the last updates
are made before the games go on, so that a checkpoint has no minibatch in flight.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

from simple_dqn.agent import Agent
from simple_dqn.machine import usable_cores
from simple_dqn.player import Choice
from simple_dqn.training.serial import AtRest, SerialSchedule, Stopped

if TYPE_CHECKING:
    from simple_dqn.deepqnetwork import PreparedBatch

REST = 256  # steps over all games from one rest to the next

Batches: TypeAlias = "list[PreparedBatch]"
Submit: TypeAlias = "Callable[[Callable[[Agent, Choice], Batches], Agent, Choice], Future[Batches]]"


class OverlappedSchedule(SerialSchedule):
    """Plays and learns at the same time, in two threads; fills the memory as `SerialSchedule` does."""

    def train(self, agent: Agent, steps: int, stopped: Stopped, at_rest: AtRest = lambda _: None) -> None:
        """Train for `steps` steps, in whole rounds; on one core, without a second thread.

        Every `REST` steps `at_rest` is called and `stopped` is checked.
        """
        with ThreadPoolExecutor(1, "player", agent.network.use_one_thread) as player:
            submit: Submit = player.submit if usable_cores() > 1 else in_turn
            rounds, per_rest = -(-steps // agent.games), max(1, REST // agent.games)
            for done in range(0, rounds, per_rest):
                if stopped():
                    return
                some = min(per_rest, rounds - done)
                play_rounds(agent, some, submit)
                at_rest(some * agent.games)


def play_rounds(agent: Agent, rounds: int, submit: Submit) -> None:
    """Make `rounds` rounds with all their updates."""
    batches: Batches = []
    for _ in range(rounds):
        playing = submit(play_and_prepare, agent, agent.choose())
        try:
            learn(agent, batches)
        finally:
            with agent.profiler.section("wait"):
                batches = playing.result()
        agent.update_priorities()
        agent.update_target_network_if_due(agent.games)
    learn(agent, batches)
    agent.update_priorities()


def play_and_prepare(agent: Agent, choice: Choice) -> Batches:
    """Execute and store the actions of one round, and return the minibatches that are due after it."""
    agent.store(agent.execute(choice))
    due = agent.due(agent.config.train_frequency, agent.games) * agent.config.train_repeat
    return [agent.prepare(agent.total_train_steps) for _ in range(due)]


def learn(agent: Agent, batches: Batches) -> None:
    """Update the network from each of `batches`."""
    for batch in batches:
        agent.update(batch)


def in_turn(work: Callable[[Agent, Choice], Batches], agent: Agent, choice: Choice) -> "Future[Batches]":
    """Do `work` now, in the calling thread."""
    done: Future[Batches] = Future()
    done.set_result(work(agent, choice))
    return done
