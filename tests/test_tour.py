"""Pages that name lines of code: each stands where they say, and the tour's shapes are real ones."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scripts import anchors
from simple_dqn.config import Config
from simple_dqn.presets import PRESETS
from simple_dqn.profiler import Profiler
from simple_dqn.statistics import Statistics
from simple_dqn.types import Minibatch
from simple_dqn.wiring import make_agent, make_environment, make_network

TOUR = anchors.PROJECT / "docs" / "tour.md"
ROW = re.compile(r"^\| `([\w.]+)` \| `\[([\d, ]*)\]` \| (\w+) \|$", re.MULTILINE)


@pytest.mark.parametrize("page", anchors.pages(), ids=lambda page: page.name)
def test_each_line_stands_where_the_page_says(page: Path) -> None:
    assert [fault for anchor in anchors.anchors(page) if (fault := anchor.fault())] == []


def test_there_are_pages_with_anchors() -> None:
    assert TOUR in anchors.pages()
    assert len(anchors.anchors(TOUR)) > 25
    assert len(TOUR.read_text().splitlines()) < 230


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Return a page that names a line of a file of three."""
    (tmp_path / "code.py").write_text("first = 1\nsecond = 2\nthird = 3\n")
    page = tmp_path / "page.md"
    page.write_text("See [code.py:2](code.py#L2) `second = 2`.\n")
    return page


def faults(page: Path) -> list[str]:
    return [fault for anchor in anchors.anchors(page) if (fault := anchor.fault())]


def test_a_line_that_moves_is_noticed_and_found_again(page: Path) -> None:
    assert faults(page) == []
    (page.parent / "code.py").write_text("new = 0\nfirst = 1\nsecond = 2\n")
    assert "line 3" in faults(page)[0]
    page.write_text(anchors.renewed(page))
    assert page.read_text() == "See [code.py:3](code.py#L3) `second = 2`.\n"
    assert faults(page) == []


@pytest.mark.parametrize("code", ["first = 1\n", "second = 2\nsecond = 2\n", None])
def test_a_line_that_is_gone_or_doubled_is_noticed(page: Path, code: str | None) -> None:
    if code is None:
        (page.parent / "code.py").unlink()
    else:
        (page.parent / "code.py").write_text(code)
    page.write_text(anchors.renewed(page))
    assert len(faults(page)) == 1


def test_a_link_without_what_stands_there_is_noticed(page: Path) -> None:
    page.write_text("See [code.py:2](code.py#L2), the second.\n")
    with pytest.raises(ValueError, match="backticks"):
        anchors.anchors(page)


def walk() -> Iterator[tuple[str, Any]]:
    """Go the tour's way, and return each array that it names."""
    flags = {
        **PRESETS["nature"], "game": "breakout", "random_seed": 0, "backend": "cpu", "threads": 1,
        "replay_size": 1000,
    }  # fmt: skip
    config = Config.from_flags(flags)
    environment = make_environment(config, training=True)
    network = make_network(config, environment)
    agent = make_agent(config, environment, network, Statistics([]), Profiler())
    agent.start()
    for _ in range(20):
        step = agent.play(1.0)
        agent.store(step)

    yield "frame", environment.each_game[0]._frame  # type: ignore[attr-defined]
    yield "screen", step.screens[0]
    for name in ("screens", "actions", "rewards", "terminals", "starts"):
        yield f"step.{name}", getattr(step, name)
    states = agent.player._states.states
    yield "states", states

    layers = dict(network._online.hidden.named_children())
    seen: dict[str, Any] = {}
    hooks = [
        layer.register_forward_hook(lambda _layer, _inputs, output, name=name: seen.update({name: output}))
        for name, layer in layers.items()
    ]
    yield "qvalues", network.predict(states)
    for hook in hooks:
        hook.remove()
    yield from seen.items()
    yield "actions", agent.player.act(states, 0.0)

    minibatch: Minibatch = agent.memory.sample(config.network.batch_size)
    ring = agent.memory._ring
    yield "windows", ring.windows(ring.indices(minibatch.numbers))
    for name in Minibatch.__slots__:
        yield f"minibatch.{name}", getattr(minibatch, name)
    batch = network.prepare(minibatch)
    for name in ("prestates", "actions", "targets"):
        yield f"batch.{name}", getattr(batch, name)
    yield "outputs", network._online.outputs(batch.prestates)
    network.update(batch)
    (outcome,) = network.take_outcomes()
    yield "errors", outcome.errors
    weights = network.get_weights()
    yield from weights.items()
    yield "all weights", np.concatenate([values.reshape(-1) for values in weights.values()])
    environment.close()


def test_the_shapes_are_those_of_a_real_walk() -> None:
    real = dict(walk())
    text = TOUR.read_text()
    rows = ROW.findall(text)
    assert len(rows) == text.count("\n| `") > 30, "a row of a table is not read"
    for name, shape, kind in rows:
        assert [int(size) for size in shape.split(",")] == list(real[name].shape), name
        assert str(real[name].dtype).removeprefix("torch.") == kind, name
    assert f"small change of {real['all weights'].size / 1e6:.1f} million weights" in text


def test_the_list_of_files_to_read_is_complete_and_short() -> None:
    """Run apart: the script watches every call, and PyTorch's threads are this process's."""
    command = [sys.executable, "scripts/reading_list.py", "--check"]
    environment = {**os.environ, "PYTHONPATH": "src:."}
    check = subprocess.run(command, cwd=anchors.PROJECT, env=environment, capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr
