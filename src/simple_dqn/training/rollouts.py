"""The schedule of PQN: play a rollout, learn from it, forget it (Gallici et al. 2024, Algorithm 1)."""

from simple_dqn.agent import Agent
from simple_dqn.training.serial import AtRest, SerialSchedule, Stopped


class RolloutSchedule(SerialSchedule):
    """Plays `steps` steps of each game, then makes the updates that are due for them from these steps alone.

    There is no replay memory and no target network: the targets are λ-returns, by the weights that played the
    rollout. With E games and minibatches of B, each step is learned from B / `train_frequency` times.
    """

    def __init__(self, steps: int) -> None:
        """Set up rollouts of T = `steps`."""
        self._steps = steps

    def train(self, agent: Agent, steps: int, stopped: Stopped, at_rest: AtRest = lambda _: None) -> None:
        """Train for `steps` steps, in whole rollouts; `stopped` is checked before each of them."""
        for _ in range(0, steps, self._steps * agent.games):
            if stopped():
                return
            agent.play_rollout(self._steps)
            agent.learn_due(self._steps * agent.games)
            at_rest(self._steps * agent.games)
