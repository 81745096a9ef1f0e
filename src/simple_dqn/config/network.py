"""How the network is made, and how it learns."""

from dataclasses import dataclass

from simple_dqn.config.option import option


@dataclass(frozen=True)
class NetworkConfig:
    """How the network is made, and how it learns."""

    learning_rate: float = option(0.00025, "step size of the optimizer", above=0)
    learning_rate_end: float = option(
        0.00005, "what it falls to, linearly, over learning_rate_decay_updates", above=0
    )
    learning_rate_decay_updates: int = option(
        0, "updates over which the step size falls; 0: it stays as it is", minimum=0
    )
    discount_rate: float = option(0.99, "what a reward one step later is worth", minimum=0, maximum=1)
    batch_size: int = option(32, "experiences in one update", minimum=1)
    optimizer: str = option("rmsprop", "the rule of the update", choices=("rmsprop", "adam", "adadelta"))
    decay_rate: float = option(
        0.95, "decay of the running mean in RMSProp and Adadelta", minimum=0, maximum=1
    )
    adam_epsilon: float = option(
        1.5e-4, "added to the root in Adam: where gradients are smaller, steps shrink with them", above=0
    )
    loss: str = option(
        "huber", "what grows with the error: its square, or linearly beyond clip_error",
        choices=("huber", "mse"),
    )  # fmt: skip
    clip_error: float = option(1.0, "temporal-difference errors are clipped to ± this; 0: not", minimum=0)
    min_reward: float = option(-1.0, "rewards below count as this, in game points", endless=True)
    max_reward: float = option(1.0, "rewards above count as this, in game points", endless=True)
    network: str = option(
        "nature", "its layers; neon: without biases, as simple_dqn had it",
        choices=("nature", "neon", "small", "impala"),
    )  # fmt: skip
    batch_norm: bool = option(False, "normalise each hidden layer over the batch")
    layer_norm: bool = option(False, "normalise each hidden layer over its units, state by state")
    dueling: bool = option(False, "add up the value of a state and the advantage of each action")
    double: bool = option(False, "the online network chooses the action that the target network values")
    munchausen: bool = option(
        False, "reward an action by how likely the network was to take it, and keep its policy soft"
    )
    munchausen_alpha: float = option(0.9, "how much of that is added to the reward", minimum=0, maximum=1)
    munchausen_tau: float = option(0.03, "temperature of the soft policy, in Q-values", above=0)
    munchausen_floor: float = option(-1.0, "the least that is added, before alpha", maximum=0)
    noisy: bool = option(False, "explore by noise in the dense layers, which is learnt")
    noisy_sigma: float = option(0.5, "how strong that noise is at first", above=0)
    distributional: str = option(
        "none", "learn how returns are distributed: their odds on fixed atoms (c51), or their quantiles",
        choices=("none", "c51", "quantile"),
    )  # fmt: skip
    atoms: int = option(51, "atoms of c51", minimum=2, maximum=1024)
    v_min: float = option(-10.0, "return of the first atom")
    v_max: float = option(10.0, "return of the last atom")
    quantiles: int = option(200, "quantiles that are learnt of each action's return", minimum=1, maximum=1024)
