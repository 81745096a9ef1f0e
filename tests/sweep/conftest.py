"""A plan, its files, and CSVs as a training writes them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from simple_dqn.sweep.plan import Plan, SweepFiles
from simple_dqn.sweep.scheduler import RunState, RunStatus

HEADER = "epoch,phase,total_train_steps,average_reward,steps_per_second,total_time,meanq,nr_games,meancost\n"


@pytest.fixture
def plan() -> Plan:
    return Plan({"pong": "pong", "breakout": "breakout"}, 2, 1, 0.0, {"epochs": 2})


@pytest.fixture
def files(tmp_path: Path) -> SweepFiles:
    return SweepFiles.of(tmp_path, "both")


@pytest.fixture
def write_rows() -> Callable[..., None]:
    """Return a function that writes the rows (epoch, phase, steps, reward) as a CSV."""

    def write(path: Path, *rows: tuple[int, str, int, float | str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (
            f"{epoch},{phase},{steps},{reward},50,{steps * 6},1,2,\n" for epoch, phase, steps, reward in rows
        )
        path.write_text(HEADER + "".join(lines))

    return write


@pytest.fixture
def make_run(files: SweepFiles, write_rows: Callable[..., None]) -> Callable[..., RunStatus]:
    """Return a function that makes a run of a game from its points by phase and epoch."""

    def make(
        game: str, seed: int = 1, setting: str = "", state: RunState = RunState.DONE,
        **phases: list[float | None],
    ) -> RunStatus:  # fmt: skip
        plan = Plan({game: game}, seed, 1, 0.0, {}, {setting: {}})
        lines = [
            (epoch, phase, 40 * epoch, "" if points is None else points)
            for phase, curve in phases.items()
            for epoch, points in enumerate(curve, 1)
        ]
        if lines:
            write_rows(files.csv(plan.runs[-1]), *sorted(lines, key=lambda line: line[0]))
        status = RunStatus(plan.runs[-1], files)
        status.state = state
        return status

    return make
