"""The replay memory: each screen is stored once, and the states of a minibatch are gathered from the screens.

`ReplayMemory` in `examples/dqn.py` is the simplest form. This one holds E games side by side, and has n-step
transitions, prioritized sampling, and several ways to store the screens.
"""

import logging
import math
import sys
from collections.abc import Callable, Iterable, Iterator

import lz4.block
import numpy as np

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.machine import SHARE, available_memory, gigabytes
from simple_dqn.samplers import SAMPLERS, Ring, Uniform, check_drawn, no_transition
from simple_dqn.types import (
    CONTEXT,
    Actions,
    CheckpointState,
    DeviceStates,
    Experience,
    Floats,
    Ids,
    Indices,
    Mask,
    Minibatch,
    Rewards,
    Screens,
    States,
    Step,
    observation_dtype,
    on_host,
)

logger = logging.getLogger(__name__)

# Bytes of an experience without its screen: action int64, reward float32; starts, terminal and excluded bool.
OTHER_BYTES = 8 + 4 + 1 + 1 + 1
CHECK_BYTES = 1 << 20  # of compressed screens, between two looks at the free memory
RESERVED = 100 * 10**6  # bytes of memory to leave free
# Bytes of a screen besides its compressed pixels: the entry in the list, and Python's `bytes` object, whose
# size is rounded up to 16 bytes.
ENTRY, OBJECT = 8, sys.getsizeof(b"") + 8


class ReplayMemory:
    """The latest `replay_size` experiences of E games, and minibatches of transitions from them.

    The memory is a ring of T rows (`MemoryConfig.rows`), one `Step` each. `samplers.py` defines and samples
    the transitions and their states; `HostScreens` or a subclass stores the screens.
    """

    def __init__(
        self, config: MemoryConfig, games: int, screen_shape: tuple[int, ...], discount_rate: float,
        rng: np.random.Generator, screens: "HostScreens | None" = None,
        log: Callable[[Step], None] | None = None,
    ) -> None:  # fmt: skip
        """Create an empty memory of E = `games`; the system allocates its pages as it fills.

        `discount_rate` is γ, and `rng` the random stream of the sampling. `screens` stores the screens,
        `config.rows(games)` of each game; None: as `config` says. `log` is called with each step added.

        Raises:
            UserError: This machine has too little memory.
        """
        rows = config.rows(games)
        sampler = Uniform if config.rollout_steps else SAMPLERS[config.sampler]  # rollouts draw without one
        self._screens = screens or make_screens(config, rows, games, screen_shape)
        self._actions = np.zeros((rows, games), np.int64)
        self._rewards = np.zeros((rows, games), np.float32)
        self.rollout_steps = config.rollout_steps
        self._ring = Ring(rows, games, config.history_length, config.n_step)
        self._sampler, self._uniform = sampler(self._ring, config), Uniform(self._ring, config)
        self.uses_errors = sampler.uses_errors  # whether `update_priorities` has an effect
        self._own_sampler = "" if sampler.__module__ == Uniform.__module__ else config.sampler  # a user's
        self._discounts = (discount_rate ** np.arange(config.n_step + 1)).astype(np.float32)  # γ^k by k
        self._rng = rng
        self._log = log

    @property
    def count(self) -> int:
        """The number of experiences held."""
        return self._ring.held * self._ring.games

    @property
    def added(self) -> int:
        """The number of experiences added so far, which is the number of the next one."""
        return self._ring.written * self._ring.games

    @property
    def ready(self) -> bool:
        """Whether the memory has enough rows for a transition."""
        return self._ring.held >= self._ring.needed

    def add(self, step: Step) -> None:
        """Store `step`; a full memory overwrites its oldest row."""
        row = self._ring.append(step.starts, step.terminals, step.actions == CONTEXT)
        self._screens.write(row, step.screens)
        self._actions[row] = step.actions
        self._rewards[row] = step.rewards
        if self._log:
            self._log(step)

    def sample(self, batch_size: int, steps: int = 0, sampler: Uniform | None = None) -> Minibatch:
        """Sample a minibatch of B = `batch_size`, by the sampler of the settings or another.

        β of prioritized sampling depends on `steps`, the training steps so far over all games.

        Returns:
            Arrays that are valid until the next `sample` and must not be written to, since prestates and
            poststates may share memory. The states are on the GPU if the screens are.

        Raises:
            UserError: The memory holds no transition yet, or a sampler of the user's drew none.
        """
        ring, drawn = self._ring, (sampler or self._sampler).draw(batch_size, steps, self._rng)
        if self._own_sampler:
            check_drawn(drawn, batch_size, ring, self._own_sampler)
        numbers, weights = drawn
        indices = numbers % ring.size
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
        )

    def sample_states(self, count: int) -> States:
        """Return the prestates [count, S, H, W] of uniformly sampled transitions, a new array."""
        return np.array(on_host(self.sample(count, sampler=self._uniform).prestates))

    def rollout(self) -> tuple[Rewards, Mask, Mask]:
        """Return rewards, terminals and starts of the latest T = `rollout_steps` rows: new arrays [T, E]."""
        rows = self._ring.held_rows()[-self.rollout_steps :]
        return self._rewards[rows], self._ring.terminals[rows], self._ring.starts[rows]

    def sample_rollout(
        self, count: int, batch_size: int, returns: Floats
    ) -> Iterator[tuple[Indices, Actions, Floats]]:
        """Yield `count` minibatches of B = `batch_size` rollout steps, in one random order after another.

        `returns` are those of its steps, float32 [T, E]. A minibatch has the steps' places in the rollout,
        step · E + game with steps from 0 to T - 1, int64 [B]; actions int64 [B]; and returns float32 [B].
        """
        rows = self._ring.held_rows()[-self.rollout_steps :]
        actions, places = self._actions[rows], np.flatnonzero(~self._ring.excluded[rows])
        if not places.size:
            raise no_transition(self._ring)
        order = np.empty(0, np.int64)
        for _ in range(count):
            while len(order) < batch_size:
                order = np.concatenate((order, self._rng.permutation(places)))
            drawn, order = np.split(order, [batch_size])
            yield drawn, actions.take(drawn), returns.take(drawn)

    def update_priorities(self, numbers: Ids, errors: Floats) -> None:
        """Give the sampler, if it uses them, the absolute TD errors float32 [N] of updates, in their order.

        `numbers` int64 [N] are `Minibatch.numbers`; those of transitions no longer held are ignored.
        """
        self._sampler.set_errors(numbers, errors)

    def get_state(self) -> CheckpointState:
        """Return the state for a checkpoint, without the experience, which is in the experience log."""
        return {
            "ring": self._ring.get_state(),
            "sampler": self._sampler.get_state(),
            "rng": self._rng.bit_generator.state,
        }

    def set_state(self, state: CheckpointState, experience: Iterable[Experience]) -> None:
        """Restore what `get_state` returned; `experience` yields the rows in pieces, oldest first."""
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
        if state["sampler"] is not None:  # else it was another sampler
            self._sampler.set_state(state["sampler"])
        self._rng.bit_generator.state = state["rng"]


class HostScreens:
    """T rows of E screens each, uncompressed in the host's memory; an index is row * E + game."""

    def __init__(self, rows: int, games: int, screen_shape: tuple[int, ...]) -> None:
        """Create storage for `rows` screens of each game; the system allocates pages as it is written."""
        kind = observation_dtype(screen_shape)
        self._screens: Screens = np.empty((rows, games, *screen_shape), kind)
        self._flat = self._screens.reshape(rows * games, math.prod(screen_shape))  # [T * E, H * W]
        # [B, K, H, W], overwritten by `gather`
        self._gathered: States = np.empty((0, 0, *screen_shape), kind)

    @property
    def nbytes(self) -> int:
        """Bytes of the screens of a full memory."""
        return self._screens.nbytes

    def write(self, row: int, screens: Screens | DeviceStates) -> None:
        """Store `screens` uint8 [E, H, W] as `row`."""
        self._screens[row] = on_host(screens)

    def gather(self, windows: Indices, hidden: Mask) -> States | DeviceStates:
        """Return the screens at `windows` int64 [B, K], uint8 [B, K, H, W]; valid until the next call.

        `hidden` bool [B, L] says which of the first L screens of each window are zero.
        """
        if self._gathered.shape[:2] != windows.shape:
            self._gathered = np.empty((*windows.shape, *self._gathered.shape[2:]), self._gathered.dtype)
        self._read(windows.reshape(-1))
        self._gathered[:, : hidden.shape[1]][hidden] = 0
        return self._gathered

    def _read(self, indices: Indices) -> None:
        """Copy the screens at `indices` int64 [B * K] to `_gathered`."""
        # With "clip", unlike "raise", numpy writes directly to `out`. All indices are in range.
        np.take(self._flat, indices, axis=0, out=self._gathered.reshape(len(indices), -1), mode="clip")


class CompressedScreens(HostScreens):
    """The screens as LZ4 blocks, without loss; their final size is unknown, so memory may run short."""

    def __init__(self, rows: int, games: int, screen_shape: tuple[int, ...]) -> None:
        super().__init__(0, games, screen_shape)
        self._games = games
        self._size = math.prod(screen_shape) * observation_dtype(screen_shape).itemsize  # bytes
        self._blocks = [b""] * (rows * games)  # [T * E], LZ4 blocks; empty: none yet
        self._unchecked_bytes = CHECK_BYTES  # of the blocks since the latest look at the free memory

    @property
    def nbytes(self) -> int:
        """Bytes of the screens so far, and of the full list of them."""
        return ENTRY * len(self._blocks) + sum(OBJECT + len(block) for block in self._blocks if block)

    def write(self, row: int, screens: Screens | DeviceStates) -> None:
        """Store `screens` uint8 [E, H, W] as `row`; a UserError says that memory runs short."""
        for index, screen in enumerate(on_host(screens), row * self._games):
            block = lz4.block.compress(np.ascontiguousarray(screen), store_size=False)
            self._unchecked_bytes += len(block)
            if self._unchecked_bytes > CHECK_BYTES:
                self._unchecked_bytes = 0
                if (available := available_memory()) < RESERVED:
                    held = sum(map(bool, self._blocks))
                    raise UserError(
                        f"the replay memory takes {gigabytes(self.nbytes)} for {held} of "
                        f"{len(self._blocks)} experiences and this machine has {gigabytes(available)} left: "
                        "lower --replay_size"
                    )
            self._blocks[index] = block

    def _read(self, indices: Indices) -> None:
        """Decompress the screens at `indices` int64 [B * K] into `_gathered`."""
        pixels, size = self._gathered.reshape(-1).view(np.uint8).data, self._size
        for place, index in enumerate(indices.tolist()):
            if block := self._blocks[index]:  # before row 0 there is none, and `gather` hides the screen
                screen = lz4.block.decompress(block, uncompressed_size=size)
                pixels[place * size : (place + 1) * size] = screen


def make_screens(config: MemoryConfig, rows: int, games: int, screen_shape: tuple[int, ...]) -> HostScreens:
    """Return storage for T = `rows` screens of each game; warn if compressed screens may not fit.

    Raises:
        UserError: This machine has too little memory; the message suggests a --replay_size that fits.
    """
    store = CompressedScreens if config.replay_compression == "lz4" else HostScreens
    count, spare = rows * games, int(SHARE * available_memory())
    size = math.prod(screen_shape) * observation_dtype(screen_shape).itemsize  # bytes of a screen
    least = most = size + OTHER_BYTES  # bytes of an experience
    if store is CompressedScreens:  # a thirtieth of the size in Pong, and up to a third in the busiest games
        least, most = (int(size / n) + ENTRY + OBJECT + OTHER_BYTES for n in (30, 3))
    if count * most <= spare:
        return store(rows, games, screen_shape)
    needed = " to ".join(gigabytes(count * each) for each in sorted({least, most}))
    complaint = f"needs {needed} of memory and this machine can spare {gigabytes(spare)}"
    if config.rollout_steps:
        raise UserError(f"--rollout_steps {config.rollout_steps} {complaint}: lower it or --workers")
    digits = max(0, len(str(spare // most)) - 2)  # to round: the free memory changes all the time
    fits = spare // most // 10**digits * 10**digits
    complaint = f"--replay_size {count} {complaint}: --replay_size {fits} fits"
    if store is HostScreens:
        raise UserError(f"{complaint}, and more with --replay_compression lz4")
    if count * least > spare:
        raise UserError(complaint)
    logger.warning("%s in any case", complaint)
    return store(rows, games, screen_shape)
