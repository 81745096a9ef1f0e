"""The four objects, `Environment`, `ReplayMemory`, `DeepQNetwork` and `Agent`, built from the settings.

They are built here, and so are the `Statistics` that listen to them; an actor on a cluster, which has games
but neither memory nor statistics, builds what it plays by itself (`cluster/actor.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from simple_dqn import random_streams
from simple_dqn.agent import Agent
from simple_dqn.config import Config
from simple_dqn.environment import Environment, Watcher, make
from simple_dqn.errors import UserError, require_extra
from simple_dqn.interrupt import Interrupt
from simple_dqn.player import Player
from simple_dqn.profiler import Profiler
from simple_dqn.replay_memory import ReplayMemory, rows_for
from simple_dqn.snapshot import Keeper
from simple_dqn.statistics import CLUSTER_COLUMNS, Console, CsvWriter, Resumed, Statistics, Writer
from simple_dqn.training import (
    ConcurrentSchedule,
    Epochs,
    OverlappedSchedule,
    RolloutSchedule,
    SerialSchedule,
)

if TYPE_CHECKING:
    from simple_dqn.deepqnetwork import DeepQNetwork


def make_environment(
    config: Config,
    training: bool,
    profiler: Profiler | None = None,
    watcher: Watcher | None = None,
) -> Environment:
    """Return `workers` games, each with a random stream of its own.

    In `training` a lost life ends an episode. The `watcher` receives each frame of the first game.
    """
    name = "environment" if training else "test environment"
    places = range(config.environment.workers)
    streams = [random_streams.stream(config.seed, name, place) for place in places]
    return make(config.environment, streams, training, watcher, profiler)


def make_training_environment(
    config: Config, test_environment: Environment, profiler: Profiler
) -> Environment:
    """Return the games to train on; with a cluster, a stand-in for those that actors play."""
    if not config.cluster.on:
        return make_environment(config, training=True, profiler=profiler)
    from simple_dqn.cluster import RemoteEnvironment

    require_extra("cluster", "--cluster")
    return RemoteEnvironment(test_environment)


def make_schedule(config: Config, environment: Environment, statistics: Statistics) -> SerialSchedule:
    """Return the schedule that the settings choose; the default is the serial one.

    Raises:
        UserError: The cluster cannot be reached, or is of another version.
    """
    if not config.cluster.on:
        if config.agent.schedule == "rollouts":
            return RolloutSchedule(config.memory.rollout_steps)
        schedules = {
            "serial": SerialSchedule,
            "concurrent": ConcurrentSchedule,
            "overlapped": OverlappedSchedule,
        }
        return schedules[config.agent.schedule]()
    from simple_dqn.cluster import RemoteEnvironment, Session

    assert isinstance(environment, RemoteEnvironment), "with a cluster no game is played here"
    session = Session(config.cluster.cluster, config.cluster.actors)
    try:
        # After the session has set what Ray reads when it is imported, which takes seconds.
        from simple_dqn.cluster.actor_pool import ActorPool
        from simple_dqn.cluster.schedule import ClusterSchedule

        return ClusterSchedule(config, ActorPool(config, environment), session, statistics)
    except BaseException:
        session.close()
        raise


def make_memory(
    config: Config, environment: Environment, network: "DeepQNetwork", keeper: Keeper | None = None
) -> ReplayMemory:
    """Return an empty replay memory for the steps of `environment`.

    The screens are stored on the GPU of `network` if it has one with enough memory. Steps that are added also
    go to the experience log of `keeper`.

    Raises:
        UserError: `--replay_device gpu` was given and no GPU has enough memory; or this machine has not.
    """
    memory, games, shape = config.memory, environment.games, environment.screen_shape
    screens = None
    in_memory = memory.replay_device == "memory" or memory.replay_compression != "none"
    if not in_memory:
        screens = network.make_screens(rows_for(memory, games), games, shape)
    if memory.replay_device == "gpu" and screens is None:
        raise UserError(
            f"--replay_device gpu: there is no GPU with room for {rows_for(memory, games) * games} screens: "
            "leave out --replay_device, or use a GPU with more memory"
        )
    rng = random_streams.stream(config.seed, "sampling")
    log = keeper.log if keeper else None
    return ReplayMemory(memory, games, shape, config.network.discount_rate, rng, screens, log)


def make_network(config: Config, environment: Environment) -> "DeepQNetwork":
    """Return a fresh network that sees `environment`'s screens and chooses among its actions."""
    from simple_dqn.deepqnetwork import DeepQNetwork  # PyTorch takes seconds that --help can do without
    from simple_dqn.deepqnetwork.networks import NETWORKS

    return DeepQNetwork(
        environment.actions,
        config.memory.history_length,
        environment.screen_shape,
        config.network,
        config.backend,
        random_streams.stream(config.seed, "weights"),
        use_target_network=config.agent.target_steps > 0,
        spec=NETWORKS[config.network.network],
        spare_cores=spare_cores(config),
    )


def spare_cores(config: Config) -> int:
    """Return the number of cores that the learning thread leaves to actors and samplers."""
    if config.cluster.cluster == "local":
        return config.cluster.actors
    return int(config.agent.schedule in ("concurrent", "overlapped"))  # for the actor and the sampler


def make_player(
    config: Config, environment: Environment, network: "DeepQNetwork", profiler: Profiler | None = None
) -> Player:
    """Return a player of test games, which acts by the network's averaged weights if there are any."""
    rng = random_streams.stream(config.seed, "test exploration")
    predict = partial(network.predict, average=True)
    return Player(environment, predict, config.memory.history_length, rng, profiler or Profiler())


def make_agent(
    config: Config,
    environment: Environment,
    network: "DeepQNetwork",
    statistics: Statistics,
    profiler: Profiler,
    keeper: Keeper | None = None,
) -> Agent:
    """Return an agent that has seen nothing yet."""
    player = Player(
        environment,
        partial(network.predict, explore=True, target=config.agent.schedule == "concurrent"),
        config.memory.history_length,
        random_streams.stream(config.seed, "exploration"),
        profiler,
        synchronize=config.agent.synchronize is not False,
        slip_probability=config.agent.slip_probability,
    )
    memory = make_memory(config, environment, network, keeper)
    return Agent(player, memory, network, config.agent, config.network.batch_size, statistics, profiler)


def make_statistics(
    config: Config, resumed: Resumed | None = None, writers: Sequence[Writer] = ()
) -> Statistics:
    """Return statistics with the writers that `config` asks for, and `writers`; see `make_run`."""
    own: list[Writer] = [Console()]
    run = config.run
    if run.csv_file:
        path, again = Path(run.csv_file), resumed is not None
        own.append(CsvWriter(path, resumed, CLUSTER_COLUMNS if config.cluster.on else ()))
        # The packages of the others take long to import.
        if run.tensorboard:
            from simple_dqn.statistics.tensorboard_writer import TensorboardWriter

            own.append(TensorboardWriter(path.with_suffix(""), again, run.tensorboard == "histograms"))
        if run.track != "none":
            from simple_dqn.statistics.trackers import TRACKERS

            own.append(TRACKERS[run.track](path.with_suffix(""), config.shared_flags(), again))
    return Statistics([*own, *writers])


def make_run(
    config: Config,
    interrupt: Interrupt,
    resumed: Resumed | None = None,
    writers: Sequence[Writer] = (),
) -> Epochs:
    """Return a whole run that has not begun yet.

    Args:
        config: All settings.
        interrupt: What can end the run early.
        resumed: Where the CSV is continued; None: it is a new one.
        writers: Receive the events of phases, beside those that `config` asks for.

    Raises:
        UserError: A setting cannot be met; nothing was written.
    """
    profiler = Profiler()
    # Only one environment displays and records: the training one, if there is training.
    unseen = replace(config, environment=config.environment.unseen())
    test_environment = make_environment(unseen, training=False, profiler=profiler)
    environment = make_training_environment(config, test_environment, profiler)
    network = make_network(config, environment)
    # Float sums depend on the number of threads, too: a run that is resumed goes on with the same.
    config = config.with_flags({"threads": network.threads, "datatype": network.datatype})
    prefix = config.run.save_weights_prefix
    name, actions, can_save = environment.name, environment.actions, environment.can_save
    keeper = Keeper(Path(prefix), name, actions, config, can_save=can_save) if prefix else None
    statistics = make_statistics(config, resumed, writers)
    agent = make_agent(config, environment, network, statistics, profiler, keeper)
    tester = make_player(config, test_environment, network, profiler)
    schedule = make_schedule(config, environment, statistics)
    return Epochs(agent, tester, statistics, keeper, config, interrupt, schedule)
