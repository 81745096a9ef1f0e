"""Snapshots: files with a network's weights, its game and its settings, small enough to share."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn import __version__
from simple_dqn.config import CLASS_FILE, Config
from simple_dqn.errors import UserError
from simple_dqn.files import ZIP, is_snapshot
from simple_dqn.flags import as_word
from simple_dqn.rules import OF_WEIGHTS, differing
from simple_dqn.snapshot import archive, neon, validation
from simple_dqn.types import CheckpointState

FORMAT = "simple-dqn snapshot 1"
SHARED = archive.Limits(members=128 << 20, tree=1 << 20, directory=64 << 10)  # a Nature network takes 7 MB


@dataclass(frozen=True)
class Snapshot:
    """A network's weights, and the game and settings that it was trained with."""

    game: str  # the game's name, such as "pong"
    epoch: int  # epochs of training behind the weights
    actions: int  # outputs of the network
    total_train_steps: int  # steps of training behind the weights
    flags: dict[str, Any]  # every setting of the run, by its flag's name
    weights: dict[str, np.ndarray]  # float32, by layer

    @property
    def weights_sum(self) -> int:
        """A checksum of the weights."""
        total = 0
        for name in sorted(self.weights):
            total = zlib.crc32(self.weights[name].tobytes(), zlib.crc32(name.encode(), total))
        return total

    def save(self, path: Path) -> None:
        """Write the snapshot to `path`, completely or not at all.

        Raises:
            UserError: The file cannot be written.
        """
        archive.write(
            path,
            {
                "format": FORMAT,
                "version": __version__,
                "game": self.game,
                "epoch": self.epoch,
                "actions": self.actions,
                "total_train_steps": self.total_train_steps,
                "flags": dict(self.flags),
                "weights": dict(self.weights),
            },
        )

    @staticmethod
    def load(path: Path, game: str | None = None) -> "Snapshot":
        """Return the snapshot in `path`, in the format of this project or of Neon, as its first bytes tell.

        A snapshot may come from a stranger: loading it executes nothing and limits its size.

        Args:
            path: The file.
            game: The game of a Neon snapshot, which does not contain it; None: it is in the file's name.

        Raises:
            UserError: The file is missing, damaged, too large, or not a snapshot.
        """
        content = _read(path, game)
        try:
            return Snapshot(
                game=validation.game(content["game"]),
                epoch=validation.count(content["epoch"], "epoch"),
                actions=validation.count(content["actions"], "number of actions", least=1),
                total_train_steps=validation.count(content["total_train_steps"], "number of steps"),
                flags=validation.settings(content["flags"]),
                weights=validation.weights(content["weights"]),
            )
        except KeyError as error:
            raise UserError(f"{path} is no snapshot ({error} is missing): use another one") from None
        except (TypeError, ValueError, AttributeError) as error:
            reason = archive.one_line(error)
            raise UserError(f"{path} cannot be used ({reason}): use another one") from None


def _read(path: Path, game: str | None) -> CheckpointState:
    """Return the unchecked content of the file.

    Raises:
        UserError: It cannot be read, or is not a snapshot.
    """
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"{path} is not a file: give a snapshot, such as snapshots/pong_10.pkl")
        with path.open("rb") as file:
            magic = file.read(len(ZIP))
    except OSError as error:
        raise archive.unreadable(path, error) from None
    if not is_snapshot(path):
        raise UserError(f"{path} is not a snapshot: give one, such as snapshots/pong_10.pkl")
    if magic != ZIP:
        return neon.read(path, game)
    content = archive.read(path, SHARED)
    if content.get("format") != FORMAT:
        raise UserError(f"{path} is a {str(content.get('format'))[:80]!r}, not a {FORMAT!r}: use another one")
    return content


def check_fits(path: Path, snapshot: Snapshot, game: str, actions: int | None = None) -> None:
    """Check that a snapshot was trained on this game, with this number of actions if it is known.

    Raises:
        UserError: It was not.
    """
    if snapshot.game != game:
        raise UserError(f"{path} was trained on {snapshot.game}, not on {game}: use a snapshot of {game}")
    if actions not in (None, snapshot.actions):
        was = snapshot.flags.get("minimal_action_set")  # absent from Neon snapshots
        told = "as it was when the snapshot was trained" if was is None else as_word(was)
        raise UserError(
            f"{path} chooses among {snapshot.actions} actions and {game} is played with {actions} here: "
            f"give --minimal_action_set {told}"
        )


def check_layers(path: Path, snapshot: Snapshot, config: Config) -> None:
    """Check by the settings alone that the weights of a snapshot fit the network that `config` describes.

    Raises:
        UserError: They do not; the message names the flags.
    """
    recorded, now = Config.from_flags(snapshot.flags).flags(), config.flags()
    own = CLASS_FILE.fullmatch(now["environment"])  # such a class may have a screen of its own size
    names = [name for name in OF_WEIGHTS if not (own and name.startswith("screen_"))]
    names += {"c51": ["atoms"], "quantile": ["quantiles"]}.get(recorded["distributional"], [])
    if wrong := differing(names, recorded, now):
        was, here = (
            " ".join(f"--{name} {as_word(flags[name])}" for name in wrong) for flags in (recorded, now)
        )
        raise UserError(f"{path} was trained with {was}, and does not fit {here}: give {was}")


def average(snapshots: Iterable[tuple[Path, Snapshot]]) -> Snapshot:
    """Return the snapshot with the most training steps, with the mean of the weights of all.

    Late in a run the weights move around a point; their mean is closer to it than any of them (Izmailov et
    al. 2018, "Averaging weights leads to wider optima and better generalization", algorithm 1).

    Args:
        snapshots: Paths and snapshots of one game and network, at least one. Two are in memory at a time.

    Raises:
        UserError: One differs from the first in its game or shapes, or has batch normalisation.
    """
    rest = iter(snapshots)
    path, latest = next(rest)
    # Batch normalisation's running means and variances belong to one network alone.
    if any(name.endswith("running_var") for name in latest.weights):
        raise UserError(f"{path} has batch normalisation, which cannot be averaged: use one snapshot alone")
    sums = {name: weights.astype(np.float64) for name, weights in latest.weights.items()}
    count = 1
    for path, snapshot in rest:
        if snapshot.game != latest.game:
            raise UserError(
                f"{path} was trained on {snapshot.game}, not on {latest.game}: average one game's"
            )
        if _shapes(snapshot.weights) != _shapes(sums):
            raise UserError(f"{path} is not of the same layers as the first: average snapshots of one run")
        for name, weights in snapshot.weights.items():
            sums[name] += weights
        count += 1
        if snapshot.total_train_steps > latest.total_train_steps:
            latest = snapshot
    means = {name: (weights / count).astype(np.float32) for name, weights in sums.items()}
    return replace(latest, weights=means)


def _shapes(weights: dict[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in weights.items()}
