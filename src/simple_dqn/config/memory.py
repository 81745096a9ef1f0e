"""What is remembered."""

from dataclasses import dataclass

from simple_dqn.config.option import option


@dataclass(frozen=True)
class MemoryConfig:
    """What is remembered."""

    replay_size: int = option(1_000_000, "experiences kept, one screen each", minimum=1)
    history_length: int = option(4, "screens that form a state", minimum=1, maximum=64)
    n_step: int = option(
        1, "steps whose rewards are learnt from at once, before the value of the state they lead to",
        minimum=1, maximum=100,
    )  # fmt: skip
    # The numbers are those of Schaul et al. (2016), proportional variant; Rainbow's exponent is 0.5.
    prioritized: bool = option(False, "draw the likelier what was predicted worse, not all alike")
    priority_exponent: float = option(
        0.6, "how far the error decides what is drawn; 0: not at all, 1: in proportion", minimum=0, maximum=1
    )
    priority_beta_start: float = option(
        0.4, "how far smaller updates make up for that at first; 0: not at all, 1: wholly",
        minimum=0, maximum=1,
    )  # fmt: skip
    priority_beta_steps: int = option(
        50_000_000, "steps of training until they make up for it wholly", minimum=0
    )
    replay_file: str | None = option(
        None, "keep the screens in this memory-mapped file, not in memory", local=True
    )
    replay_compression: str = option(
        "none", "keep the screens compressed in memory: less of it, a little slower",
        choices=("none", "lz4"), local=True,
    )  # fmt: skip
    replay_device: str = option(
        "auto", "where the screens lie; auto: on the GPU if there is one and they fit, uncompressed",
        choices=("auto", "gpu", "memory"), local=True,
    )  # fmt: skip
