"""Times other projects at the same work, one function each: `PYTHON peers.py TASK` prints steps/s as JSON.

TASK is JSON: the name of a peer and its `Work`. PYTHON has the peers installed; this project's Python lacks
them, so only the functions import them. The work of the table `peers` is simple_dqn's: Nature's network on
four screens of 84 x 84, one update of 32 samples every 4 steps, ε = 0.1, and a replay memory of 20,000.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILL_STEPS = 2_000  # random steps before the first update
WARM_UP_STEPS = 400  # of training, before the measurement starts
BATCH_SIZE = 32
TRAIN_FREQUENCY = 4  # steps between updates
REPLAY_SIZE = 20_000
EXPLORATION_RATE = 0.1
TARGET_STEPS = 10_000
LEARNING_RATE = 1e-4
UNLIMITED = 10**7  # steps; no measurement takes as many
# CleanRL's DQN asks for games that only an import of ale-py registers.
RUN_SCRIPT = "import ale_py, runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
MARK, MARK_STEPS = "SPS:", 100  # its DQN prints such a line every 100 steps of training
ROLLOUT = 8 * 128  # steps of a rollout of CleanRL's PQN, after which it prints such a line


@dataclass(frozen=True)
class Work:
    """What a peer has to do."""

    game: str  # this project's name for it: space_invaders
    games: int  # played in parallel
    seconds: float  # of training, after the warm-up
    script: str = ""  # the path of CleanRL's script

    @property
    def title(self) -> str:
        """Return the name of the game in Gymnasium and EnvPool: SpaceInvaders."""
        return "".join(part.capitalize() for part in self.game.split("_"))


@dataclass(frozen=True)
class Peer:
    """One peer."""

    title: str
    measure: Callable[[Work], float]  # returns steps/s over all games
    games: tuple[int, ...]  # the numbers of parallel games that are measured
    environment: str = "peers"  # the virtual environment that it runs in
    table: str = "peers"  # of `training.py`
    script: str = ""  # in a clone, which the user gives


def stable_baselines3(work: Work) -> float:
    """Measure Stable-Baselines3's DQN, which steps its games one after the other in its own process."""
    import ale_py
    import gymnasium
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    gymnasium.register_envs(ale_py)
    environment = VecFrameStack(make_atari_env(f"{work.title}NoFrameskip-v4", n_envs=work.games, seed=1), 4)
    model = DQN(
        "CnnPolicy",
        environment,
        learning_rate=LEARNING_RATE,
        buffer_size=REPLAY_SIZE,
        learning_starts=FILL_STEPS,
        batch_size=BATCH_SIZE,
        train_freq=max(1, TRAIN_FREQUENCY // work.games),
        gradient_steps=max(1, work.games // TRAIN_FREQUENCY),
        target_update_interval=TARGET_STEPS,
        exploration_initial_eps=EXPLORATION_RATE,
        exploration_final_eps=EXPLORATION_RATE,
    )
    model.learn(FILL_STEPS + WARM_UP_STEPS)
    start, before = time.perf_counter(), model.num_timesteps

    def in_time(_locals: dict[str, Any], _globals: dict[str, Any]) -> bool:
        return time.perf_counter() - start < work.seconds

    model.learn(UNLIMITED, callback=in_time, reset_num_timesteps=False)
    steps: int = model.num_timesteps - before
    return steps / (time.perf_counter() - start)


def tianshou(work: Work) -> float:
    """Measure Tianshou's DQN on EnvPool, which its Atari examples recommend.

    The loop is what its documentation calls customized training. Its own trainer searches the whole buffer
    for NaNs after every few steps, which takes seconds.
    """
    import envpool
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.utils.torch_utils import policy_within_training_step

    environment = envpool.make_gymnasium(
        f"{work.title}-v5", num_envs=work.games, stack_num=4, episodic_life=True, reward_clip=True, seed=1
    )
    algorithm = _tianshou_dqn(environment.observation_space.shape, environment.action_space)
    memory = VectorReplayBuffer(
        REPLAY_SIZE, work.games, stack_num=4, ignore_obs_next=True, save_only_last_obs=True
    )
    collector = Collector(algorithm, environment, memory, exploration_noise=True)
    collector.reset()
    collector.collect(n_step=FILL_STEPS, random=True)

    def train(over: Callable[[int], bool]) -> int:
        steps = 0
        while not over(steps):
            steps += collector.collect(n_step=max(TRAIN_FREQUENCY, work.games)).n_collected_steps
            for _ in range(max(TRAIN_FREQUENCY, work.games) // TRAIN_FREQUENCY):
                algorithm.update(memory, sample_size=BATCH_SIZE)
        return steps

    with policy_within_training_step(algorithm.policy):
        train(lambda steps: steps >= WARM_UP_STEPS)
        start = time.perf_counter()
        steps = train(lambda _: time.perf_counter() - start >= work.seconds)
        return steps / (time.perf_counter() - start)


def _tianshou_dqn(state_shape: tuple[int, ...], actions: Any) -> Any:
    from tianshou.algorithm import DQN
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.env.atari.atari_network import DQNet

    # As in its own example, bytes are not divided by 255: its wrapper for that would convert them to float64.
    network = DQNet(*state_shape, actions.n)
    policy = DiscreteQLearningPolicy(model=network, action_space=actions, eps_training=EXPLORATION_RATE)
    return DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=LEARNING_RATE),
        target_update_freq=TARGET_STEPS // TRAIN_FREQUENCY,
        is_double=False,
        huber_loss_delta=1.0,
    )


def cleanrl(work: Work) -> float:
    """Measure the script `dqn_atari.py` in a clone of CleanRL."""
    flags = {
        "env-id": f"{work.title}NoFrameskip-v4", "learning-starts": FILL_STEPS, "buffer-size": REPLAY_SIZE,
        "batch-size": BATCH_SIZE, "train-frequency": TRAIN_FREQUENCY,
        "target-network-frequency": TARGET_STEPS, "learning-rate": LEARNING_RATE,
    }  # fmt: skip
    return rate_of_script(work, ["-c", RUN_SCRIPT], flags, MARK_STEPS)


def cleanrl_pqn(work: Work) -> float:
    """Measure the script `pqn_atari_envpool.py`: four passes over rollouts of 128 steps, batches of 256."""
    return rate_of_script(work, [], {"env-id": f"{work.title}-v5", "num-envs": work.games}, ROLLOUT)


def rate_of_script(work: Work, launcher: list[str], flags: dict[str, object], mark_steps: int) -> float:
    """Run CleanRL's script with `flags`, and measure it by the lines that it prints every `mark_steps`."""
    script = Path(work.script).resolve()
    flags = flags | {"total-timesteps": UNLIMITED, "start-e": EXPLORATION_RATE, "end-e": EXPLORATION_RATE}
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    with (
        tempfile.TemporaryDirectory() as folder,  # it writes into the current one
        subprocess.Popen(
            [sys.executable, "-u", *launcher, str(script), *words], cwd=folder, text=True,
            env=os.environ | {"PYTHONPATH": str(script.parents[1])},  # where cleanrl_utils is
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process,
    ):  # fmt: skip
        assert process.stdout is not None
        try:
            return rate_of_marks(process.stdout, work.seconds, mark_steps)
        finally:
            process.kill()


def rate_of_marks(
    lines: Iterable[str], seconds: float, mark_steps: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the steps/s between two marks, every `mark_steps`, at least `seconds` apart, after the warm-up.

    The `lines` are CleanRL's output, read while it runs; if it ends too early, the last of them is the error.
    The rate in a mark is not used: it is the mean since the start, random play included.
    """
    steps, start, last = -mark_steps * math.ceil(WARM_UP_STEPS / mark_steps), 0.0, "it printed no message"
    for line in lines:
        last = line.strip() or last
        if line.startswith(MARK):
            steps, now = steps + mark_steps, clock()
            if steps == 0:
                start = now
            elif steps > 0 and now - start >= seconds:
                return steps / (now - start)
    sys.exit(last)


PEERS = {
    "stable_baselines3": Peer("Stable-Baselines3", stable_baselines3, (1, 8)),
    "tianshou": Peer("Tianshou", tianshou, (1, 16)),
    "cleanrl": Peer("CleanRL", cleanrl, (1,), "cleanrl", script="cleanrl/dqn_atari.py"),
    "cleanrl_pqn": Peer(
        "CleanRL's PQN", cleanrl_pqn, (8,), "cleanrl_pqn", "pqn", "cleanrl/pqn_atari_envpool.py"
    ),
}


if __name__ == "__main__":
    name, work = json.loads(sys.argv[1])
    print(json.dumps({"rate": PEERS[name].measure(Work(**work))}))
