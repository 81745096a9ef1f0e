"""The report of a sweep: its table, its summary, its comparison with human scores, its curves."""

from collections.abc import Sequence

from simple_dqn.sweep.comparison import compare, write_comparison
from simple_dqn.sweep.curves import draw_game
from simple_dqn.sweep.plan import Places
from simple_dqn.sweep.schedule import Row, State
from simple_dqn.sweep.summary import write_summary
from simple_dqn.sweep.table import Shown, make_table


class Report:
    """Keeps the files of a sweep as new as its rows."""

    def __init__(self, places: Places, table: Shown | None = None, common_epoch: bool = False) -> None:
        """Set up a report of which nothing is written yet.

        Args:
            places: Where its files go.
            table: What shows the rows; None: a table or lines on stderr.
            common_epoch: Compare all runs at the latest epoch that all have reached, not the finished ones.
        """
        self._places = places
        self._table = table or make_table()
        self._common_epoch = common_epoch

    def hear(self, rows: Sequence[Row], changed: Sequence[Row]) -> None:
        """Hear of all rows, and of those that have changed.

        The summary is written at every change; the rest, which takes seconds, when a run has ended.

        Raises:
            UserError: A file cannot be written.
        """
        self._table.show(rows, changed)
        if changed:
            write_summary(rows, self._places.summary)
        ended = {row.run.game for row in changed if row.state is State.DONE}
        if ended and len(changed) < len(rows):  # else it is the start of a sweep
            self._compare(rows)
            for game in sorted(ended):
                self._draw(game, rows)

    def finish(self, rows: Sequence[Row]) -> None:
        """Bring everything up to date, and print how the sweep compares with human scores.

        Raises:
            UserError: A file cannot be written.
        """
        write_summary(rows, self._places.summary)
        for game in sorted({row.run.game for row in rows}):
            self._draw(game, rows)
        self._compare(rows, aloud=True)
        print(f"Summary: {self._places.summary}")

    def _draw(self, game: str, rows: Sequence[Row]) -> None:
        files = [self._places.csv(row.run) for row in rows if row.run.game == game]
        draw_game(game, files, self._places.results / f"{game}.png")

    def _compare(self, rows: Sequence[Row], aloud: bool = False) -> None:
        comparison = compare(rows, self._common_epoch)
        if comparison.runs:
            write_comparison(comparison, self._places.scores)
        if aloud:
            print(comparison)
