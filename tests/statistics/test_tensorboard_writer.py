"""TensorBoard's event files, read back with TensorBoard's own reader."""

import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from simple_dqn.errors import UserError
from simple_dqn.statistics import PhaseSummary, Point
from simple_dqn.statistics.tensorboard_writer import TensorboardWriter


def test_scalars_are_read_back(tmp_path: Path, summary: PhaseSummary) -> None:
    folder = tmp_path / "results" / "pong"
    writer = TensorboardWriter(folder)
    assert not folder.exists()
    writer.open()
    for epoch in (1, 2):
        writer.on_phase_end(replace(summary, epoch=epoch))
    reader = EventAccumulator(str(folder))
    reader.Reload()
    tags = reader.Tags()["scalars"]
    assert set(tags) == {f"train/{name}" for name in asdict(summary) if name not in ("phase", "more")}
    assert [event.value for event in reader.Scalars("train/epoch")] == [1, 2]
    (event, _) = reader.Scalars("train/meanq")
    assert event.step == summary.total_train_steps
    assert event.value == pytest.approx(summary.meanq)
    writer.close()


@pytest.mark.parametrize("histograms", [True, False])
def test_points_and_histograms_are_read_back(tmp_path: Path, histograms: bool) -> None:
    writer = TensorboardWriter(tmp_path, histograms=histograms)
    writer.open()
    qvalues = np.random.default_rng(0).normal(size=(256, 4)).astype(np.float32)
    writer.on_point(Point(1000, {"progress/loss": 0.5}, qvalues))
    writer.on_point(Point(2000, {}, None))
    writer.close()
    reader = EventAccumulator(str(tmp_path))
    reader.Reload()
    assert [(event.step, event.value) for event in reader.Scalars("progress/loss")] == [(1000, 0.5)]
    assert reader.Tags()["histograms"] == (["progress/q_values"] if histograms else [])
    if histograms:
        (event,) = reader.Histograms("progress/q_values")
        value = event.histogram_value
        assert value.num == sum(value.bucket) == qvalues.size
        assert (value.min, value.max) == (qvalues.min(), qvalues.max())
        assert value.sum == pytest.approx(qvalues.sum(), rel=1e-4)


def test_what_does_not_exist_is_not_written(tmp_path: Path, summary: PhaseSummary) -> None:
    writer = TensorboardWriter(tmp_path)
    writer.open()
    writer.on_phase_end(replace(summary, meanq=None))
    writer.close()
    reader = EventAccumulator(str(tmp_path))
    reader.Reload()
    assert "train/meanq" not in reader.Tags()["scalars"]
    assert "train/meancost" in reader.Tags()["scalars"]


def test_a_resumed_run_goes_on_where_its_checkpoint_was(tmp_path: Path, summary: PhaseSummary) -> None:
    for resumed, rows in (
        (False, [("train", 100, 1), ("test", 100, 2), ("train", 200, 3), ("test", 200, 4)]),
        (True, [("train", 200, 5), ("test", 200, 6)]),
        (True, [("test", 200, 7)]),
    ):
        writer = TensorboardWriter(tmp_path / "pong", resumed)
        writer.open()
        for phase, steps, meanq in rows:
            writer.on_phase_end(replace(summary, phase=phase, total_train_steps=steps, meanq=meanq))
        writer.close()
        time.sleep(1.1)  # the name of an event file has its second
    reader = EventAccumulator(str(tmp_path / "pong"))
    reader.Reload()
    assert [event.value for event in reader.Scalars("train/meanq")] == [1, 5]
    assert [event.value for event in reader.Scalars("test/meanq")][-1] == 7


def test_a_new_run_leaves_the_events_of_another_alone(tmp_path: Path, summary: PhaseSummary) -> None:
    for meanq in (1, 2, 3):
        writer = TensorboardWriter(tmp_path / "pong")
        writer.open()
        writer.on_phase_end(replace(summary, meanq=meanq))
        writer.close()
    for name, meanq in (("pong", 3), ("pong.1", 1), ("pong.2", 2)):
        reader = EventAccumulator(str(tmp_path / name))
        reader.Reload()
        assert [event.value for event in reader.Scalars("train/meanq")] == [meanq]


def test_a_folder_that_cannot_be_made_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="leave out --tensorboard"):
        TensorboardWriter(tmp_path / "file" / "pong").open()


def test_tensorboard_is_imported_when_asked_for_and_never_torch(tmp_path: Path) -> None:
    program = (
        "import sys; from simple_dqn.config import Config; from simple_dqn.run import make_statistics;"
        "config = Config.from_flags({'csv_file': f'{sys.argv[1]}/a.csv'});"
        "make_statistics(config); assert 'tensorboard' not in sys.modules;"
        "make_statistics(config.with_flags({'tensorboard': True})); assert 'tensorboard' in sys.modules;"
        "assert 'torch' not in sys.modules"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, env=environment)
