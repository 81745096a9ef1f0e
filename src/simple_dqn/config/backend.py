"""What the network runs on."""

from dataclasses import dataclass

from simple_dqn.config.option import option


@dataclass(frozen=True)
class BackendConfig:
    """What the network runs on."""

    backend: str = option(
        "gpu", "where the network runs; no GPU: the CPU, with a word", choices=("gpu", "cpu")
    )
    device_id: int = option(0, "which GPU, counted from 0", minimum=0)
    datatype: str = option(
        "float32",
        "precision of the hidden layers; the output layer and the loss stay float32 or wider; auto: bfloat16 "
        "where the processor computes in it, else float32",
        choices=("float32", "bfloat16", "float16", "float64", "auto"),
    )
    threads: int = option(
        0, "CPU threads of the network; 0: as measured at start", minimum=0, maximum=1024, local=True
    )
    engine: str = option(
        "torch",
        "what predicts on the CPU while the weights stand still: in tests, while playing, and for the "
        "actor of --concurrent true; openvino is to be installed",
        choices=("torch", "openvino"),
        local=True,
    )
