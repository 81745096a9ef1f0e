"""Deep Q-learning in one file, from the screen to the score: Mnih et al. 2015. Run it with ./dqn.sh pong.

Nature 518, Algorithm 1 and Methods; the optimizer and no-ops are simple_dqn's (docs/deviations.md).
Shapes: B transitions in a minibatch, A actions, 4 screens in a state, 84 x 84 pixels in a screen.
"""

import argparse
import signal
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, get_args

import ale_py.roms
import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Pixels = NDArray[np.uint8]
HISTORY = 4  # screens in a state: one frame does not show which way the ball moves
NO_STATE = np.zeros((HISTORY, 84, 84), np.uint8)
LEAST, MOST = {"random_steps": 0, "epochs": 0, "random_seed": 0, "replay_size": 100}, {"batch_size": 10_000}


@dataclass
class Settings:
    """Extended data table 1, with periods in steps, as in DeepMind's code. A step is a decision: 4 frames."""

    replay_size: Annotated[int, "steps in memory; each has one screen of 7 kB, 7 GB in total"] = 1_000_000
    random_steps: Annotated[int, "steps of random play before the first update"] = 50_000
    train_frequency: Annotated[int, "steps between updates"] = 4
    batch_size: Annotated[int, "transitions in an update, B"] = 32
    target_steps: Annotated[int, "steps between copies to the target network"] = 10_000
    discount_rate: Annotated[float, "γ"] = 0.99
    learning_rate: Annotated[float, "α"] = 0.00025
    decay_rate: Annotated[float, "of the running mean of squared gradients in RMSProp, ρ"] = 0.95
    exploration_rate_end: Annotated[float, "ε decreases linearly from 1 to this ..."] = 0.1
    exploration_decay_steps: Annotated[int, "... over these first steps of training"] = 1_000_000
    exploration_rate_test: Annotated[float, "ε in tests"] = 0.05
    train_steps: Annotated[int, "steps of training before each test"] = 250_000
    test_games: Annotated[int, "games in a test"] = 30
    epochs: Annotated[int, "of training and testing: 50 million steps, which take days"] = 200
    random_seed: Annotated[int, "makes a run repeatable"] = 1
    save: Annotated[str, "a file for the weights, written after each test"] = ""
    load: Annotated[str, "a file of weights to start from"] = ""


def random_stream(seed: int, name: str) -> np.random.Generator:
    """Return a generator for one purpose: the streams of different names are independent."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()), 0)))


class Game:
    """An Atari game in steps of 4 frames, with the preprocessing of the paper."""

    def __init__(self, name: str, rng: np.random.Generator, training: bool) -> None:
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        self.ale.setInt("random_seed", int(rng.integers(2**31)))
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(str(ale_py.roms.get_rom_path(name)))
        self.rng, self.training, self.actions = rng, training, self.ale.getMinimalActionSet()
        self.frame_limit = (30 if training else 5) * 3600 + self.ale.getEpisodeFrameNumber()  # ALE's own

    def start(self) -> Pixels:
        """Start a new game; return its first screen, uint8 [84, 84]."""
        self._reset()
        for _ in range(self.rng.integers(30 + 1)):  # 0 to 30 no-op steps, so that games differ
            self._hold(ale_py.Action.NOOP)
            if self.game_over():
                self._reset()
        self.lives = self.ale.lives()
        return self._screen()

    def step(self, action: int) -> tuple[Pixels, float, bool]:
        """Hold an action for 4 frames; return the screen, the reward and whether the episode ended."""
        reward = self._hold(self.actions[action])
        lives_before, self.lives = self.lives, self.ale.lives()
        lost_life = self.training and self.lives < lives_before  # ends an episode, but not the game
        return self._screen(), reward, self.ale.game_over() or lost_life

    def game_over(self) -> bool:
        """Return whether the game has ended or was truncated, after 30 minutes of training or 5 of a test."""
        return bool(self.ale.game_over() or self.ale.getEpisodeFrameNumber() >= self.frame_limit)

    def _reset(self) -> None:
        self.ale.reset_game()
        self.frames = [self.ale.getScreenGrayscale()] * 2  # the last two in gray, uint8 [210, 160]

    def _hold(self, action: ale_py.Action) -> float:
        reward = 0
        for frames_left in (3, 2, 1, 0):
            reward += self.ale.act(action)
            self.frames = [self.frames[-1], self.ale.getScreenGrayscale()]
            if frames_left and self.game_over():
                self.frames[0] = self.frames[-1]  # the game's last frame counts alone
                break
        return reward

    def _screen(self) -> Pixels:
        # Atari games draw some sprites in every second frame only; the maximum of two frames has them all.
        return np.asarray(cv2.resize(np.maximum(*self.frames), (84, 84), interpolation=cv2.INTER_AREA))


def next_state(state: Pixels, screen: Pixels, new_episode: bool) -> Pixels:
    """Return the latest 4 screens, uint8 [4, 84, 84]. Screens from before the episode are black."""
    return np.concatenate((state[1:] * (not new_episode), screen[np.newaxis]))


class ReplayMemory:
    """D of Algorithm 1: the latest N steps, in a ring buffer that stores each screen once.

    Row t holds action t, its reward, and the screen seen *after* it. So transition t leads from the screens
    t-4 ... t-1 to t-3 ... t. Where `starts` is true, the row is no transition, but a game's first screen.
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.screens = np.zeros((size, 84, 84), np.uint8)
        self.actions, self.rewards = np.zeros(size, np.int64), np.zeros(size, np.float32)
        self.terminals, self.starts = np.zeros((2, size), np.bool_)
        self.size, self.written, self.rng = size, 0, rng

    def add(self, screen: Pixels, action: int, reward: float, terminal: bool, start: bool = False) -> None:
        """Store a step in place of the oldest."""
        row, self.written = self.written % self.size, self.written + 1
        self.screens[row], self.actions[row], self.rewards[row] = screen, action, reward
        self.terminals[row], self.starts[row] = terminal, start

    def sample(self, count: int) -> tuple[NDArray[Any], ...]:
        """Sample B transitions uniformly; return states, actions, rewards, next states and terminals."""
        first = self.written - self.size + HISTORY if self.written >= self.size else 1
        rows = self.rng.integers(first, self.written, count) % self.size  # [B]; all 5 screens are in the ring
        while (invalid := np.flatnonzero(self.starts[rows])).size:
            rows[invalid] = self.rng.integers(first, self.written, invalid.size) % self.size
        windows = (rows[:, np.newaxis] + np.arange(-HISTORY, 1)) % self.size  # [B, 5], rows t-4 ... t
        screens = self.screens[windows]  # [B, 5, 84, 84]: both states of each transition
        begins = (self.starts[windows] | self.terminals[windows])[:, 1:-1]  # [B, 3]: black before these rows
        screens[:, : HISTORY - 1][np.logical_or.accumulate(begins[:, ::-1], axis=1)[:, ::-1]] = 0
        return screens[:, :-1], self.actions[rows], self.rewards[rows], screens[:, 1:], self.terminals[rows]


def q_network(actions: int, rng: np.random.Generator) -> nn.Sequential:
    """Return Q(s, ·; θ), from states, floats in [0, 1] [B, 4, 84, 84], to the Q-values [B, A]."""
    network = nn.Sequential(
        nn.Conv2d(HISTORY, 32, 8, 4), nn.ReLU(),  # [B, 32, 20, 20]
        nn.Conv2d(32, 64, 4, 2), nn.ReLU(),  # [B, 64, 9, 9]
        nn.Conv2d(64, 64, 3, 1), nn.ReLU(),  # [B, 64, 7, 7]
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, actions),
    )  # fmt: skip
    for layer in [module for module in network if isinstance(module, nn.Conv2d | nn.Linear)]:
        bound = layer.weight[0].numel() ** -0.5  # 1/√n for the n inputs of a unit
        for values in layer.parameters():
            values.data = torch.from_numpy(rng.uniform(-bound, bound, values.shape)).float()
    return nn.utils.convert_conv2d_weight_memory_format(network, torch.channels_last)  # faster on a CPU


def floats(states: Tensor) -> Tensor:
    """Return states uint8 [B, 4, 84, 84] as floats in [0, 1]."""
    return states.to(torch.float32, memory_format=torch.channels_last) / 255


class RMSProp:
    """v ← ρ v + (1 - ρ) g²;  θ ← θ - α g / (√(v + ε) + ε) with ε = 1e-6: RMSProp of Neon and simple_dqn."""

    def __init__(self, weights: list[nn.Parameter], learning_rate: float, decay_rate: float) -> None:
        self.weights, self.learning_rate, self.decay_rate = weights, learning_rate, decay_rate
        self.squares = [torch.zeros_like(values) for values in weights]

    @torch.no_grad()
    def step(self) -> None:
        """Update every weight by its gradient."""
        for values, square in zip(self.weights, self.squares, strict=True):
            gradient: Any = values.grad
            square.mul_(self.decay_rate).add_((1 - self.decay_rate) * gradient**2)
            values.sub_(self.learning_rate * gradient / ((square + 1e-6).sqrt() + 1e-6))


class DQN:
    """The agent: a network θ that acts and learns, and an older copy θ⁻ that provides the targets."""

    def __init__(self, game: str, settings: Settings, optimizer: Callable[..., Any] = RMSProp) -> None:
        self.settings, seed = settings, settings.random_seed
        self.game = Game(game, random_stream(seed, "environment"), training=True)
        self.test_game = Game(game, random_stream(seed, "test environment"), training=False)
        self.memory = ReplayMemory(settings.replay_size, random_stream(seed, "sampling"))
        self.network = q_network(len(self.game.actions), random_stream(seed, "weights"))
        self.target = q_network(len(self.game.actions), random_stream(seed, "weights")).requires_grad_(False)
        self.optimizer = optimizer([*self.network.parameters()], settings.learning_rate, settings.decay_rate)
        self.rng = random_stream(seed, "exploration")

    def train(self) -> Iterator[tuple[int, float, NDArray[np.float32] | None]]:
        """Run Algorithm 1 endlessly; yield the action, the reward and the TD errors (if any) of each step."""
        settings, end, done = self.settings, self.settings.exploration_rate_end, False
        steps, state = -settings.random_steps, self._start_game()  # negative: random play fills the memory
        while True:
            epsilon = max(end, 1 - (1 - end) * max(steps, 0) / settings.exploration_decay_steps)
            action, reward = self.act(state, epsilon, self.rng), 0.0
            if done:  # This step starts the next game: no action is taken.
                state, action, done = self._start_game(), 0, False
            else:
                screen, reward, terminal = self.game.step(action)
                self.memory.add(screen, action, reward, terminal)
                state, done = next_state(state, screen, new_episode=terminal), self.game.game_over()
            steps, errors = steps + 1, None
            if steps > 0 and steps % settings.train_frequency == 0:
                errors = self.update(self.memory.sample(settings.batch_size))
            if steps > 0 and steps % settings.target_steps == 0:
                self.target.load_state_dict(self.network.state_dict())  # θ⁻ ← θ
            yield action, reward, errors

    def _start_game(self) -> Pixels:
        self.memory.add(screen := self.game.start(), action=0, reward=0.0, terminal=False, start=True)
        return next_state(NO_STATE, screen, new_episode=True)

    @torch.inference_mode()
    def act(self, state: Pixels, epsilon: float, rng: np.random.Generator) -> int:
        """Return a random action with probability ε, otherwise argmax_a Q(s, a; θ)."""
        explore, action = rng.random() < epsilon, int(rng.integers(len(self.game.actions)))
        return action if explore else int(self.network(floats(torch.from_numpy(state[np.newaxis]))).argmax())

    def update(self, minibatch: tuple[NDArray[Any], ...]) -> NDArray[np.float32]:
        """Move Q(s, a; θ) toward y = r + γ max_a' Q(s', a'; θ⁻); return the TD errors |y - Q| [B]."""
        states, actions, rewards, next_states, terminals = map(torch.from_numpy, minibatch)
        best = self.target(floats(next_states)).max(dim=1).values  # [B]
        y = rewards.clamp(-1, 1) + self.settings.discount_rate * ~terminals * best
        q = self.network(floats(states)).gather(1, actions[:, np.newaxis]).squeeze(1)  # [B]
        # Huber's loss: half the squared error, with its gradient clipped to ± 1 (Methods, "error term").
        self.network.zero_grad()
        torch.autograd.backward(nn.functional.huber_loss(q, y))
        self.optimizer.step()
        return np.asarray((y - q.detach()).abs())

    def test(self) -> Iterator[float]:
        """Play whole games of at most 5 minutes with ε = 0.05 and yield the score of each."""
        settings, rng = self.settings, random_stream(self.settings.random_seed, "test exploration")
        for _ in range(settings.test_games):
            state, score = next_state(NO_STATE, self.test_game.start(), new_episode=True), 0.0
            while not self.test_game.game_over():
                screen, reward, _ = self.test_game.step(self.act(state, settings.exploration_rate_test, rng))
                state, score = next_state(state, screen, new_episode=False), score + reward
            yield score


def main() -> None:
    """Alternate training and tests, and print the score of each test."""
    parser = argparse.ArgumentParser("dqn.sh", argparse.SUPPRESS, "./dqn.sh GAME [flags]", allow_abbrev=False)
    games = {*ale_py.roms.get_all_rom_ids()} - {"combat", "joust", "maze_craze", "warlords"}  # two players
    parser.add_argument("game", metavar="GAME, such as pong")
    for field in fields(Settings):
        about = f"{get_args(field.type)[1]} (default: {field.default or 'none'})"
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default, help=about)
    for name, value in (arguments := vars(parser.parse_args())).items():
        least, most = (0, 1) if isinstance(value, float) else (LEAST.get(name, 1), MOST.get(name, 10**9))
        if not (isinstance(value, str) or least <= value <= most):
            parser.error(f"--{name} {value}: give at least {least} and at most {most}")
    if (game := arguments.pop("game")) not in games:
        parser.error(f"no game called {game!r}: did you mean {get_close_matches(game, games, 1, 0)[0]}?")
    try:
        agent = DQN(game, settings := Settings(**arguments))
        Path(settings.save or "/dev/null").open("ab").close()  # fails now, not after the first test
    except (MemoryError, OSError) as error:
        parser.error(f"{error}: {'lower --replay_size' if isinstance(error, MemoryError) else 'fix --save'}")
    try:
        for network in (agent.network, agent.target) if settings.load else ():
            network.load_state_dict(torch.load(settings.load, weights_only=True))  # runs no code of the file
    except Exception as error:  # torch's are of many kinds
        parser.error(f"--load {settings.load!r}: {getattr(error, 'strerror', 'give a file made by --save')}")
    torch.set_num_threads(1)  # on a busy machine several are slower
    training, lost = agent.train(), f"cannot write --save {settings.save!r}"
    for epoch in range(settings.epochs + 1):  # Epoch 0 is random play.
        steps, began = settings.train_steps if epoch else settings.random_steps, time.perf_counter()
        start = f"\r{'':79}\repoch {epoch}: "  # over the last line of the terminal
        for step, _ in zip(range(1, steps + 1), training, strict=False):
            if step % 200 == 0:
                speed = step / (time.perf_counter() - began)
                left = (steps * (settings.epochs + 1 - epoch) - step) / speed / 3600
                more = f", {left:.1f} hours of training left" if epoch else ""
                print(f"{start}step {step} of {steps}, {speed:.0f} steps/s{more}", end="", flush=True)
        scores: list[float] = []
        for score in agent.test():
            scores.append(score)
            print(f"{start}{len(scores)} of {settings.test_games} test games", end="", flush=True)
        print(f"{start}score {np.mean(scores):.1f} ± {np.std(scores):.1f} in {len(scores)} games")
        if settings.save:
            try:
                torch.save(agent.network.state_dict(), part := Path(f"{settings.save}.part"))
                part.replace(settings.save)
            except (OSError, RuntimeError):  # The latter is torch's.
                part.unlink(missing_ok=True)
                print(lost) if epoch < settings.epochs else parser.error(lost)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it at once
    main()
