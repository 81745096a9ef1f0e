"""How the agent behaves."""

from dataclasses import dataclass

from simple_dqn.config.option import option


@dataclass(frozen=True)
class AgentConfig:
    """How the agent explores, and how often it learns."""

    exploration_rate_start: float = option(1.0, "share of random actions at first", minimum=0, maximum=1)
    exploration_rate_end: float = option(0.1, "share of random actions at last", minimum=0, maximum=1)
    exploration_decay_steps: int = option(1_000_000, "steps from the first to the last share", minimum=0)
    exploration_spread: float = option(
        0.0, "how unlike each other games explore in training: game i of N by ε ** (1 + SPREAD i / (N - 1)); "
        "0: all alike; with --cluster 0.4 is ε, from first to last, and 7 the spread", minimum=0, maximum=100,
    )  # fmt: skip
    slip_probability: float = option(
        0.0, "probability that a training game does a random action in place of the one that is remembered, "
        "so that the network learns to be safe from random moves", minimum=0, maximum=1,
    )  # fmt: skip
    exploration_rate_test: float = option(0.05, "share of random actions in tests", minimum=0, maximum=1)
    train_frequency: int = option(4, "steps between trainings", minimum=1)
    train_repeat: int = option(1, "updates in each training", minimum=1)
    target_steps: int = option(10_000, "steps between copies to the target network; 0: no such", minimum=0)
    concurrent: bool = option(False, "play by the target network while the online network learns")
    synchronize: bool | None = option(
        None, "predict for all workers at once, not one by one; without the flag, where there are several"
    )
