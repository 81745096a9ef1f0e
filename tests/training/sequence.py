"""The work of `ConcurrentSchedule` in one thread."""

from collections.abc import Callable

from simple_dqn.agent import Agent
from simple_dqn.training.concurrent import act, store, updates_due


def train_in_sequence(
    agent: Agent, steps: int, stopped: Callable[[], bool], at_rest: Callable[[int], None] = lambda _: None
) -> None:
    """Train in one thread: learn, then act."""
    for _ in range(0, steps, agent.config.target_steps):
        agent.network.update_target_network()
        steps_before = agent.total_train_steps
        for _ in range(updates_due(agent)):
            if not stopped():
                agent.update(agent.prepare(steps_before))
        store(agent, act(agent, stopped))
        at_rest(agent.config.target_steps)
