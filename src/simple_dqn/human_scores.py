"""Human-normalized scores, for the 57 games with a measured human score.

`human_scores.csv` has raw game points: those of random play and of a professional human tester, in games that
start with up to 30 no-ops (Wang et al. 2016, Dueling Network Architectures, arXiv:1511.06581, appendix), and
those of published agents. dqn_zoo and Agent57 use the same human scores. Mnih et al. 2015 (extended data
table 2) have others for 49 games, such as 9.3 in Pong instead of 14.6; docs/results.md quotes those, and has
the conditions of the agents. Games have the names of ale-py's ROMs.
"""

import csv
from pathlib import Path

SOURCE = "Wang et al. 2016"  # printed with each human-normalized score
# Column -> the player of these scores, and their source.
NAMES = {
    "human": ("a person", SOURCE),
    "random": ("random play", SOURCE),
    "simple_dqn": ("simple_dqn", "its best test epoch"),
    "deepmind": ("DeepMind", "Mnih et al. 2015"),
}
with Path(__file__).with_suffix(".csv").open(newline="") as file:
    # Game -> column -> score, in raw game points.
    SCORES: dict[str, dict[str, float]] = {
        row.pop("game"): {name: float(score) for name, score in row.items() if score}
        for row in csv.DictReader(file)
    }


def references(game: str) -> dict[str, float]:
    """Return published scores in `game`, in raw game points, the highest first, by agent and source."""
    known = sorted(((score, NAMES[name]) for name, score in SCORES.get(game, {}).items()), reverse=True)
    return {f"{name} {score:,g} ({source})".replace("-", "−"): score for score, (name, source) in known}


def human_normalized(game: str, score: float) -> float | None:
    """Return 100 (score - random) / (human - random), in percent; None for a game not in the table.

    `score` is in raw game points.
    """
    if game not in SCORES:
        return None
    random, human = SCORES[game]["random"], SCORES[game]["human"]
    return 100 * (score - random) / (human - random)
