"""`resume`: go on with a run from one of its snapshots."""

import logging
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from simple_dqn import flags
from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.interrupt import Interrupt
from simple_dqn.snapshot import checkpoint_of
from simple_dqn.verbs.common import finish, home, load_weights, open_snapshot, settle
from simple_dqn.wiring import make_run

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str], program: str) -> None:
    """Go on with a run from one of its snapshots."""
    parser = flags.parser(program, "Go on with a training run from one of its snapshots.")
    parser.add_argument("snapshot", type=Path, help="such as snapshots/pong_10.pkl")
    given = parser.parse(arguments)
    path: Path = given["snapshot"]
    snapshot = open_snapshot(path)
    prefix = path.with_name(path.stem.removesuffix(f"_{snapshot.epoch}"))
    checkpoint = checkpoint_of(prefix)
    saved = checkpoint.load_run()
    exact = saved is not None and saved["total_train_steps"] == snapshot.total_train_steps
    config = settle(
        Config.from_flags(
            {
                "game": snapshot.game,
                "csv_file": str(home() / "results" / f"{prefix.name}.csv"),
                **snapshot.flags,
                **(saved["flags"] if saved and exact else {"random_seed": None}),
                "save_weights_prefix": str(prefix),
                "start_epoch": snapshot.epoch,
                **given,
            }
        )
    )
    if config.run.epochs <= config.run.start_epoch:
        raise UserError(
            f"{path} has {snapshot.epoch} epochs of training and --epochs is {config.run.epochs}: "
            "give a larger --epochs"
        )
    untested = saved is not None and exact and saved["tested"] < saved["trained"]
    resumed = (config.run.start_epoch, "train" if untested else "test")
    with Interrupt() as interrupt, closing(make_run(config, interrupt, resumed)) as run:
        if saved and exact:
            logger.info("Going on from %s", checkpoint.folder)
            run.go_on(saved, checkpoint.load_memory())
        else:
            logger.warning(
                "%s holds no checkpoint of epoch %d: the replay memory, the optimizer and the random streams "
                "are lost; the memory is refilled by the network's own play",
                checkpoint.folder, snapshot.epoch,
            )  # fmt: skip
            load_weights(path, run.agent.player.environment, run.agent.network)
            run.agent.total_train_steps = snapshot.total_train_steps
            run.begin(random_play=False)
    finish(interrupt)
