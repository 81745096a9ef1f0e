"""Training on several machines: actors anywhere on a Ray cluster play, and the learner, here, learns.

The architecture is that of Ape-X (Horgan et al. 2018). An actor (`actor.py`) has games and a copy of the
network. It plays a trajectory (`trajectory.py`) by the weights that it receives, and returns it. The learner
(`schedule.py`) stores one trajectory after the other, makes the updates that are due for its steps, and sends
out new weights. Since the number of trajectories in flight is limited and each is followed by its updates,
neither side runs ahead of the other. `actor_pool.py` starts the actors and replaces those that fail;
`session.py` joins Ray, for sweeps too.
"""

from typing import TYPE_CHECKING

from simple_dqn.cluster.actor import RemoteEnvironment
from simple_dqn.cluster.session import Session, require_ray
from simple_dqn.config import Config
from simple_dqn.environment import Environment
from simple_dqn.statistics import Statistics

if TYPE_CHECKING:
    from simple_dqn.cluster.schedule import ClusterSchedule

__all__ = ["RemoteEnvironment", "make_cluster_schedule", "require_ray"]


def make_cluster_schedule(
    config: Config, environment: Environment, statistics: Statistics
) -> "ClusterSchedule":
    """Return the schedule of a run whose cluster this process has joined; no actor has started yet.

    Args:
        config: All settings.
        environment: The games of the actors, a `RemoteEnvironment`.
        statistics: Receives what actors played.

    Raises:
        UserError: The cluster cannot be reached, or has another version.
    """
    session = Session(config.cluster.cluster, config.cluster.actors)
    try:
        # After the session has set what Ray reads when it is imported, which takes seconds.
        from simple_dqn.cluster.actor_pool import ActorPool
        from simple_dqn.cluster.schedule import ClusterSchedule

        assert isinstance(environment, RemoteEnvironment), "with a cluster no game is played here"
        return ClusterSchedule(config, ActorPool(config, environment), session, statistics)
    except BaseException:
        session.close()
        raise
