"""Installs the packages of the peers, beside the project's own: nobody else needs them."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from simple_dqn.errors import UserError

# CleanRL is no package, but a script that the user brings; tyro reads its flags.
PINS = ("stable-baselines3==2.9.2", "tianshou==2.0.1", "envpool==1.2.5", "tyro==1.0.17")
FOLDER = Path(os.environ.get("SIMPLE_DQN_HOME", Path(__file__).parents[1])) / ".venv-bench-peers"


def python() -> Path:
    """Return the Python that has the peers, once they are installed."""
    return FOLDER / "bin" / "python"


def is_installed() -> bool:
    """Tell whether they are there, in the versions that `PINS` names, on the packages of this Python."""
    made_from = FOLDER / "made_from.txt"
    return made_from.exists() and made_from.read_text() == _recipe()


def install() -> None:
    """Make the virtual environment of the peers, unless it is there.

    It sees the project's packages, so that PyTorch, NumPy and ALE are the same for all who are compared, and
    pip adds what the peers want in other versions.

    Raises:
        UserError: pip could not.
    """
    if is_installed():
        return
    print(f"Installing {', '.join(PINS)} into {FOLDER}", file=sys.stderr)
    shutil.rmtree(FOLDER, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(FOLDER)])
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(FOLDER)}))
    (packages / "project.pth").write_text(sysconfig.get_path("purelib") + "\n")
    _run([str(python()), "-m", "pip", "install", *PINS])
    (FOLDER / "made_from.txt").write_text(_recipe())  # last: an environment without it is not whole


def _recipe() -> str:
    return "\n".join([*PINS, sys.version, sysconfig.get_path("purelib"), ""])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")]
        raise UserError(f"the peers could not be installed: {(errors or lines or ['pip said nothing'])[-1]}")
