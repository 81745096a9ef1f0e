"""The Hugging Face Hub: `hf://USER/REPO` in place of a snapshot's path, and uploads of the folders of `card`.

A file from the Hub may be a stranger's. Its name and size are checked, and it is read like any snapshot.
"""

import logging
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simple_dqn.errors import UserError, beside_python, one_line, require_extra
from simple_dqn.snapshot import MOST_BYTES

REPO = r"[A-Za-z0-9][\w-]*/[A-Za-z0-9][\w.-]*"
FILE = r"\w[\w+=@,~. -]*\.pkl"
ADDRESS = re.compile(rf"hf://(?P<repo>{REPO})(/(?P<file>{FILE}))?", re.ASCII)


def local(word: str | os.PathLike[str]) -> Path:
    """Return the path `word`, or that of the downloaded file if it is an address hf://USER/REPO[/FILE.pkl].

    The file is kept in the cache of huggingface_hub, and downloaded once.

    Raises:
        UserError: There is no such repository, no such snapshot or several in it, or the file is too large.
    """
    address = os.fspath(word)
    if not address.startswith("hf:"):
        return Path(address)
    match = ADDRESS.fullmatch(address)
    if not match or ".." in address:
        raise UserError(f"{address} is not an address: give hf://USER/REPO or hf://USER/REPO/FILE.pkl")
    with _hub(address) as hub:
        info = hub.HfApi().model_info(match["repo"], files_metadata=True)
        sizes = {file.rfilename: file.size for file in info.siblings if re.fullmatch(FILE, file.rfilename)}
        names = [name for name in sizes if match["file"] in (None, name)]
        if len(names) != 1:
            there = f"it has {', '.join([*sizes][:5])}" if sizes else "it has no snapshot"
            raise UserError(f"{address}: {there}: give hf://USER/REPO/FILE.pkl")
        if not sizes[names[0]] <= MOST_BYTES:
            raise UserError(f"{address}: {names[0]} has more than {MOST_BYTES:,} bytes: give another one")
        return Path(hub.hf_hub_download(match["repo"], names[0], revision=info.sha))


def push(folder: Path, repo: str) -> str:
    """Upload the files in `folder` to `repo`, created if new, and return its address, or raise UserError."""
    hf, files = beside_python("hf"), shlex.quote(str(folder))
    with _hub(f"--push {repo}", f"{hf} auth login, then {hf} upload {repo} {files}") as hub:
        api = hub.HfApi()
        api.create_repo(repo, exist_ok=True)
        api.upload_folder(repo_id=repo, folder_path=folder, commit_message=f"{folder.name} of Simple-DQN")
    return f"hf://{repo}"


def check_repo(repo: str) -> None:
    """Raise UserError unless `repo` is USER/REPO, and huggingface_hub installed."""
    require_extra("hub", "--push")
    if not re.fullmatch(REPO, repo, re.ASCII) or ".." in repo:
        raise UserError(f"--push {repo!r} is not a repository: give USER/REPO")


@contextmanager
def _hub(what: str, remedy: str = "") -> Iterator[Any]:
    """Yield huggingface_hub; an error in it, of its many types, becomes a UserError."""
    require_extra("hub", what)
    import huggingface_hub

    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs each request
    try:
        yield huggingface_hub
    except UserError:
        raise
    except Exception as error:
        remedy = remedy or f"check the name, the connection and {beside_python('hf')} auth login"
        raise UserError(f"{what}: {one_line(error)[:200]}: {remedy}") from error
