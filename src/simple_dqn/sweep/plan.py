"""The plan of a sweep: its runs, and the files of each."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from simple_dqn.config import EnvironmentConfig, as_word, words
from simple_dqn.environment import game_name
from simple_dqn.environment.own_game import is_own, load, name_of, split
from simple_dqn.environment.roms import known_games
from simple_dqn.errors import UserError
from simple_dqn.files import read_text, replacing
from simple_dqn.human_scores import SCORES

# Names of sets of games: those with a human score, and those that ale-py ships for one player.
MOST_BYTES = 16 << 20  # of a plan; 10,000 seeds of all games are numbers and names
GAME_SETS = {"atari57": lambda: sorted(SCORES), "all": known_games}


@dataclass(frozen=True)
class SweepRun:
    """One game by one setting with one seed."""

    game: str  # its name
    argument: str  # of `train`: that name, the path of a ROM, or a class of the user's own
    setting: str  # its name; empty: the sweep compares none
    seed: int

    @property
    def name(self) -> str:
        """The name of its files, such as `pong_seed1` or `pong_double_seed1`."""
        return "_".join(filter(None, (self.game, self.setting, f"seed{self.seed}")))


@dataclass(frozen=True)
class Plan:
    """A whole sweep; the same plan is the same sweep."""

    games: dict[str, str]  # name -> the argument of `train`
    seeds: int  # each game is trained with the seeds 1 to this
    cpus_per_run: int
    gpus_per_run: float
    flags: dict[str, Any]  # of `train`, for every run
    settings: dict[str, dict[str, Any]] = field(default_factory=lambda: {"": {}})  # name -> more flags

    @property
    def runs(self) -> list[SweepRun]:
        """All runs, the first seed of every game and setting before the second of any."""
        return [
            SweepRun(game, argument, setting, seed)
            for seed in range(1, self.seeds + 1)
            for game, argument in self.games.items()
            for setting in self.settings
        ]

    def words(self) -> dict[str, str]:
        """Return the command line in parts, by what the user gave."""
        flags = {f"--{name}": as_word(value) for name, value in self.flags.items()}
        compared = [f"{name}={' '.join(words(given))}" for name, given in self.settings.items() if name]
        return {
            "games": " ".join(self.games), "--seeds": str(self.seeds),
            "--cpus_per_run": str(self.cpus_per_run), "--gpus_per_run": f"{self.gpus_per_run:g}",
            **({"--compare": " ".join(compared)} if compared else {}), **flags,
        }  # fmt: skip


@dataclass(frozen=True)
class SweepFiles:
    """The paths of a sweep's files, all absolute."""

    results: Path
    snapshots: Path

    @staticmethod
    def of(home: Path, name: str) -> "SweepFiles":
        """Return the paths of the sweep `name`.

        Raises:
            UserError: `name` cannot be a folder's name.
        """
        if not name or "/" in name or name.startswith(".") or len(name) > 100 or not name.isprintable():
            raise UserError(
                f"--name {name!r} cannot be a folder's name: give up to 100 letters, digits, - and _"
            )
        root = home.absolute()
        return SweepFiles(root / "results" / "sweep" / name, root / "snapshots" / "sweep" / name)

    @property
    def plan(self) -> Path:
        """The plan, as JSON."""
        return self.results / "sweep.json"

    def csv(self, run: SweepRun) -> Path:
        """Return the path of the CSV of `run`."""
        return self.results / f"{run.name}.csv"

    def log(self, run: SweepRun) -> Path:
        """Return the path of what `run` prints."""
        return self.results / f"{run.name}.log"

    def prefix(self, run: SweepRun) -> Path:
        """Return the prefix of the paths of the snapshots of `run`."""
        return self.snapshots / run.name

    def arguments(self, plan: Plan, run: SweepRun) -> tuple[str, ...]:
        """Return the command that starts or resumes `run`: a verb and its arguments."""
        own = {
            "resume": True,
            "random_seed": run.seed,
            "threads": plan.cpus_per_run,
            "csv_file": self.csv(run),
            "save_weights_prefix": self.prefix(run),
        }
        return ("train", run.argument, *words({**plan.flags, **plan.settings[run.setting], **own}))


def find_games(named: Sequence[str], config: EnvironmentConfig) -> dict[str, str]:
    """Return the games that `named` names, each once: its name, and the argument of `train`.

    Args:
        named: Names, paths of ROMs, classes of the user's own, `atari57` or `all`.
        config: The kind of environment.

    Raises:
        UserError: There is no such game; the nearest are named.
    """
    games: dict[str, str] = {}
    for word in named:
        for one in GAME_SETS[word]() if word in GAME_SETS and config.environment == "ale" else [word]:
            name, argument = _find(one, config)
            games.setdefault(name, argument)
    return games


def _find(word: str, config: EnvironmentConfig) -> tuple[str, str]:
    """Return the name of the game `word`, and an argument of `train` that is valid in any folder.

    Raises:
        UserError: There is no such game.
    """
    if is_own(word):
        file, _ = split(word)
        own = load(str(Path(word).absolute()))
        return name_of(own), f"{Path(file).absolute()}:{own.__name__}"
    name = game_name(replace(config, game=word))
    if config.environment == "catch" and word != name:
        raise UserError(f"--environment catch plays {name} alone, not {word}: give one of them")
    return name, str(Path(word).absolute()) if Path(word).is_file() else word


def save_plan(plan: Plan, path: Path) -> str:
    """Write `plan` to `path` if there is no plan yet, and return the content of the file.

    Raises:
        UserError: It holds another plan, or cannot be read or written.
    """
    if not path.exists():
        with replacing(path) as beside:
            beside.write_text(json.dumps(vars(plan), indent=2, default=str) + "\n")
    try:
        text = read_text(path, MOST_BYTES, "remove it, or give another --name")
        before = Plan(**json.loads(text)).words()
    except (OSError, ValueError, TypeError, AttributeError):
        raise UserError(f"{path} cannot be read as a sweep's: remove it, or give another --name") from None
    now = plan.words()
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            was, given = (f"{name} {one[name]}" if name in one else f"no {name}" for one in (before, now))
            raise UserError(
                f"the sweep {path.parent.name} was started with {was}, but this command has {given}: repeat "
                "the original flags to go on with it, or give another --name"
            )
    return text
