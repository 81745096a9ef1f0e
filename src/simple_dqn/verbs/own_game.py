"""A game of the user's own, `FILE.py:CLASS`: as flags and the game's name tell it, and as a snapshot does."""

from pathlib import Path
from typing import Any

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.class_file import canonical, load, name_of, split
from simple_dqn.errors import UserError
from simple_dqn.files import project

# Folders of the project that hold what others may have made.
FROM_ELSEWHERE = ("roms", "snapshots", "results", "videos")


def is_own(environment: str) -> bool:
    """Return whether `environment` is a class of the user's own."""
    return EnvironmentConfig(environment=environment).own


def _folders_in_project(file: str) -> tuple[str, ...]:
    """Return the parts of the path of `file`, seen from the project; none, if it is not there."""
    ours = project()
    if ours is None:
        return ()
    folder, path = ours.resolve(), (ours / file).resolve()
    return path.relative_to(folder).parts if path.is_relative_to(folder) and path.is_file() else ()


def named(given: dict[str, Any]) -> dict[str, Any]:
    """Return the flags that were `given` as the run is to keep them, if they name a class of the user's own.

    `FILE.py` or `FILE.py:CLASS` may stand for the game, or after `--environment`.

    Raises:
        UserError: They do, and there is no such class.
    """
    game, environment = given.get("game", ""), given.get("environment")
    if is_own(game):
        if environment is not None:
            raise UserError(f"{game} and --environment {environment} both say what is played: leave out one")
        environment = game
    if environment is None or not is_own(environment):
        return given
    environment = canonical(environment)
    return {**given, "environment": environment, "game": name_of(load(environment))}


def remembered(flags: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the `flags` of a snapshot, if the class of the user's own that they may name can be imported.

    A snapshot may come from a stranger, and so must not choose freely what is run here: on its word a
    file is imported only if it is one of the project's, and not among what was brought there.

    Args:
        flags: The snapshot's.
        given: Flags that are given now, which may name the file.

    Raises:
        UserError: The class lies elsewhere, and is not named.
    """
    environment = flags.get("environment", "ale")
    if not is_own(environment) or "environment" in given:
        return flags
    file, name = split(environment)
    folders = _folders_in_project(file)
    if not folders or folders[0] in FROM_ELSEWHERE or any(part.startswith(".") for part in folders):
        raise UserError(
            f"it was trained on {Path(file).name}:{name}, which is not one of this project's files: say "
            f"where it is, --environment FOLDER/{Path(file).name}:{name}"
        )
    return flags
