"""The replay memory: each screen is stored once, and the states of a minibatch are gathered from the screens.

`ReplayMemory` in `examples/dqn.py` is the simplest form. This one holds E games side by side, and has n-step
transitions, prioritized sampling, and several ways to store the screens.
"""

from collections.abc import Callable, Iterable

import numpy as np

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.samplers import SAMPLERS, Ring, Uniform, sampler_name
from simple_dqn.screens import ScreenStore, make_screens
from simple_dqn.types import (
    CONTEXT,
    CheckpointState,
    Experience,
    Floats,
    Ids,
    Minibatch,
    Rollout,
    States,
    Step,
)

# Bytes of an experience without its screen: action int64, reward float32; starts, terminal and excluded bool.
OTHER_BYTES = 8 + 4 + 1 + 1 + 1


def rows_for(config: MemoryConfig, games: int) -> int:
    """Return T, the number of rows of `games` experiences each that a memory has.

    They have room for `config.replay_size`, or for a rollout and the screens before it.
    """
    if config.rollout_steps:
        return config.rollout_steps + config.history_length
    return config.replay_size // games


class ReplayMemory:
    """The latest `replay_size` experiences of E games, and minibatches of transitions from them.

    The memory is a ring of T rows (see `rows_for`), one `Step` each. `samplers.py` defines the transitions
    and their states, and samples them; `screens.py` stores the screens.
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
        """Create an empty memory; the system allocates its pages as it fills.

        Args:
            config: The settings; `rules.check` requires room for `history_length` + `n_step` rows.
            games: E.
            screen_shape: Height and width of a screen, in pixels.
            discount_rate: γ.
            rng: The random stream of the sampling.
            screens: Stores the screens, `rows_for(config, games)` of each game; None: as `config` says.
            log: Called with each step that is added.

        Raises:
            UserError: This machine has too little memory.
        """
        rows, sampler = rows_for(config, games), SAMPLERS[sampler_name(config)]
        other_bytes = OTHER_BYTES + sampler.experience_bytes
        self._screens = screens or make_screens(config, rows, games, screen_shape, other_bytes)
        self._screen_shape = screen_shape
        self._actions = np.zeros((rows, games), np.int64)
        self._rewards = np.zeros((rows, games), np.float32)
        self._rollout_steps = config.rollout_steps
        self._returns = np.zeros((rows, games), np.float32) if config.rollout_steps else None
        self._ring = Ring(rows, games, config.history_length, config.n_step)
        self._sampler, self._uniform = sampler(self._ring, config), Uniform(self._ring, config)
        self.uses_errors = sampler.uses_errors  # whether `update_priorities` has an effect
        self._discounts = (discount_rate ** np.arange(config.n_step + 1)).astype(np.float32)  # γ^k by k
        self._rng = rng
        self._log = log

    @property
    def count(self) -> int:
        """The number of experiences held."""
        return self._ring.held * self._ring.games

    @property
    def taken(self) -> int:
        """The number of experiences added so far, which is the number of the next one."""
        return self._ring.written * self._ring.games

    @property
    def ready(self) -> bool:
        """Whether the memory has enough rows for a transition."""
        return self._ring.held >= self._ring.needed

    @property
    def nbytes(self) -> int:
        """Bytes of a full memory, on whichever device its screens are."""
        ring = self._ring
        others = (self._actions, self._rewards, ring.starts, ring.terminals, ring.excluded)
        return self._screens.nbytes + self._sampler.nbytes + sum(array.nbytes for array in others)

    def add(self, step: Step) -> None:
        """Store `step`; a full memory overwrites its oldest row."""
        row = self._ring.append(step.starts, step.terminals, step.actions == CONTEXT)
        self._screens.write(row, step.screens)
        self._actions[row] = step.actions
        self._rewards[row] = step.rewards
        if self._log:
            self._log(step)

    def sample(self, batch_size: int, steps: int = 0, sampler: Uniform | None = None) -> Minibatch:
        """Sample a minibatch, as the settings say or by another `sampler`.

        Args:
            batch_size: B.
            steps: Training steps so far, over all games; β of prioritized sampling depends on them.
            sampler: Draws the transitions; None: the one of the settings.

        Returns:
            Arrays that are valid until the next `sample` and must not be written to, since prestates and
            poststates may share memory. The states are on the GPU if the screens are.

        Raises:
            UserError: The memory holds no transition yet.
        """
        numbers, weights = (sampler or self._sampler).draw(batch_size, steps, self._rng)
        ring, indices = self._ring, numbers % self._ring.size
        if ring.n_step == 1:
            screens = self._screens.gather(*ring.windows(indices))
            prestates, poststates = screens[:, :-1], screens[:, 1:]  # they share S - 1 screens
            rewards = self._rewards.take(indices)[:, np.newaxis]
            lasts, discounts = indices, np.full(batch_size, self._discounts[1])
        else:
            through, lengths = ring.steps(indices)
            rewards = self._rewards.take(through)
            rewards[np.arange(ring.n_step) >= lengths[:, np.newaxis]] = 0
            lasts, discounts = through[np.arange(batch_size), lengths - 1], self._discounts[lengths]
            states = self._screens.gather(*ring.windows_of_states(indices, lasts))
            prestates, poststates = states[:batch_size], states[batch_size:]
        return Minibatch(
            prestates=prestates,
            actions=self._actions.take(indices),
            rewards=rewards,
            poststates=poststates,
            terminals=ring.terminals.take(lasts),
            discounts=discounts,
            weights=weights,
            numbers=numbers,
            returns=None if self._returns is None else self._returns.take(indices),
        )

    def sample_states(self, count: int) -> States:
        """Return the prestates uint8 [count, S, H, W] of uniformly sampled transitions, a new array."""
        return self._screens.on_host(self.sample(count, sampler=self._uniform).prestates)

    def rollout(self) -> Rollout:
        """Return the latest `rollout_steps` rows, oldest first; new arrays."""
        rows = self._ring.held_rows()[-self._rollout_steps :]
        return Rollout(self._rewards[rows], self._ring.terminals[rows], self._ring.starts[rows])

    def set_returns(self, returns: Floats) -> None:
        """Set the targets of the steps of `rollout`, float32 [T, E], for the minibatches from it."""
        assert self._returns is not None, "there are no rollouts"
        self._returns[self._ring.held_rows()[-self._rollout_steps :]] = returns

    def update_priorities(self, numbers: Ids, errors: Floats) -> None:
        """Set priorities from TD errors; this has no effect unless the sampler uses them.

        Args:
            numbers: int64 [N], `Minibatch.numbers` in the order of the updates; those of transitions that are
                no longer held are ignored.
            errors: float32 [N], absolute TD errors.
        """
        self._sampler.set_errors(numbers, errors)

    def get_state(self) -> CheckpointState:
        """Return the state for a checkpoint, without the experience, which is in the experience log."""
        return {
            "ring": self._ring.get_state(),
            "games": self._ring.games,
            "height": self._screen_shape[0],
            "width": self._screen_shape[1],
            "sampler": self._sampler.get_state(),
            "rng": self._rng.bit_generator.state,
        }

    def set_state(self, state: CheckpointState, experience: Iterable[Experience]) -> None:
        """Restore what `get_state` returned.

        Args:
            state: What `get_state` returned.
            experience: The rows that were held then, oldest first, in pieces.

        Raises:
            UserError: The state is that of a memory of another size, or of other games or screens.
        """
        self._require_same_shape(state)
        ring = self._ring
        ring.set_state(state["ring"])
        held, filled = ring.held_rows(), 0
        for piece in experience:
            rows = held[filled : filled + len(piece.actions)]
            ring.starts[rows], ring.terminals[rows] = piece.starts, piece.terminals
            ring.excluded[rows] = piece.starts | (piece.actions == CONTEXT)
            self._actions[rows], self._rewards[rows] = piece.actions, piece.rewards
            for row, screens in zip(rows.tolist(), piece.screens, strict=True):
                self._screens.write(row, screens)
            filled += len(rows)
        assert filled == len(held), "rows are missing in the experience log"
        self._sampler.set_state(state.get("sampler", {}))
        self._rng.bit_generator.state = state["rng"]

    def _require_same_shape(self, state: CheckpointState) -> None:
        """Check that `state` is that of a memory like this one.

        Raises:
            UserError: It is not.
        """
        theirs = (state["ring"]["rows"], state["games"], state["height"], state["width"])
        ours = (self._ring.rows, self._ring.games, *self._screen_shape)
        if theirs != ours:
            words = "{0} steps of {1} game(s) with screens of {3} x {2}".format
            raise UserError(
                f"the saved replay memory is for {words(*theirs)}, this one for {words(*ours)}: give the "
                "--replay_size, --workers, --screen_width and --screen_height it was saved with"
            )
