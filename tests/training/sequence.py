"""The work of `ConcurrentSchedule` in one thread: first the updates of a period, or first its steps."""

from collections.abc import Iterator

from simple_dqn.agent import Agent
from simple_dqn.schedules import play_period


def train_in_sequence(agent: Agent, steps: int, play_first: bool = False) -> Iterator[int]:
    for _ in range(0, steps, agent.config.target_steps):
        agent.network.update_target_network()
        steps_before = agent.total_train_steps
        played = play_period(agent, lambda: False) if play_first else []
        for _ in range(agent.config.updates_in(agent.config.target_steps)):
            agent.learn_from(agent.prepare(steps_before))
        played = played or play_period(agent, lambda: False)
        agent.update_priorities()
        for step in played:
            agent.memory.add(step)
        yield agent.config.target_steps
