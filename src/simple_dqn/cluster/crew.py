"""The actors: started, asked, listened to, and started again when they are gone."""

import logging
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from simple_dqn.cluster.actor import Actor
from simple_dqn.cluster.chunk import Chunk, Task, about_this_machine
from simple_dqn.cluster.lane import Lane
from simple_dqn.cluster.remote_games import RemoteGames
from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.types import ExplorationRates

logger = logging.getLogger(__name__)

IN_FLIGHT = 2  # chunks that an actor was asked for: while one travels, and waits its turn, it plays the other
PATIENCE = 0.2  # seconds after which the caller has a say again
PAUSE = 5.0  # seconds before an actor that never came to play is started again
ATTEMPTS = 3  # of an actor, when nothing has been played by any


@dataclass(eq=False)
class Post:
    """The place of one actor, whoever fills it.

    Attributes:
        number: Which place, from 0.
        life: How many have filled it before.
        actor: Ray's handle of it.
        host: The machine that it is on, once it has said so;
        process: and its process there.
        asked: What it was asked for and has not answered: each with the name of the method, oldest first.
        chunks: How many of its chunks have come.
        lane: Where they go.
        failures: How many in a row never came to play.
        not_before: When it may be started, in seconds of the monotonic clock.
    """

    number: int
    life: int = -1
    actor: Any = None
    host: str = ""
    process: int = 0
    asked: deque[tuple[str, Any]] = field(default_factory=deque)
    chunks: int = 0
    lane: Lane = None  # type: ignore[assignment] # there is one as soon as there is an actor
    failures: int = 0
    not_before: float = 0.0

    @property
    def ordered(self) -> int:
        """Chunks that it was asked for and has not sent."""
        return sum(method == "play" for method, _ in self.asked)


class Crew:
    """N posts, and what they have in flight.

    An actor's answers come in the order in which it was asked. Whatever goes wrong with one, it is given up
    with all that it had in flight, so that no chunk is taken twice and none without those before it; and
    another takes its post, with new games, wherever on the cluster there is room.
    """

    def __init__(self, config: Config, games: RemoteGames) -> None:
        """Have posts for `config.cluster.actors`, who are to play `games`."""
        self._config, self._games = config, games
        self._posts = [Post(number) for number in range(config.cluster.actors)]
        self._kind = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Actor)
        self._played = False  # whether any chunk has come yet

    @property
    def alive(self) -> int:
        """Actors that have answered and are not known to be gone."""
        return sum(bool(post.host) for post in self._posts)

    @property
    def steps_in_flight(self) -> int:
        """Steps that actors were asked for and have not sent."""
        return sum(post.ordered for post in self._posts) * self.steps_of_a_chunk

    @property
    def steps_of_a_chunk(self) -> int:
        """Steps over all games of an actor."""
        return self._config.cluster.chunk_steps * self._config.environment.workers

    def free(self) -> Iterator[Post]:
        """Yield the posts that may be asked for another chunk, those with least to do first.

        One whose actor has not greeted yet may wait for a free core for ever. What it were asked for would
        count as in flight, and might be all that may be.
        """
        for ordered in range(IN_FLIGHT):
            yield from [post for post in self._posts if post.host and post.ordered == ordered]

    def ask(self, post: Post, weights: Any, version: int, exploration_rate: float | ExplorationRates) -> None:
        """Ask for a chunk, played by `weights` (Ray's reference to them, or None); see `Actor.play`."""
        post.asked.append(("play", post.actor.play.remote(weights, version, exploration_rate)))

    def next(self) -> tuple[Post, Chunk] | None:
        """Return the next chunk and whose it is; None: none came within `PATIENCE`.

        Raises:
            UserError: No actor can be started, or one is of another version or has no such game.
        """
        self._fill_posts()
        waiting = {post.asked[0][1]: post for post in self._posts if post.asked}
        if not waiting:
            time.sleep(PATIENCE)
            return None
        ready, _ = ray.wait(list(waiting), num_returns=1, timeout=PATIENCE)
        if not ready:
            return None
        post = waiting[ready[0]]
        # Whoever was waited for goes to the end, so that where many are ready all have their turn.
        self._posts.remove(post)
        self._posts.append(post)
        method, reference = post.asked.popleft()
        try:
            came: tuple[Post, Chunk] | None = ANSWERS[method](self, post, ray.get(reference))
            return came
        except (RayError, UserError) as error:
            self._give_up(post, error)
            return None

    def close(self) -> None:
        """End all actors, at once."""
        for post in self._posts:
            if post.actor:
                ray.kill(post.actor)
                post.actor, post.host = None, ""
                post.asked.clear()

    def _fill_posts(self) -> None:
        """Start an actor for each post that has none, on whichever machine has room, now or later."""
        memory = self._config.memory
        for post in self._posts:
            if post.actor or time.monotonic() < post.not_before:
                continue
            post.life += 1
            post.chunks, post.lane = 0, Lane(memory.history_length, memory.n_step)
            post.actor = self._kind.remote()
            post.asked.append(("greet", post.actor.greet.remote()))
            task = Task(self._config, post.number, post.life, self._games.sitting)
            post.asked.append(("begin", post.actor.begin.remote(task)))

    def _greeted(self, post: Post, theirs: dict[str, str]) -> None:
        host, ours = theirs["host"], about_this_machine()
        for what in ("Python", "project"):
            if theirs[what] != ours[what]:
                raise UserError(
                    f"{host} has {what} {theirs[what]} and this machine {ours[what]}: install the same "
                    "version of Python and of this project on every machine of the cluster"
                )
        post.host, post.process = host, int(theirs["process"])

    def _begun(self, post: Post, rom: str | None) -> None:
        ours = self._games.rom_md5
        if rom != ours:
            raise UserError(
                f"{post.host} has another ROM of this game (MD5 {rom}, here {ours}): put the same file "
                "on every machine of the cluster"
            )

    def _sent(self, post: Post, chunk: Chunk) -> tuple[Post, Chunk]:
        assert chunk.number == post.chunks, "a chunk was lost, or has come twice"
        post.chunks += 1
        post.failures = 0
        self._played = True
        return post, chunk

    def _give_up(self, post: Post, error: Exception) -> None:
        """Let go of the actor at `post`, for which `error` is the reason, and of all that it had in flight.

        Raises:
            UserError: Nothing was ever played, and so it will be with the next.
        """
        reason = said(error)
        where = f"actor {post.number}" + (f" on {post.host} (process {post.process})" if post.host else "")
        if not post.chunks:
            post.failures += 1
            post.not_before = time.monotonic() + PAUSE
        understood = isinstance(error, UserError) or isinstance(getattr(error, "cause", None), UserError)
        if not self._played and (understood or post.failures >= ATTEMPTS):
            raise UserError(f"{where} cannot play: {reason}")
        logger.warning("%s is gone (%s): another is started", where.capitalize(), reason)
        ray.kill(post.actor)
        post.actor, post.host = None, ""
        post.asked.clear()


def said(error: Exception) -> str:
    """Return in one line what `error` comes down to."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    if "No module named 'simple_dqn'" in str(cause):
        return "its machine has no such project: install it, or put it on the PYTHONPATH of `ray start`"
    if isinstance(cause, UserError) or not lines:
        return str(cause) or type(cause).__name__
    return f"{type(cause).__name__}: {lines[0][:200]}"


# What an actor's answer is followed by, by the name of the method.
ANSWERS: dict[str, Any] = {"greet": Crew._greeted, "begin": Crew._begun, "play": Crew._sent}
