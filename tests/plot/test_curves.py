"""Runs of several kinds in one figure: the curves of a kind look alike, and only tests are drawn."""

from pathlib import Path

import numpy as np

from scripts.curves import plot_of

HEADER = "epoch,phase,average_reward,meanq"


def write(path: Path, score: int) -> str:
    rows = [
        HEADER,
        "0,random,-9,0",
        *(f"{epoch},{phase},{score + epoch},1" for epoch in (1, 2) for phase in ("train", "test")),
    ]
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def test_curves_by_kind(tmp_path: Path) -> None:
    kinds = {kind: [write(tmp_path / f"{kind}_{seed}.csv", score + seed) for seed in range(3)]
             for kind, score in (("old", 0), ("new", 10))}  # fmt: skip
    plot = plot_of(kinds)
    assert list(plot.legend) == ["old", "new"]
    for panel in plot.panels:
        assert [line.label for line in panel.lines] == ["old"] * 3 + ["new"] * 3
        assert (
            len({line.colour for line in panel.lines[:3]})
            == len({line.colour for line in panel.lines[3:]})
            == 1
        )
        assert panel.lines[0].colour != panel.lines[3].colour
        assert all(line.phase == "test" for line in panel.lines)
    np.testing.assert_array_equal(plot.panels[0].lines[4].values, [12, 13])
