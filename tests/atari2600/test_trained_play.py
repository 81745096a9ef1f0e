"""Games of an agent reach what random play does not, and are equal to ALE's to their end."""

import numpy as np
import pytest

pytest.importorskip("warp", reason="NVIDIA Warp is not installed")

import simple_dqn
from simple_dqn.agent import StateBuffer

GAMES = 6
LIVES = 3
SHOOTING = 250  # steps


@pytest.mark.nightly
def test_games_that_end_because_the_invaders_land() -> None:
    """The agent shoots for 17 seconds, and then only dodges, so that the remaining invaders land."""
    agent = simple_dqn.load("snapshots/trained/space_invaders_200.pkl", datatype="float32", threads=1)
    environments = [
        simple_dqn.make(
            "space_invaders",
            games=GAMES,
            training=True,  # a lost life ends an episode
            seed=3,
            emulator=emulator,
            color_averaging=False,
            random_starts=0,
            random_start_frames=30,
        )
        for emulator in ("ale", "warp")
    ]
    step, same = [environment.reset() for environment in environments]
    buffer = StateBuffer(GAMES, 4, (84, 84))
    lives, landings = np.full(GAMES, LIVES), 0
    shots = ["FIRE" in name for name in agent.action_names]
    for number in range(1000):
        buffer.append(step)
        qvalues = agent.q_values(buffer.states)
        if number >= SHOOTING:
            qvalues[:, shots] = -np.inf
        actions = qvalues.argmax(1)
        step, same = [environment.step(actions) for environment in environments]
        for name in ("screens", "rewards", "terminals", "starts"):
            assert np.array_equal(getattr(step, name), getattr(same, name)), name
        lives -= step.terminals
        landings += int((step.resets & (lives > 0)).sum())
        lives[step.resets] = LIVES
    assert landings > 0
