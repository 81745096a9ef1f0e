"""Generates `src/atari2600/starts.json` from ale-py, and compares the two emulators frame by frame.

Run it with `PYTHONPATH=src`:

    python -m scripts.emulator make [GAME ...]    the initial states of supported games, and the gray levels
    python -m scripts.emulator check [GAME ...]   10,000 random frames from each of three seeds; 1,000 frames
                                                  of games that are not supported
    python -m scripts.emulator trained [GAME ...] 10,000 frames of the agents in snapshots/trained
    python -m scripts.emulator inject [GAME ...]  the rules of supported games, by setting bytes of RAM
    python -m scripts.emulator csv [GAME ...]     the CSVs of trainings, except for times: ten seconds a game

`check`, `trained` and `inject` write what they found into docs/data/roms.csv.
"""

import csv
import signal
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from ale_py import ALEInterface, ALEState
from ale_py.roms import get_all_rom_ids, get_rom_path
from numpy.typing import NDArray

import simple_dqn
from atari2600 import starts
from atari2600.console import Console
from atari2600.controllers import Controllers
from atari2600.machine import CPU, GAME, TIA
from atari2600.rules import BEFORE, NO_RULES, RULES, Check, Rules, Term, table
from atari2600.starts import Start, timers
from atari2600.tables import NEVER
from scripts.ale import (
    LOOP,
    RESETS,
    Saved,
    execute,
    gray_levels,
    has_combs,
    open_ale,
    settle,
    start_of,
    twister,
)
from simple_dqn.environment.interface import scale

HOME = Path(__file__).resolve().parents[1]
TABLE = HOME / "docs" / "data" / "roms.csv"
COLUMNS = ("ROM", "cartridge", "frames", "agent", "rules", "warp")
AGENTS = {file.stem.rsplit("_", 1)[0]: file for file in (HOME / "snapshots" / "trained").glob("*.pkl")}
PairState: TypeAlias = tuple[ALEState, dict[str, NDArray[Any]], NDArray[np.int64]]
Outcome: TypeAlias = tuple[int, int, int]  # reward, lives, 1 at the end of the game
KINDS = ("2K", "4K", "F8", "F8SC", "F6", "F6SC", "E0", "FE")
FRAMES, SEEDS, TRIAL = 10_000, (1, 2, 3), 1000
# Of `inject`: states of random play, frames between two of an agent's, frames after a byte was set.
STATES, PART, FOLLOWED = 20, 2000, 6
# Of `csv`: the columns that differ in any case, and a short training with a tiny network.
TIMES = {"total_time", "epoch_time", "steps_per_second"}
TRAINING: dict[str, Any] = {
    "color_averaging": False, "epochs": 1, "network": "small", "screen_width": 42, "screen_height": 42,
    "random_steps": 1000, "train_steps": 1000, "test_steps": 500, "replay_size": 2000, "train_frequency": 16,
    "backend": "cpu", "threads": 1, "log_level": "WARNING", "random_seed": 1, "csv_file": None,
    "save_weights_prefix": None,
}  # fmt: skip


class Pair:
    """A game in both emulators."""

    def __init__(self, game: str, start: Start) -> None:
        """Start `game`."""
        self.ale, self.start = open_ale(game), start
        rom = Path(str(get_rom_path(game))).read_bytes()
        self.console = Console(rom, 1, rules=RULES.get(game, NO_RULES))
        self._timers = timers()
        self._begin(first=True)

    def restart(self) -> None:
        """Start a new game."""
        self.ale.reset_game()
        self._begin(first=False)

    def _begin(self, first: bool) -> None:
        self.start.begin(self.console, 0, next(self._timers), first)
        self._controllers = Controllers(self.console, self.start.controller)

    def act(self, action: int) -> Outcome:
        """Play a frame in both; return ALE's reward, lives and end."""
        reward = self.ale.act(action)
        self._controllers.hold(np.array([action]), np.ones(1, np.bool_))
        self.console.execute()
        return int(reward), self.ale.lives(), int(self.ale.game_over())

    def outcome(self) -> Outcome:
        """Return our reward, lives and end of the last frame."""
        reward, lives, over = self.console.game[0, [GAME.REWARD, GAME.LIVES, GAME.OVER]].tolist()
        return reward, lives, over

    def difference(self) -> str | None:
        """Return the first difference of RAM or of the picture, or None."""
        unequal = self.console.ram[0, :128] != self.ale.getRAM()
        if unequal.any():
            return f"RAM ${0x80 + int(np.argmax(unequal)):02X}"
        picture = self.console.pictures[0, self.console.tia[0, TIA.BUFFER], : self.start.rows]
        if (picture != self.ale.getScreen()).any():
            row, column = np.argwhere(picture != self.ale.getScreen())[0]
            return f"line {row}, pixel {column}"
        return None

    def set_ram(self, byte: int, value: int) -> None:
        """Set a byte of RAM in both."""
        self.ale.setRAM(byte, value)
        self.console.ram[0, byte] = value

    def get_state(self) -> PairState:
        """Return the state of both, between two whole frames."""
        return self.ale.cloneState(), self.console.get_state(), self._controllers.turned.copy()

    def set_state(self, state: PairState) -> None:
        """Continue from what `get_state` returned."""
        settle(self.ale, state[0])
        for name, values in state[1].items():
            getattr(self.console, name)[...] = values
        self._controllers.turned[:] = state[2]

    def run_loop(self, byte: int) -> None:
        """Let both execute `LOOP` in RAM, at `byte`, in place of the game's program: no frame changes RAM."""
        execute(self.ale, byte)
        self.console.cpu[0, CPU.PC] = 0x80 + byte
        self.console.cpu[0, CPU.P] &= 0xBF
        self.console.ram[0, byte : byte + len(LOOP)] = LOOP


def loop_positions(read: Set[int]) -> list[int]:
    """Return the bytes at which `LOOP` overwrites none of those that rules read."""
    return [at for at in range(129 - len(LOOP)) if not read & set(range(at, at + len(LOOP)))]


def edges(rules: Rules) -> dict[int, list[int]]:
    """Return the bytes that some rules read, each with values at which one of their checks changes."""
    found: dict[int, list[int]] = {int(row[1]) % BEFORE: [0, 255] for row in table(rules)[0]}
    others = rules.no_score, rules.life_kept, rules.lives_kept, rules.all_lives, rules.begins
    for check in (part for part in chain(*rules.ends, *others) if isinstance(part, Check)):
        some = [check.equals] if isinstance(check.equals, int) else [min(check.equals), max(check.equals)]
        near = [
            near for one in some for near in (one, one - 1, one + 1, one ^ 0x80, one ^ 8, one | ~check.mask)
        ]
        found[check.byte % BEFORE] += [value & 0xFF for value in near]
    return found


def mismatch_by_value(pair: Pair, bytes_: Iterable[int], read: Set[int]) -> str | None:
    """Set one byte after the other to each value; return the first frame whose outcome is not ALE's."""
    loops, keep = loop_positions(read), pair.get_state()
    for byte in bytes_:
        away = [at for at in (loops[0], loops[-1]) if byte not in range(at, at + len(LOOP))]
        pair.set_state(keep)
        pair.run_loop(away[0])
        looping = pair.get_state()
        for value in range(256):
            pair.set_ram(byte, value)
            theirs, ours = pair.act(0), pair.outcome()
            if theirs != ours:
                return f"RAM {byte} = {value}: {theirs} in place of {ours}"
            if theirs[2]:
                pair.set_state(looping)
    pair.set_state(keep)
    return None


def mismatch_at_random(pair: Pair, rules: Rules, random: np.random.Generator, frames: int) -> str | None:
    """Set bytes at random in every frame; return the first frame whose outcome is not ALE's."""
    values, keep = edges(rules), pair.get_state()
    bytes_ = sorted(values)
    loop = int(random.choice(np.array(loop_positions(set(bytes_)))))
    pair.run_loop(loop)
    looping = pair.get_state()
    for number in range(frames):
        if number % 25 == 0 or pair.ale.game_over():
            pair.set_state(looping)
        if number % 100 == 99:  # a RAM that no game has
            for byte in set(range(128)) - set(range(loop, loop + len(LOOP))):
                pair.set_ram(byte, int(random.integers(256)))
        for byte in random.choice(bytes_, random.integers(1, 4)).tolist():
            old = int(pair.console.ram[0, byte])
            choices = [int(random.integers(256)), (old - 1) & 0xFF, (old + 1) & 0xFF, *values[byte]]
            pair.set_ram(byte, int(random.choice(choices)))
        theirs, ours = pair.act(0), pair.outcome()
        if theirs != ours:
            ram = {byte: int(pair.console.ram[0, byte]) for byte in bytes_}
            return f"RAM {ram}: {theirs} in place of {ours}"
    pair.set_state(keep)
    return None


def mismatch_in_play(
    pair: Pair, rules: Rules, random: np.random.Generator, values: int
) -> tuple[int, str | None]:
    """Set each byte that rules read to some random values, and play on for some frames.

    Returns:
        The number of trials that diverged (RAM was no longer ALE's), and the first frame whose RAM is ALE's
        and whose outcome is not.
    """
    keep, diverged = pair.get_state(), 0
    for byte in sorted(edges(rules)):
        for value in random.choice(256, values, replace=False).tolist():
            pair.set_state(keep)
            pair.set_ram(byte, value)
            for frame in range(FOLLOWED):
                theirs = pair.act(int(random.choice(pair.start.actions)))
                if (pair.console.ram[0, :128] != pair.ale.getRAM()).any():
                    diverged += 1
                    break
                if theirs != pair.outcome():
                    text = f"{frame} frames after RAM {byte} = {value}: {theirs} in place of {pair.outcome()}"
                    return diverged, text
                if theirs[2]:
                    break
    pair.set_state(keep)
    return diverged, None


def play(pair: Pair, random: np.random.Generator, frames: int, agent: "Agent | None" = None) -> None:
    """Play random actions, or the agent's, and new games when one ends."""
    for _ in range(frames):
        action = agent.choose(pair.ale) if agent else int(random.choice(pair.start.actions))
        if pair.act(action)[2]:
            pair.restart()


class Agent:
    """A trained agent, which looks at ALE's screens and acts at random in one step of a hundred."""

    def __init__(self, game: str, seed: int) -> None:
        """Load the agent of `game`."""
        self._agent = simple_dqn.load(AGENTS[game], datatype="float32", threads=1, random_seed=seed)
        self._frames: deque[NDArray[np.uint8]] = deque(maxlen=2)
        self._states = np.zeros((1, 4, 84, 84), np.uint8)
        self._number, self._action = 0, 0

    def choose(self, ale: ALEInterface) -> int:
        """Return the action of the next frame, a new one for every fourth."""
        self._frames.append(ale.getScreenGrayscale())
        if self._number % 4 == 0:
            self._states[:, :-1] = self._states[:, 1:].copy()
            scale(np.maximum(self._frames[0], self._frames[-1]), self._states[0, -1])
            chosen = self._agent.act(self._states, epsilon=0.01)[0]
            self._action = int(ale.getMinimalActionSet()[chosen].value)
        self._number += 1
        return self._action


def by_byte(terms: Iterable[Term]) -> dict[int, NDArray[np.int64]]:
    """Return the sum of the terms of each byte, int64 [256]."""
    found: dict[int, NDArray[np.int64]] = {}
    for term in terms:
        found[term.byte] = found.get(term.byte, 0) + term.values()
    return found


def extremes(rules: Rules) -> dict[str, dict[int, int]]:
    """Return bytes for states that random play seldom reaches: one life, many lives, the last score."""
    found = {
        name: {byte: int(np.abs(numbers - lives).argmin()) for byte, numbers in by_byte(rules.lives).items()}
        for name, lives in (("one life", 1), ("many lives", rules.first_lives + 3))
    }
    decimal = [value for value in range(256) if value & 15 < 10 and value >> 4 < 10]
    score = by_byte(rules.score)
    found["the last score"] = {byte: decimal[int(score[byte][decimal].argmax())] for byte in score}
    return {name: ram for name, ram in found.items() if ram}


def prepared_states(game: str, pair: Pair, rules: Rules) -> Iterator[str]:
    """Bring a game into one state after the other: of random play, set by hand, and of a trained agent.

    Yields:
        The name of the state; "" if the game diverged after bytes were set by hand.
    """
    for number in range(STATES):
        random = np.random.default_rng(number)
        play(pair, random, 1 if number == 0 else int(random.integers(100, 1000)))
        assert not pair.difference(), number
        yield f"state {number}"
    for (name, ram), frames in product(extremes(rules).items(), (1, 60, 600)):
        keep = pair.get_state()
        for byte, value in ram.items():
            pair.set_ram(byte, value)
        play(pair, random, frames)
        same = not pair.difference()
        yield f"{name}, {frames} frames later" if same else ""
        pair.set_state(keep)
    if game in AGENTS:
        agent = Agent(game, 0)
        for number in range(FRAMES // PART):
            play(pair, random, PART, agent)
            yield f"{(number + 1) * PART} frames of the agent"


def inject(names: list[str]) -> None:
    """Compare the rules of each game with ALE by setting bytes of RAM, in several states."""
    for game in names or sorted(RULES):
        pair, rules = Pair(game, starts.find(game)), RULES[game]
        found, compared, diverged = None, 0, 0
        for number, scene in enumerate(filter(None, prepared_states(game, pair, rules))):
            random = np.random.default_rng(number)
            every = range(128) if number == STATES - 1 else sorted(edges(rules))
            found = mismatch_by_value(pair, every, set(edges(rules)))
            found = found or mismatch_at_random(pair, rules, random, 1000)
            if not found:
                more, found = mismatch_in_play(pair, rules, random, 32)
                diverged += more
            if found:
                found = f"{scene}, {found}"
                break
            compared += 1
        outcome = found or f"{compared} states" + (f"; {diverged} trials diverged" if diverged else "")
        note(game, outcome, rules=outcome)


def differences(game: str, start: Start, frames: int, seed: int, agent: Agent | None = None) -> str | None:
    """Play random actions, or the agent's, in both emulators; return the first difference, or None."""
    pair, random = Pair(game, start), np.random.default_rng(seed)
    actions = [action.value for action in pair.ale.getMinimalActionSet()]
    for frame in range(frames):
        if pair.ale.game_over():
            if game not in RULES:
                return None  # the state of its restart is unknown
            pair.restart()
        outcome = pair.act(agent.choose(pair.ale) if agent else int(random.choice(actions)))
        if game in RULES and outcome != pair.outcome():
            return f"frame {frame}, {outcome} in place of {pair.outcome()}"
        if found := pair.difference():
            return f"frame {frame}, {found}"
    return None


def best_start(game: str, whole: bool = True) -> Start:
    """Return the start of a game, with the second player's paddles as they match ALE for 120 frames."""
    plain, combs, tries = start_of(game, whole), has_combs(game), []
    for right in (NEVER, -1):  # no paddles, or paddles at the end
        states = []
        for state in plain.states:
            tia = list(state.tia)
            tia[TIA.COMBS] = combs
            tia[TIA.PADDLE0 + 2 : TIA.PADDLE0 + 4] = [right] * 2
            states.append(replace(state, tia=tia))
        tries.append(replace(plain, states=states))
    return next((one for one in tries if differences(game, one, 120, 0) is None), tries[0])


def make(names: list[str]) -> None:
    """Write `starts.json`; with names, only the starts of these games are replaced.

    It is written twice, because `best_start` reads gray levels and timers from it.
    """
    found = {game: starts.find(game) for game in RULES if names and game not in names}
    starts.save(gray_levels(), twister(), found)
    found |= {game: best_start(game, game not in RESETS) for game in names or RULES}
    starts.save(gray_levels(), twister(), found)


def note(game: str, found: str, **cells: str) -> None:
    """Update `cells` in a game's row of the table, and print `found`, the result."""
    lines = TABLE.read_text().splitlines(keepends=True)
    head = [line for line in lines if line[0] == "#"]
    rows = {row["ROM"]: row for row in csv.DictReader(lines[len(head) :])}
    rows[game] = dict.fromkeys(COLUMNS, "") | rows.get(game, {}) | {"ROM": game} | cells
    with TABLE.open("w") as file:
        file.writelines(head)
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[name] for name in sorted(rows))
    print(f"{game}: {found}", flush=True)


def check(names: list[str]) -> None:
    """Print how well each game matches, and write it into the table."""
    for game in names or sorted(get_all_rom_ids()):
        if not ALEInterface.isSupportedROM(Path(str(get_rom_path(game)))):
            continue
        kind, found = Saved(open_ale(game).cloneState().serialize()).cartridge()[0], "not emulated"
        if kind in KINDS:
            offered = game in RULES
            start = starts.find(game) if offered else best_start(game, whole=False)
            frames, seeds = (FRAMES, SEEDS) if offered else (TRIAL, SEEDS[:1])
            exact = f"{len(seeds)} x {frames:,}" if offered else f"the first {TRIAL:,}"
            found = next(filter(None, (differences(game, start, frames, seed) for seed in seeds)), exact)
        note(game, found, cartridge=kind, frames=found, warp="yes" if game in RULES else "no")


def trained(names: list[str]) -> None:
    """Print how well the games of trained agents match, and write it into the table."""
    for game in names or sorted(AGENTS):
        found = differences(game, starts.find(game), FRAMES, 1, Agent(game, 1)) or f"{FRAMES:,}"
        note(game, found, agent=found)


def compare_rows(names: list[str]) -> None:
    """Train with each emulator; print the columns of the CSV that differ."""
    for game in names or sorted(RULES):
        tables: list[list[dict[str, Any]]] = [[], []]
        for emulator, rows in zip(("ale", "warp"), tables, strict=True):
            simple_dqn.train(game, on_phase_end=rows.append, emulator=emulator, **TRAINING)
        pairs = list(zip(*tables, strict=True))
        unequal = {name for row, same in pairs for name in row if row[name] != same[name]}
        print(f"{game}: {', '.join(sorted(unequal - TIMES)) or 'equal'}", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the reader of the output may quit, as `head` does
    verbs = {"make": make, "check": check, "trained": trained, "inject": inject, "csv": compare_rows}
    if len(sys.argv) < 2 or sys.argv[1] not in verbs:
        sys.exit(__doc__)
    verbs[sys.argv[1]](sys.argv[2:])
