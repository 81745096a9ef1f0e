"""What passes from `Statistics` to its writers."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PhaseOutcome:
    """What only others know when a phase ends."""

    total_train_steps: int  # steps of training since the run began
    replay_memory_count: int  # experiences held
    meanq: float | None  # mean over held-out states of the highest Q-value; None: not measured
    weight_updates: int  # updates since the run began
    more: Mapping[str, float | None] = field(default_factory=dict)  # see `PhaseSummary`


@dataclass(frozen=True, slots=True)
class PhaseSummary:
    """One phase in numbers: the fields, in this order, are the columns of the CSV, and `more` those after.

    None stands for a value that does not exist, such as the mean score of no games.
    """

    epoch: int  # 0 for the random phase
    phase: str  # random, train, test or play
    steps: int  # over all games
    nr_games: int  # games that ended in the phase
    average_reward: float | None  # mean score of these games, raw game points
    min_game_reward: float | None
    max_game_reward: float | None
    last_exploration_rate: float | None  # None: the phase had no step
    total_train_steps: int
    replay_memory_count: int
    meanq: float | None
    meancost: float | None  # mean loss of the updates of this phase; None: there were none
    weight_updates: int
    total_time: float  # wall seconds since the run began, without the time between resumed parts
    epoch_time: float  # wall seconds of this phase
    steps_per_second: float
    # What only some kinds of run have, by name: further columns of the CSV.
    more: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
    """How a phase stands while it runs."""

    steps: int  # done so far, over all games
    nr_games: int  # ended so far
    average_reward: float | None  # mean score of these games, raw game points
    exploration_rate: float | None
    loss: float | None  # of the last update in this phase


CLUSTER_COLUMNS = (
    "actors_alive",  # actors that have answered and are not known to be gone
    "experience_in_flight",  # steps that actors were asked for and the memory has not taken in yet
    "weight_age",  # mean updates since the weights by which the steps of this phase were played
)


class Writer:
    """What hears of phases. A writer overrides the events that it cares for."""

    def open(self) -> None:
        """Make what is to be written; called once, when the first phase starts."""

    def on_phase_start(self, phase: str, epoch: int, total_steps: int) -> None:
        """Hear that a phase of `total_steps` steps begins; 0: its length is not known."""

    def on_progress(self, progress: Progress) -> None:
        """Hear, a few times a second, how the phase stands."""

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Hear that a phase ended, and how."""

    def close(self) -> None:
        """Let go of everything; called once, also when a phase broke off."""
