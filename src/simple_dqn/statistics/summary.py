"""The data that `Statistics` passes to its writers, and the interface of a writer."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from simple_dqn.types import QValues


@dataclass(frozen=True, slots=True)
class PhaseOutcome:
    """The numbers of a phase that `Statistics` does not count itself."""

    total_train_steps: int  # training steps since the run began, over all games
    replay_memory_count: int  # experiences held
    meanq: float | None  # mean over held-out states of max_a Q(s, a); None: not measured
    weight_updates: int  # updates since the run began
    more: Mapping[str, float | None] = field(default_factory=dict)  # see `PhaseSummary`


@dataclass(frozen=True, slots=True)
class PhaseSummary:
    """The numbers of a phase. The fields, and those of `more` after them, are the columns of the CSV.

    None is a value that does not exist, such as the mean score of no games.
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
    # Additional columns of some kinds of run, by name.
    more: Mapping[str, float | None] = field(default_factory=dict)

    def row(self) -> dict[str, float | str | None]:
        """Return the row of the CSV, by column."""
        values = asdict(self)
        more: dict[str, float | None] = values.pop("more")
        return {**values, **more}

    def scalars(self) -> dict[str, float]:
        """Return the numbers that exist, by names such as `test/average_reward`, for curves."""
        numbers = {name: value for name, value in self.row().items() if value is not None and name != "phase"}
        return {f"{self.phase}/{name}": float(value) for name, value in numbers.items()}


@dataclass(frozen=True, slots=True)
class Point:
    """The numbers of the latest steps of a training phase, for curves within it."""

    step: int  # training steps since the run began, over all games
    # By name: `progress/reward`, `loss`, `mean_q`, `exploration_rate` and `steps_per_second`. What does not
    # exist, such as the score where no game ended, is left out.
    scalars: Mapping[str, float]
    qvalues: QValues | None  # float32 [states, A], of the held-out states of `meanq`


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a running phase."""

    steps: int  # so far, over all games
    nr_games: int  # games that ended so far
    average_reward: float | None  # mean score of these games, raw game points
    exploration_rate: float | None
    loss: float | None  # of the last update in this phase


CLUSTER_COLUMNS = (
    "actors_alive",  # actors that have answered and have not failed
    "experience_in_flight",  # steps that were requested from actors and are not in the replay memory yet
    "weight_age",  # mean count of updates between the weights that actors used in this phase and the latest
)


class Writer:
    """Receives the events of phases. A subclass overrides those that it uses.

    Attributes:
        points: Whether it receives points, for which the network values the held-out states.
    """

    points = False

    def open(self) -> None:
        """Create the files; called once, when the first phase starts."""

    def on_phase_start(self, phase: str, epoch: int, total_steps: int) -> None:
        """Called when a phase of `total_steps` steps begins; 0: its length is unknown."""

    def on_progress(self, progress: Progress) -> None:
        """Called a few times a second while a phase runs."""

    def on_point(self, point: Point) -> None:
        """Called every 1,000 steps of a training phase if any writer of the run has `points`."""

    def on_file(self, path: Path) -> None:
        """Called when a snapshot was written, and for a film of the run."""

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Called when a phase has ended, completed or interrupted."""

    def close(self) -> None:
        """Close the files; called once, also after an error."""
