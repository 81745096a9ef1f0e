"""What the learner knows of the games that actors play."""

from typing import NoReturn

from simple_dqn.environment import Environment
from simple_dqn.types import Actions, State


class RemoteGames(Environment):
    """E games of the same kind as others, of which none is played here.

    Of games elsewhere nothing is saved. They go on when a checkpoint is made, and begin anew when a run is
    resumed: no run on a cluster is like another anyway.
    """

    can_save = True

    def __init__(self, like: Environment) -> None:
        """Take the facts of `like`, games of the same settings."""
        self.games, self.actions, self.action_names = like.games, like.actions, like.action_names
        self.screen_shape, self.name, self.rom_md5 = like.screen_shape, like.name, like.rom_md5

    def reset(self) -> NoReturn:
        """Not to be called."""
        raise AssertionError("actors play these games")

    def send(self, _actions: Actions) -> NoReturn:
        """Not to be called."""
        raise AssertionError("actors play these games")

    def recv(self) -> NoReturn:
        """Not to be called."""
        raise AssertionError("actors play these games")

    def get_state(self) -> State:
        """Return nothing."""
        return {}

    def set_state(self, state: State) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
