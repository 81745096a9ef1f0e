"""The replay memory: every screen once, transitions drawn from it by slicing."""

from collections.abc import Callable, Iterable

import numpy as np

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.replay_memory import uniform
from simple_dqn.replay_memory.prioritized import Prioritized
from simple_dqn.replay_memory.ring import Ring
from simple_dqn.replay_memory.screens import ScreenStore, make_screens
from simple_dqn.replay_memory.uniform import Uniform
from simple_dqn.types import CONTEXT, Experience, Factors, Indices, Minibatch, State, States, Step

# Bytes of an experience beside its screen: action int64, reward float32; starts, terminal and barren bool.
OTHER_BYTES = 8 + 4 + 1 + 1 + 1

# Who chooses what is drawn, by --prioritized.
SAMPLERS: dict[bool, type[Uniform] | type[Prioritized]] = {False: Uniform, True: Prioritized}


def rows_for(config: MemoryConfig, games: int) -> int:
    """Return of how many steps of `games` games a memory of `config.replay_size` experiences consists."""
    return config.replay_size // games


class ReplayMemory:
    """The latest `replay_size` experiences of E games, from which minibatches are drawn.

    A ring of T = replay_size // E rows, one `Step` each; the oldest is overwritten, but for what it
    was told to `keep`. What a transition is, and which screens its states show, stands at the top of
    `ring.py`. Which are drawn is the affair of `uniform.py` or `prioritized.py`, how a screen is kept
    that of `screens.py`.
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
            config: Its size, at least `history_length` + `n_step` for each game; `rules.check` sees to that.
            games: E, how many games each step brings.
            screen_shape: Height and width of a screen, in pixels.
            discount_rate: γ, what a value one step later is multiplied by.
            rng: The random stream that draws the minibatches.
            screens: Where the screens lie instead, with room for `rows_for(config, games)` of each game.
            log: Is given every step that is kept, to write it down.

        Raises:
            UserError: This machine has too little memory, or the file cannot be used.
        """
        rows, sampler = rows_for(config, games), SAMPLERS[config.prioritized]
        other_bytes = OTHER_BYTES + sampler.experience_bytes
        self._screens = screens or make_screens(config, rows, games, screen_shape, other_bytes)
        self._screen_shape = screen_shape
        self._actions = np.zeros((rows, games), np.int64)
        self._rewards = np.zeros((rows, games), np.float32)
        self._ring = Ring(rows, games, config.history_length, config.n_step)
        self._sampler = sampler(self._ring, config)
        self.prioritized = config.prioritized  # whether errors are to be told
        self._discounts = (discount_rate ** np.arange(config.n_step + 1)).astype(np.float32)  # by steps made
        self._rng = rng
        self._log = log

    @property
    def count(self) -> int:
        """How many experiences are held, which is how many screens."""
        return self._ring.held * self._ring.games

    @property
    def taken(self) -> int:
        """How many experiences were taken in so far: the number of the one that comes next."""
        return self._ring.written * self._ring.games

    @property
    def ready(self) -> bool:
        """Whether there are screens enough for `sample` to draw from."""
        return self._ring.held >= self._ring.needed

    @property
    def nbytes(self) -> int:
        """Bytes of a full memory, wherever its screens lie."""
        ring = self._ring
        others = (self._actions, self._rewards, ring.starts, ring.terminals, ring.barren)
        return self._screens.nbytes + self._sampler.nbytes + sum(array.nbytes for array in others)

    def add(self, step: Step) -> None:
        """Keep what `step` brought, in place of the oldest experiences once the memory is full."""
        row = self._ring.append(step.starts, step.terminals, step.actions == CONTEXT)
        self._screens.write(row, step.screens)
        self._actions[row] = step.actions
        self._rewards[row] = step.rewards
        self._sampler.on_append()
        if self._log:
            self._log(step)

    def keep(self) -> None:
        """Never overwrite what is held now, which leaves room enough; the next `step` starts every game.

        Demonstrations stay in the memory for good (Hester et al. 2018, section 4).
        """
        self._ring.keep()
        self._sampler.set_state(self._sampler.get_state())  # Of what is kept all can be drawn at once.

    def sample(self, batch_size: int, steps: int = 0) -> Minibatch:
        """Draw transitions with replacement: uniformly over all games, or by priority.

        Args:
            batch_size: B, how many.
            steps: Steps of training so far, over all games, by which β rises.

        Returns:
            Arrays that are valid until the next `sample`; the states may be two views of the same
            screens, so to write into one is to write into the other. Where the screens lie on a GPU,
            so do the states.

        Raises:
            UserError: The memory holds no transition yet.
        """
        return self._gather(*self._sampler.draw(batch_size, steps, self._rng))

    def sample_states(self, count: int) -> States:
        """Draw the prestates of `count` transitions, each as likely as any other; a fresh array."""
        numbers = uniform.draw(self._ring, count, self._rng)
        return self._screens.on_host(self._gather(numbers, np.ones(count, np.float32)).prestates)

    def update_priorities(self, indices: Indices, errors: Factors) -> None:
        """Hear how wrong the latest predictions were for transitions that were drawn.

        Where all are drawn alike nothing comes of it.

        Args:
            indices: int64 [N], those of minibatches, in the order of their updates. What has left the
                memory since is passed over.
            errors: float32 [N], ≥ 0.
        """
        self._sampler.update(indices, errors)

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
            "sampler": self._sampler.get_state(),
            "rng": self._rng.bit_generator.state,
        }

    def set_state(self, state: State, experience: Iterable[Experience]) -> None:
        """Go on from what `get_state` returned, as if nothing had happened.

        Args:
            state: What `get_state` returned.
            experience: The rows that were held then, as they were logged, oldest first, in pieces.

        Raises:
            UserError: It is the state of a memory of another size, or of other games or screens.
        """
        self._require_same_shape(state)
        self._ring.set_state(state["ring"])
        held, filled = self._ring.held_rows(), 0
        for piece in experience:
            rows = held[filled : filled + len(piece.actions)]
            self._actions[rows], self._rewards[rows] = piece.actions, piece.rewards
            self._ring.terminals[rows], self._ring.starts[rows] = piece.terminals, piece.starts
            self._ring.barren[rows] = piece.starts | (piece.actions == CONTEXT)
            for row, screens in zip(rows.tolist(), piece.screens, strict=True):
                self._screens.write(row, screens)
            filled += len(rows)
        assert filled == len(held), "the log has not all that was held"
        self._sampler.set_state(state.get("sampler", {}))
        self._rng.bit_generator.state = state["rng"]

    def _gather(self, numbers: Indices, weights: Factors) -> Minibatch:
        """Return the transitions with these `numbers` int64 [B] and `weights` float32 [B]."""
        return (self._one_step if self._ring.n_step == 1 else self._many_steps)(numbers, weights)

    def _one_step(self, numbers: Indices, weights: Factors) -> Minibatch:
        """Return transitions of one step: most screens of a prestate are those of its poststate."""
        indices = self._ring.indices(numbers)
        windows = self._ring.windows(indices)
        screens = self._screens.gather(windows, self._ring.hidden(windows))
        return Minibatch(
            prestates=screens[:, :-1],
            actions=self._actions.reshape(-1)[indices],
            rewards=self._rewards.reshape(-1)[indices, np.newaxis],
            poststates=screens[:, 1:],
            terminals=self._ring.ended(indices),
            discounts=np.full(len(indices), self._discounts[1]),
            weights=weights,
            indices=numbers,
        )

    def _many_steps(self, numbers: Indices, weights: Factors) -> Minibatch:
        """Return transitions of up to n steps."""
        count, ring = len(numbers), self._ring
        indices = ring.indices(numbers)
        rows, steps = ring.steps(indices)
        lasts = rows[np.arange(count), steps - 1]
        rewards = self._rewards.reshape(-1)[rows]
        rewards[np.arange(ring.n_step) >= steps[:, np.newaxis]] = 0
        states = self._screens.gather(*ring.windows_of_states(indices, lasts))
        return Minibatch(
            prestates=states[:count],
            actions=self._actions.reshape(-1)[indices],
            rewards=rewards,
            poststates=states[count:],
            terminals=ring.ended(lasts),
            discounts=self._discounts[steps],
            weights=weights,
            indices=numbers,
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
        room, needed = self._ring.rows - state["ring"].get("kept", 0), self._ring.needed
        if room < needed:
            raise UserError(
                f"beside its demonstrations the saved replay memory has room for {room} screens of a game "
                f"and a transition needs {needed}: lower --n_step"
            )
