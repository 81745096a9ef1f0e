"""What `train` and `resume` have in common: the claim to the run's names, and how a saved run goes on."""

import errno
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.files import home, is_trained
from simple_dqn.interrupt import Interrupt
from simple_dqn.snapshot import Saved, checkpoint_folder, claimed, in_words, snapshots_after
from simple_dqn.training import Phase
from simple_dqn.verbs.common import finish, settle, warn_of_modification
from simple_dqn.verbs.own_game import is_same_class, remembered
from simple_dqn.wiring import make_run

logger = logging.getLogger(__name__)

# What the saved state is made for.
FIXED = (
    "environment", "workers", "minimal_action_set", "screen_width", "screen_height", "replay_size",
    "history_length", "network", "batch_norm", "layer_norm", "dueling", "noisy", "distributional", "atoms",
    "quantiles", "optimizer", "decay_rate", "datatype", "priority_exponent", "random_seed",
)  # fmt: skip
# What the system says when it has run out of something, or has lost a disk.
EXHAUSTED = (
    errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ENOMEM,
)  # fmt: skip


class CompleteError(UserError):
    """A run has all the epochs that it was to have."""


@contextmanager
def running(prefix: Path) -> Iterator[None]:
    """Have the names that begin with `prefix` for oneself, and end with one line if the system gives out.

    Raises:
        UserError: Another run has them, nothing can be written there, or the system gave out.
    """
    if is_trained(prefix):
        raise UserError(
            f"no run writes into {prefix.parent}, where the agents that come with the project are: give "
            f"another --save_weights_prefix than {prefix}"
        )
    with claimed(prefix):
        try:
            yield
        except OSError as error:
            if error.errno not in EXHAUSTED:
                raise
            raise UserError(
                f"training cannot go on: {error.strerror}; once that is mended, go on with ./resume.sh "
                f"{checkpoint_folder(prefix)}"
            ) from error


def go_on(saved: Saved, prefix: Path, given: dict[str, Any]) -> None:
    """Go on with a run as if it had never stopped.

    Args:
        saved: A checkpoint of it.
        prefix: What the names of its snapshots begin with.
        given: Flags that are given now.

    Raises:
        CompleteError: It has all its epochs.
        UserError: The flags contradict those of the run.
    """
    flags = remembered(saved.run["flags"], given)
    if given.get("datatype") == "auto":  # what that means here was settled when the run began
        given = {name: value for name, value in given.items() if name != "datatype"}
    check_flags(flags, given)
    moved = Path(flags["save_weights_prefix"]).resolve() != prefix.resolve()
    files = {"save_weights_prefix": str(prefix)}
    if moved:
        files["csv_file"] = str(home() / "results" / f"{prefix.name}.csv")
    config = settle(Config.from_flags({**flags, **files, **given}), given)
    phase = Phase(**saved.run["phase"])
    if phase.epoch > config.run.epochs:
        raise CompleteError(
            f"the run has {phase.trained} epochs of training and --epochs is {config.run.epochs}: "
            "give a larger --epochs"
        )
    warn_of_modification(saved.path, saved.modification)
    if later := snapshots_after(prefix, phase.trained):
        logger.info("Later snapshots of the run, %s, are written again in their turn", in_words(later))
    with Interrupt() as interrupt, closing(make_run(config, interrupt, phase.before)) as run:
        logger.info("Going on from %s: %s %d, step %d", saved.path, phase.name, phase.epoch, phase.done)
        run.go_on(saved)
    finish(interrupt)


def check_flags(saved: dict[str, Any], given: dict[str, Any]) -> None:
    """Refuse flags that a run cannot change on its way, and tell of those that it does change.

    Args:
        saved: The flags of the run.
        given: The flags that are given now.

    Raises:
        UserError: Which flag, and what it was.
    """
    settings = Config.from_flags({**saved, **given})
    on_cluster = Config.from_flags(saved).cluster.on
    if settings.cluster.on != on_cluster:
        raise UserError(
            f"the run was begun {'with' if on_cluster else 'without'} --cluster and cannot go on "
            f"{'without' if on_cluster else 'with'} it: begin a new run with --load_weights"
        )
    for name in settings.shared_flags():
        now = settings.flags()[name]
        was = saved.get(name, now)
        if name not in given or now == was:
            continue
        if name in FIXED and not is_same_class(was, now):
            raise UserError(
                f"the run was begun with --{name} {was} and cannot go on with {now}: leave out --{name}, or "
                "begin a new run under another label"
            )
        logger.info("From here on --%s is %s in place of %s", name, now, was)
