"""Installs frameworks, each into a virtual environment of its own, so that their pins cannot clash.

An environment keeps a copy of the requirements that it was made from, written last: one without it is not
whole.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence

from networks.catalogue import FRAMEWORKS, environment, is_installed, requirements


def install(names: Sequence[str]) -> dict[str, str]:
    """Install those of `names` that are not, and return for each that failed what pip said."""
    failures = {}
    for name in names:
        if is_installed(name):
            continue
        folder = environment(name)
        print(f"Installing {FRAMEWORKS[name].title} into {folder}", file=sys.stderr)
        reason = _make(name)
        if reason:
            print(f"  failed: {reason}", file=sys.stderr)
            failures[name] = f"could not be installed: {reason}"
    return failures


def _make(name: str) -> str:
    """Make the environment of framework `name`; return why not, or nothing."""
    folder = environment(name)
    folder.parent.mkdir(exist_ok=True)
    (folder.parent / ".gitignore").write_text("*\n")
    shutil.rmtree(folder, ignore_errors=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--requirement", str(requirements(name))]
    for command in ([sys.executable, "-m", "venv", str(folder)], pip):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            errors = [line for line in lines if line.startswith("ERROR")]
            return (errors or lines or ["it said nothing"])[-1]
    shutil.copy(requirements(name), folder / "requirements.txt")
    return ""
