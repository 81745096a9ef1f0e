"""Where a run stands: in which phase, and how far into it."""

from dataclasses import dataclass

from simple_dqn.config import RunConfig


@dataclass
class Phase:
    """A stretch of steps of one kind: random play once, then training and test in turn."""

    name: str  # random, train or test
    epoch: int  # counted from 1; 0 for random play
    done: int = 0  # steps so far, over all games

    def length(self, config: RunConfig) -> int:
        """Return how many steps it has, over all games."""
        lengths = {"random": config.random_steps, "train": config.train_steps, "test": config.test_steps}
        return lengths[self.name]

    def next(self, config: RunConfig) -> "Phase":
        """Return the phase that follows."""
        if self.name == "train":
            return Phase("test", self.epoch)
        return Phase("train", max(self.epoch, config.start_epoch) + 1)

    @property
    def trained(self) -> int:
        """Epochs of training that are complete."""
        return self.epoch if self.name == "test" else max(0, self.epoch - 1)

    @property
    def before(self) -> tuple[int, str]:
        """The epoch and the name of the phase before it, which is the last with a row in the CSV."""
        return (self.epoch, "train") if self.name == "test" else (self.epoch - 1, "test")
