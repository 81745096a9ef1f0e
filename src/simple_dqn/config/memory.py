"""What is remembered."""

from dataclasses import dataclass

from simple_dqn.config.option import option


@dataclass(frozen=True)
class MemoryConfig:
    """What is remembered."""

    replay_size: int = option(1_000_000, "experiences kept, one screen each", minimum=1)
    history_length: int = option(4, "screens that form a state", minimum=1, maximum=64)
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
