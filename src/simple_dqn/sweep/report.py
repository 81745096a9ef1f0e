"""All that tells of a sweep while it runs: the table, the summary, the comparison with people, the curves."""

from collections.abc import Sequence

from simple_dqn.sweep.curves import draw_game
from simple_dqn.sweep.plan import Places
from simple_dqn.sweep.schedule import Row, State
from simple_dqn.sweep.summary import compare, write_comparisons, write_summary
from simple_dqn.sweep.table import Shown, make_table


class Report:
    """Keeps the files of a sweep as new as its rows."""

    def __init__(self, places: Places, table: Shown | None = None) -> None:
        """Set up a report of which nothing is written yet; `table` shows the rows, by default on stderr."""
        self._places = places
        self._table = table or make_table()

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
        """Bring everything up to date, and print how the sweep compares with people.

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
        comparisons = compare(rows)
        if not comparisons:
            return
        write_comparisons(comparisons, self._places.scores)
        if aloud:
            first = comparisons[0]
            print(
                f"In per cent of a person's score, {first.runs} runs of {first.games} game(s), "
                "95 % intervals:"
            )
            for comparison in comparisons:
                print(f"  {comparison}")
