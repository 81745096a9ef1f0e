"""Who plays on other machines."""

from dataclasses import dataclass

from simple_dqn.config.option import option


@dataclass(frozen=True)
class ClusterConfig:
    """Whether actors on a cluster play, and how they and the learner keep each other in step.

    All are about these machines, and stay out of files that are shared.
    """

    cluster: str = option(
        "none", "where actors play: local, processes of this machine; auto, the Ray cluster that this "
        "machine belongs to; or the ADDRESS of its head, as 10.0.0.1:6379", local=True,
    )  # fmt: skip
    actors: int = option(
        1, "actors, each a process with --workers games of its own", minimum=1, maximum=100_000, local=True
    )
    chunk_steps: int = option(
        50, "steps of each of its games that an actor plays by the same weights, and sends together",
        minimum=1, maximum=100_000, local=True,
    )  # fmt: skip
    weights_every: int = option(
        100, "updates from one version of the weights that actors play by to the next", minimum=1, local=True
    )

    @property
    def on(self) -> bool:
        """Whether actors play."""
        return self.cluster != "none"
