"""The replay memory: every screen once, transitions drawn from it by slicing."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.replay_memory import uniform
from simple_dqn.replay_memory.ring import Ring
from simple_dqn.replay_memory.screens import ScreenStore, make_screens
from simple_dqn.types import Experience, Minibatch, State, States, Step

# Bytes of an experience beside its screen: action int64, reward float32, starts and terminal bool.
OTHER_BYTES = 8 + 4 + 1 + 1


def rows_for(config: MemoryConfig, games: int) -> int:
    """Return of how many steps of `games` games a memory of `config.replay_size` experiences consists."""
    return config.replay_size // games


class ReplayMemory:
    """The latest `replay_size` experiences of E games, from which minibatches are drawn.

    A ring of T = replay_size // E rows, one `Step` each; the oldest is overwritten. What a
    transition is, and which screens its states show, stands at the top of `ring.py`. How an index
    is drawn is `uniform.py`'s affair, how a screen is kept that of `screens.py`.
    """

    def __init__(
        self,
        config: MemoryConfig,
        games: int,
        screen_shape: tuple[int, int],
        discount_rate: float,
        rng: np.random.Generator,
        screens: ScreenStore | None = None,
        log: Callable[[Step], None] | None = None,
    ) -> None:
        """Make an empty memory; its pages are taken as it fills.

        With `config.replay_file` the screens lie in that file, which stays when the program ends.

        Args:
            config: Its size, at least `history_length` + 1 for each game; `rules.check` sees to that.
            games: E, how many games each step brings.
            screen_shape: Height and width of a screen, in pixels.
            discount_rate: What the value of a poststate is multiplied by.
            rng: The random stream that draws the minibatches.
            screens: Where the screens lie instead, with room for `rows_for(config, games)` of each game.
            log: Is given every step that is kept, to write it down.

        Raises:
            UserError: This machine has too little memory, or the file cannot be used.
        """
        rows = rows_for(config, games)
        self._screens = screens or make_screens(config, rows, games, screen_shape, OTHER_BYTES)
        self._screen_shape = screen_shape
        self._actions = np.zeros((rows, games), np.int64)
        self._rewards = np.zeros((rows, games), np.float32)
        self._ring = Ring(rows, games, config.history_length)
        self._discount_rate = discount_rate
        self._rng = rng
        self._log = log
        self._discounts = np.zeros(0, np.float32)

    @property
    def count(self) -> int:
        """How many experiences are held, which is how many screens."""
        return self._ring.held * self._ring.games

    @property
    def ready(self) -> bool:
        """Whether there are screens enough for `sample` to draw from."""
        return self._ring.held > self._ring.history_length

    @property
    def nbytes(self) -> int:
        """Bytes of a full memory, wherever its screens lie."""
        ring = self._ring
        others = (self._actions, self._rewards, ring.starts, ring.terminals)
        return self._screens.nbytes + sum(array.nbytes for array in others)

    def add(self, step: Step) -> None:
        """Keep what `step` brought, in place of the oldest experiences once the memory is full."""
        row = self._ring.append(step.starts, step.terminals)
        self._screens.write(row, step.screens)
        self._actions[row] = step.actions
        self._rewards[row] = step.rewards
        if self._log:
            self._log(step)

    def sample(self, batch_size: int) -> Minibatch:
        """Draw `batch_size` transitions, uniformly over all games and with replacement.

        Returns:
            Arrays that are valid until the next `sample`; the states are two views of the same
            screens, so to write into one is to write into the other. Where the screens lie on a GPU,
            so do the states.

        Raises:
            UserError: The memory holds no transition yet.
        """
        return self._gather(uniform.draw(self._ring, batch_size, self._rng))

    def sample_states(self, count: int) -> States:
        """Draw the prestates of `count` transitions, as `sample` does; a fresh array."""
        return self._screens.on_host(self.sample(count).prestates)

    def contents(self) -> Experience:
        """Return all that is held, row by row as it lies in the ring, valid until the next `add`.

        Views, but for screens that are not kept as such: on a GPU, or compressed.
        """
        held, ring = self._ring.held, self._ring
        return Experience(
            screens=self._screens.first(held),
            actions=self._actions[:held],
            rewards=self._rewards[:held],
            terminals=ring.terminals[:held],
            starts=ring.starts[:held],
        )

    def get_state(self) -> State:
        """Return all that is needed to go on, but for the experience itself, which the log has."""
        return {
            "ring": self._ring.get_state(),
            "games": self._ring.games,
            "height": self._screen_shape[0],
            "width": self._screen_shape[1],
            "rng": self._rng.bit_generator.state,
        }

    def set_state(self, state: State, experience: Iterable[Experience]) -> None:
        """Go on from what `get_state` returned, as if nothing had happened.

        Args:
            state: What `get_state` returned.
            experience: As many of the rows that were logged last as were held then, oldest first, in pieces.

        Raises:
            UserError: It is the state of a memory of another size, or of other games or screens.
        """
        self._require_same_shape(state)
        self._ring.set_state(state["ring"])
        oldest = self._ring.position - self._ring.held
        for piece in experience:
            rows = np.arange(oldest, oldest + len(piece.actions)) % self._ring.rows
            self._actions[rows], self._rewards[rows] = piece.actions, piece.rewards
            self._ring.terminals[rows], self._ring.starts[rows] = piece.terminals, piece.starts
            for row, screens in zip(rows.tolist(), piece.screens, strict=True):
                self._screens.write(row, screens)
            oldest += len(rows)
        assert oldest == self._ring.position, "the log has not all that was held"
        self._rng.bit_generator.state = state["rng"]

    def _gather(self, indices: NDArray[np.int64]) -> Minibatch:
        """Return the transitions at `indices` int64 [B]."""
        if len(indices) != len(self._discounts):
            self._discounts = np.full(len(indices), self._discount_rate, np.float32)
        windows = self._ring.windows(indices)
        screens = self._screens.gather(windows, self._ring.hidden(windows))
        return Minibatch(
            prestates=screens[:, :-1],
            actions=self._actions.reshape(-1)[indices],
            rewards=self._rewards.reshape(-1)[indices],
            poststates=screens[:, 1:],
            terminals=self._ring.ended(indices),
            discounts=self._discounts,
            weights=np.ones_like(self._discounts),
        )

    def _require_same_shape(self, state: State) -> None:
        """Refuse the `state` of a memory that is not like this one."""
        theirs = (state["ring"]["rows"], state["games"], state["height"], state["width"])
        ours = (self._ring.rows, self._ring.games, *self._screen_shape)
        if theirs != ours:
            words = "{0} steps of {1} game(s) with screens of {3} x {2}".format
            raise UserError(
                f"the saved replay memory is for {words(*theirs)}, this one for {words(*ours)}: give the "
                "--replay_size, --workers, --screen_width and --screen_height it was saved with"
            )
