"""What the project needs beside it: packages, ROMs, folders to write to."""

import tempfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from simple_dqn.doctor.findings import Finding, Level
from simple_dqn.errors import UserError

FOLDERS = ("snapshots", "results", "videos")
SHOWN = 5  # of a list, at most


def packages(home: Path) -> Finding:
    """Compare the packages that are installed with those that the lock file pins."""
    lock_file = home / "requirements.txt"
    if not lock_file.exists():
        return Finding(
            Level.WARNING, f"there is no {lock_file} to compare with", "versions were not looked at"
        )
    pins = [Requirement(line) for line in lock_file.read_text().splitlines() if line and line[0] not in "#-"]
    missing, others = [], []
    for pin in pins:
        try:
            found = Version(metadata.version(pin.name))
        except metadata.PackageNotFoundError:
            missing.append(pin.name)
            continue
        if not pin.specifier.contains(found.public, prereleases=True):  # torch's build has a name of its own
            others.append(f"{pin.name} {found} instead of {str(pin.specifier).lstrip('=')}")
    if missing:
        return Finding(Level.ERROR, f"missing: {_some(missing)}", "remove .venv and start any script again")
    if others:
        return Finding(
            Level.WARNING,
            f"not as tested: {_some(others)}",
            "remove .venv and start any script again, for the versions that were",
        )
    return Finding(Level.OK, f"{len(pins)} packages, each in its pinned version")


def roms(home: Path) -> Finding:
    """Compare ale-py's ROMs with their MD5 sums, and look at what those in `roms/` are."""
    from simple_dqn.environment.roms import game_name, known_games, md5

    broken, strange, own = [], [], []
    for game in known_games():
        try:
            game_name(game)
        except UserError:
            broken.append(game)
    for path in sorted((home / "roms").glob("*.[rb][oi][mn]")):
        try:
            own.append(f"{path.name} is {game_name(str(path))}")
        except UserError:
            strange.append(f"{path.name} (MD5 {md5(path)})")
    if broken:
        return Finding(
            Level.ERROR,
            f"of ale-py's ROMs these have not the MD5 they should: {_some(broken)}",
            "install ale-py again: remove .venv and start any script; unset ALE_ROMS_DIR if it is set",
        )
    if strange:
        return Finding(
            Level.WARNING,
            f"ALE cannot play these in roms/: {_some(strange)}",
            "their MD5 is that of no known ROM; games also go by name, such as pong",
        )
    text = f"{len(known_games())} games of ale-py, each with the MD5 it should have"
    return Finding(Level.OK, f"{text}; in roms/: {_some(own)}" if own else text)


def folders(home: Path) -> Finding:
    """Write to each folder that runs write to, and leave nothing there."""
    for name in FOLDERS:
        folder = home / name if (home / name).exists() else home
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"\0")
                file.flush()
        except OSError as error:
            return Finding(
                Level.ERROR,
                f"{folder} cannot be written ({error.strerror})",
                "make it a folder that you can write to, or copy the project to where you can",
            )
    return Finding(Level.OK, f"{', '.join(f'{name}/' for name in FOLDERS)} can be written")


def _some(words: list[str]) -> str:
    """Return the first of the words in a line, and how many more there are."""
    more = len(words) - SHOWN
    return ", ".join(words[:SHOWN]) + (f" and {more} more" if more > 0 else "")
