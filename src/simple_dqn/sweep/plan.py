"""What a sweep is to run, and where its files go."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import game_name
from simple_dqn.environment.class_file import load, name_of, split
from simple_dqn.environment.roms import known_games
from simple_dqn.errors import UserError
from simple_dqn.files import replacing
from simple_dqn.human_scores import SCORES

# Words that stand for many games: those with a human score, and those that ale-py ships for one player.
ALL = {"atari57": lambda: sorted(SCORES), "all": known_games}


@dataclass(frozen=True)
class Run:
    """One game with one seed."""

    game: str  # its name
    word: str  # what `train` is told: that name, the path of a ROM, or a class of the user's own
    seed: int

    @property
    def name(self) -> str:
        """What its files are called, such as `pong_seed1`."""
        return f"{self.game}_seed{self.seed}"


@dataclass(frozen=True)
class Plan:
    """A whole sweep; the same plan is the same sweep."""

    games: dict[str, str]  # name -> what `train` is told
    seeds: int  # each game is learnt with the seeds 1 to this
    cpus_per_run: int
    gpus_per_run: float
    flags: dict[str, Any]  # of `train`, for every run

    @property
    def runs(self) -> list[Run]:
        """All runs, the first seed of every game before the second of any."""
        seeds = range(1, self.seeds + 1)
        return [Run(game, word, seed) for seed in seeds for game, word in self.games.items()]


@dataclass(frozen=True)
class Places:
    """Where the files of a sweep lie, by absolute paths."""

    results: Path
    snapshots: Path

    @staticmethod
    def of(home: Path, name: str) -> "Places":
        """Return the places of the sweep `name`.

        Raises:
            UserError: It cannot be a folder's name.
        """
        if not name or "/" in name or name.startswith(".") or len(name) > 100:
            raise UserError(
                f"--name {name!r} cannot be a folder's name: give up to 100 letters, digits, - and _"
            )
        root = home.absolute()
        return Places(root / "results" / "sweep" / name, root / "snapshots" / "sweep" / name)

    @property
    def plan(self) -> Path:
        """The plan, as JSON."""
        return self.results / "sweep.json"

    @property
    def summary(self) -> Path:
        """What each run came to."""
        return self.results / "summary.csv"

    @property
    def scores(self) -> Path:
        """What all came to, compared with people."""
        return self.results / "human_normalised.csv"

    @property
    def claim(self) -> Path:
        """What `snapshot.claimed` holds while the sweep runs."""
        return self.snapshots / "sweep"

    def csv(self, run: Run) -> Path:
        """Return the statistics of `run`."""
        return self.results / f"{run.name}.csv"

    def log(self, run: Run) -> Path:
        """Return all that `run` prints."""
        return self.results / f"{run.name}.log"

    def prefix(self, run: Run) -> Path:
        """Return what the names of the snapshots of `run` begin with."""
        return self.snapshots / run.name

    def arguments(self, plan: Plan, run: Run) -> tuple[str, ...]:
        """Return the command that begins `run`, or goes on with it: a verb and its flags."""
        own = {
            "resume": True,
            "random_seed": run.seed,
            "threads": plan.cpus_per_run,
            "csv_file": self.csv(run),
            "save_weights_prefix": self.prefix(run),
        }
        return ("train", run.word, *(f"--{name}={value}" for name, value in {**plan.flags, **own}.items()))


def find_games(words: Sequence[str], config: EnvironmentConfig) -> dict[str, str]:
    """Return the games that `words` name, each once: its name, and what `train` is to be told.

    Args:
        words: Names, paths of ROMs, classes of the user's own, `atari57` or `all`.
        config: The kind of environment that is to play them.

    Raises:
        UserError: There is no such game; the nearest are named.
    """
    games: dict[str, str] = {}
    for word in words:
        for one in ALL[word]() if word in ALL and config.environment == "ale" else [word]:
            name, told = _find(one, config)
            games.setdefault(name, told)
    return games


def _find(word: str, config: EnvironmentConfig) -> tuple[str, str]:
    """Return the name of the game that `word` names, and what `train` is to be told, wherever it is started.

    Raises:
        UserError: There is no such game.
    """
    if EnvironmentConfig(environment=word).own:
        file, _ = split(word)
        own = load(str(Path(word).absolute()))
        return name_of(own), f"{Path(file).absolute()}:{own.__name__}"
    name = game_name(replace(config, game=word))
    return name, str(Path(word).absolute()) if Path(word).is_file() else word


def remember(plan: Plan, path: Path) -> str:
    """Write the plan down unless it was, and return what is written.

    Raises:
        UserError: Another plan was, or it cannot be read or written.
    """
    check_same(plan, path)
    if not path.exists():
        with replacing(path) as beside:
            beside.write_text(json.dumps(vars(plan), indent=2) + "\n")
    return path.read_text()


def check_same(plan: Plan, path: Path) -> None:
    """Refuse a plan other than the one in `path`, if there is one.

    Raises:
        UserError: What is different, or that it cannot be read.
    """
    if not path.exists():
        return
    try:
        was = Plan(**json.loads(path.read_text()))
        before = {**vars(was), **{f"--{name}": value for name, value in was.flags.items()}}
    except (OSError, ValueError, TypeError, AttributeError):
        raise UserError(f"{path} cannot be read as a sweep's: remove it, or give another --name") from None
    now = {**vars(plan), **{f"--{name}": value for name, value in plan.flags.items()}}
    for name in sorted({*before, *now} - {"flags"}):
        if before.get(name) != now.get(name):
            raise UserError(
                f"the sweep {path.parent.name} was begun with {_words(name, before)} and is now given "
                f"{_words(name, now)}: give the same again to go on with it, or another --name"
            )


def _words(name: str, values: dict[str, Any]) -> str:
    flag = name if name.startswith("--") or name == "games" else f"--{name}"
    value = values.get(name)
    if value is None:
        return f"no {flag}"
    return f"{flag} {' '.join(value) if isinstance(value, dict) else value}"
