"""What the learner knows of the games that actors play."""

from typing import NoReturn

from simple_dqn.environment import Environment
from simple_dqn.types import Actions, CheckpointState


class RemoteGames(Environment):
    """E games of the same kind as others, of which none is played here.

    Of games elsewhere nothing is saved. They go on when a checkpoint is made, and when a run is resumed new
    ones begin: no run on a cluster is like another anyway.

    Attributes:
        sitting: How often the run was resumed, so that its games are not those of its start once more.
    """

    can_save = True

    def __init__(self, like: Environment) -> None:
        """Take the facts of `like`, games of the same settings."""
        self.games, self.actions, self.action_names = like.games, like.actions, like.action_names
        self.screen_shape, self.name, self.rom_md5 = like.screen_shape, like.name, like.rom_md5
        self.sitting = 0

    def reset(self) -> NoReturn:
        """Not to be called."""
        raise AssertionError("actors play these games")

    def send(self, _actions: Actions) -> NoReturn:
        """Not to be called."""
        raise AssertionError("actors play these games")

    def recv(self) -> NoReturn:
        """Not to be called."""
        raise AssertionError("actors play these games")

    def get_state(self) -> CheckpointState:
        """Return in which sitting this is."""
        return {"sitting": self.sitting}

    def set_state(self, state: CheckpointState) -> None:
        """Begin another sitting than that of `state`."""
        self.sitting = state.get("sitting", 0) + 1

    def close(self) -> None:
        """Do nothing."""
