"""Training past one machine: actors anywhere on a Ray cluster play, and the learner, here, learns.

The shape is that of Horgan et al. 2018 ("Ape-X"). An actor (`actor.py`) has games and a copy of the network;
it plays a chunk of steps by the weights that it is handed, and returns the chunk. The learner
(`schedule.py`) remembers one chunk after the other, makes the updates that are due for its steps, and hands
out new weights. As each actor has a few chunks in flight and no more, and each chunk is followed by its
updates, neither side runs away from the other. Who plays, and what happens when somebody dies, is the affair
of `crew.py`.

The runs of a sweep are Ray's tasks too (`sweep_tasks.py`): ordinary trainings, each in a process of its own
(`job.py`) that does not outlive its task (`bound.py`). Both ways into Ray are `session.py`.
"""

from typing import TYPE_CHECKING

from simple_dqn.cluster.remote_games import RemoteGames
from simple_dqn.cluster.session import Session, require_ray
from simple_dqn.config import Config
from simple_dqn.environment import Environment
from simple_dqn.statistics import Statistics

if TYPE_CHECKING:
    from simple_dqn.cluster.schedule import ClusterSchedule

__all__ = ["RemoteGames", "open_schedule", "require_ray"]


def open_schedule(config: Config, environment: Environment, statistics: Statistics) -> "ClusterSchedule":
    """Return the schedule of `config`, joined to its cluster; no actor is started yet.

    Args:
        config: All settings.
        environment: What actors are to play.
        statistics: Who hears of what they played.

    Raises:
        UserError: The cluster cannot be reached, or is of another version.
    """
    session = Session(config.cluster.cluster, config.cluster.actors)
    try:
        # Imported when used, for Ray takes seconds, and after the session has set what Ray reads at that.
        from simple_dqn.cluster.crew import Crew
        from simple_dqn.cluster.schedule import ClusterSchedule

        assert isinstance(environment, RemoteGames), "of a run on a cluster no game is played here"
        return ClusterSchedule(config, Crew(config, environment), session, statistics)
    except BaseException:
        session.close()
        raise
