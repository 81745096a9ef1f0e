"""Runs of a sweep, with CSVs as a training writes them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from simple_dqn.sweep.pool import SweepRun

HEADER = "epoch,phase,total_train_steps,average_reward,steps_per_second,total_time,meanq,nr_games,meancost\n"


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., SweepRun]:
    """Return a function that makes a run of a game, and its CSV from its points by phase and epoch."""

    def make(
        game: str, seed: int = 1, setting: str = "", state: str = "done",
        **phases: list[float | None],
    ) -> SweepRun:  # fmt: skip
        run = SweepRun(game, setting, seed, tmp_path / "results", tmp_path / "snapshots")
        run.csv.parent.mkdir(exist_ok=True)
        lines = [
            f"{epoch},{phase},{40 * epoch},{'' if points is None else points},50,{240 * epoch},1,2,\n"
            for phase, curve in phases.items()
            for epoch, points in enumerate(curve, 1)
        ]
        if lines:
            run.csv.write_text(HEADER + "".join(sorted(lines, key=lambda line: int(line.split(",")[0]))))
        run.state = state
        run.look()
        return run

    return make
