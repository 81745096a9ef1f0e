"""The replay memory: every screen once, and transitions drawn from it by slicing.

The plain form is `ReplayMemory` in `examples/dqn.py`. This one differs in that it holds E games side by
side, makes transitions of up to n steps, can keep some rows for good, draws by priority if it is asked to,
and can store the screens elsewhere than in an array.
"""

from collections.abc import Callable, Iterable

import numpy as np

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.replay_memory import uniform
from simple_dqn.replay_memory.prioritized import Prioritized
from simple_dqn.replay_memory.screens import ScreenStore, make_screens
from simple_dqn.replay_memory.transitions import TransitionRing
from simple_dqn.replay_memory.uniform import Uniform
from simple_dqn.types import CONTEXT, CheckpointState, Experience, Factors, Minibatch, Numbers, States, Step

# Bytes of an experience beside its screen: action int64, reward float32; starts, terminal and excluded bool.
OTHER_BYTES = 8 + 4 + 1 + 1 + 1

# What draws the transitions, by --prioritized.
SAMPLERS: dict[bool, type[Uniform] | type[Prioritized]] = {False: Uniform, True: Prioritized}


def rows_for(config: MemoryConfig, games: int) -> int:
    """Return how many steps of `games` games a memory of `config.replay_size` experiences holds."""
    return config.replay_size // games


class ReplayMemory:
    """The latest `replay_size` experiences of E games, from which minibatches are drawn.

    A ring of T = replay_size // E rows (`ring.py`), one `Step` each. `transitions.py` says which rows are
    transitions and which screens their states show; `uniform.py` and `prioritized.py` draw them;
    `screens.py` stores the screens.
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

        Args:
            config: Its size, at least `history_length` + `n_step` for each game, as `rules.check` requires.
            games: E, how many games each step brings.
            screen_shape: Height and width of a screen, in pixels.
            discount_rate: γ, what a value one step later is multiplied by.
            rng: The random stream that draws the minibatches.
            screens: Where to store the screens instead, with room for `rows_for(config, games)` of each game.
            log: Is given every step that is added, to write it down.

        Raises:
            UserError: This machine has too little memory, or `config.replay_file` cannot be used.
        """
        rows, sampler = rows_for(config, games), SAMPLERS[config.prioritized]
        other_bytes = OTHER_BYTES + sampler.experience_bytes
        self._screens = screens or make_screens(config, rows, games, screen_shape, other_bytes)
        self._screen_shape = screen_shape
        self._actions = np.zeros((rows, games), np.int64)
        self._rewards = np.zeros((rows, games), np.float32)
        self._ring = TransitionRing(rows, games, config.history_length, config.n_step)
        self._sampler = sampler(self._ring, config)
        self.prioritized = config.prioritized  # whether `update_priorities` makes a difference
        self._discounts = (discount_rate ** np.arange(config.n_step + 1)).astype(np.float32)  # by steps made
        self._rng = rng
        self._log = log

    @property
    def count(self) -> int:
        """How many experiences are held, which is how many screens."""
        return self._ring.held * self._ring.games

    @property
    def taken(self) -> int:
        """How many experiences were added so far: the number of the next one."""
        return self._ring.written * self._ring.games

    @property
    def ready(self) -> bool:
        """Whether there are enough screens for `sample`."""
        return self._ring.held >= self._ring.needed

    @property
    def nbytes(self) -> int:
        """Bytes of a full memory, wherever its screens lie."""
        ring = self._ring
        others = (self._actions, self._rewards, ring.starts, ring.terminals, ring.excluded)
        return self._screens.nbytes + self._sampler.nbytes + sum(array.nbytes for array in others)

    def add(self, step: Step) -> None:
        """Store what `step` brought, in place of the oldest experiences once the memory is full."""
        row = self._ring.append(step.starts, step.terminals, step.actions == CONTEXT)
        self._screens.write(row, step.screens)
        self._actions[row] = step.actions
        self._rewards[row] = step.rewards
        self._sampler.on_append()
        if self._log:
            self._log(step)

    def keep(self) -> None:
        """Never overwrite what is held now, which leaves enough room; the next `step` starts every game.

        Demonstrations stay in the memory for good (Hester et al. 2018, section 4).
        """
        assert self._ring.held + self._ring.needed <= self._ring.rows
        self._ring.keep()
        self._sampler.set_state(self._sampler.get_state())  # All that is kept can be drawn at once.

    def sample(self, batch_size: int, steps: int = 0) -> Minibatch:
        """Draw transitions with replacement: uniformly over all games, or by priority.

        Args:
            batch_size: B, how many.
            steps: Steps of training so far, over all games, by which β rises.

        Returns:
            Arrays that are valid until the next `sample`. The two states of a transition may share
            memory, so they must not be written to. Where the screens lie on a GPU, so do the states.

        Raises:
            UserError: The memory holds no transition yet.
        """
        return self._gather(*self._sampler.draw(batch_size, steps, self._rng))

    def sample_states(self, count: int) -> States:
        """Draw the prestates of `count` transitions, each as likely as any other; a fresh array."""
        numbers = uniform.draw(self._ring, count, self._rng)
        return self._screens.on_host(self._gather(numbers, np.ones(count, np.float32)).prestates)

    def update_priorities(self, numbers: Numbers, errors: Factors) -> None:
        """Hear how wrong the latest predictions were for transitions that were drawn.

        Without `prioritized` it makes no difference.

        Args:
            numbers: int64 [N], those of minibatches, in the order of their updates. What has left the
                memory since is ignored.
            errors: float32 [N], ≥ 0.
        """
        self._sampler.update(numbers, errors)

    def contents(self) -> Experience:
        """Return all that is held, row by row as it lies in the ring, valid until the next `add`.

        Screens on a GPU and compressed ones are copied; all else are views.
        """
        held, ring = self._ring.held, self._ring
        return Experience(
            screens=self._screens.first(held),
            actions=self._actions[:held],
            rewards=self._rewards[:held],
            terminals=ring.terminals[:held],
            starts=ring.starts[:held],
        )

    def get_state(self) -> CheckpointState:
        """Return all that is needed to go on, but for the experience itself, which the log has."""
        return {
            "ring": self._ring.get_state(),
            "games": self._ring.games,
            "height": self._screen_shape[0],
            "width": self._screen_shape[1],
            "sampler": self._sampler.get_state(),
            "rng": self._rng.bit_generator.state,
        }

    def set_state(self, state: CheckpointState, experience: Iterable[Experience]) -> None:
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
            self._ring.write(rows, piece.starts, piece.terminals, piece.actions == CONTEXT)
            self._actions[rows], self._rewards[rows] = piece.actions, piece.rewards
            for row, screens in zip(rows.tolist(), piece.screens, strict=True):
                self._screens.write(row, screens)
            filled += len(rows)
        assert filled == len(held), "the log has not all that was held"
        self._sampler.set_state(state.get("sampler", {}))
        self._rng.bit_generator.state = state["rng"]

    def _gather(self, numbers: Numbers, weights: Factors) -> Minibatch:
        """Return the transitions with these `numbers` int64 [B] and `weights` float32 [B]."""
        ring, count = self._ring, len(numbers)
        indices = ring.indices(numbers)
        if ring.n_step == 1:
            windows = ring.windows(indices)
            screens = self._screens.gather(windows, ring.hidden(windows))
            prestates, poststates = screens[:, :-1], screens[:, 1:]  # They share all but one screen each.
            rewards = self._rewards.take(indices)[:, np.newaxis]
            lasts, discounts = indices, np.full(count, self._discounts[1])
        else:
            through, steps = ring.steps(indices)
            rewards = self._rewards.take(through)
            rewards[np.arange(ring.n_step) >= steps[:, np.newaxis]] = 0
            lasts, discounts = through[np.arange(count), steps - 1], self._discounts[steps]
            states = self._screens.gather(*ring.windows_of_states(indices, lasts))
            prestates, poststates = states[:count], states[count:]
        return Minibatch(
            prestates=prestates,
            actions=self._actions.take(indices),
            rewards=rewards,
            poststates=poststates,
            terminals=ring.terminals.take(lasts),
            discounts=discounts,
            weights=weights,
            numbers=numbers,
        )

    def _require_same_shape(self, state: CheckpointState) -> None:
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
