"""This process's place in a Ray cluster: joined at first, left at last."""

import hashlib
import importlib.util
import logging
import os
import platform
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from simple_dqn.errors import UserError
from simple_dqn.interrupt import SIGNALS

LOCAL, AUTO = "local", "auto"
LAST_PORT = 65_535
SECONDS = 5.0  # in which a machine that is there answers
ATTEMPTS = 3  # at starting a cluster, for which Ray gives a machine 30 seconds
OBJECT_STORE = 256 * 2**20  # bytes; for weights, and trajectories in flight
# What Ray reads when it is imported: nothing is told to its makers.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
# Ray's switch for machines that are no part of a cluster: it then listens on the loopback interface alone.
# Without it, it takes the machine's address in place of 127.0.0.1.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
# Whoever joins a cluster that asks for a token must say so; where there is none, none is asked for.
TOKEN_FILE = Path("~/.ray/auth_token")
TOKEN = {"RAY_AUTH_MODE": "token"}
LOOPBACK_HOSTS = ("127.", "localhost:")  # how such addresses begin


class Session:
    """Ray, joined by this process."""

    def __init__(self, cluster: str, cpus: int | None = None) -> None:
        """Join `cluster`: local, auto, or the address of its head.

        Args:
            cluster: local starts a cluster of this machine alone, for as long as the session lasts.
            cpus: How many processors that one counts; None: those that are there.

        Raises:
            UserError: Ray is missing, or the cluster cannot be reached, or is of another version of Ray or
                Python.
        """
        require_ray()
        alone = cluster == LOCAL or cluster.startswith(LOOPBACK_HOSTS)
        has_token = TOKEN_FILE.expanduser().exists()
        for name, value in (QUIET | (LOOPBACK if alone else {}) | (TOKEN if has_token else {})).items():
            os.environ.setdefault(name, value)
        if cluster not in (LOCAL, AUTO):
            require_answer(cluster)
        import ray

        self._ray = ray
        logging.getLogger("ray").setLevel(logging.ERROR)
        arguments: dict[str, Any] = {"address": cluster}
        if cluster == LOCAL:
            arguments |= {
                "num_cpus": cpus, "num_gpus": 0, "include_dashboard": False,
                "object_store_memory": OBJECT_STORE,
            }  # fmt: skip
        self._join(cluster, arguments)
        folder = ray._private.worker._global_node.get_session_dir_path()
        self._folder = Path(folder) if cluster == LOCAL else None

    def _join(self, cluster: str, arguments: dict[str, Any]) -> None:
        """Join, and if a machine is too busy for Ray's patience, try again.

        Raises:
            UserError: It cannot be joined.
        """
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        quiet = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.ERROR}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._ray.init(**arguments, **quiet)
                return
            except Exception as error:  # Ray has no kind of its own for what can be amiss.
                self._ray.shutdown()
                if attempt == ATTEMPTS or "timed out during startup" not in str(error):
                    raise UserError(complaint(cluster, error)) from None
            finally:
                for number, handler in handlers.items():  # Ray has taken one of them over.
                    signal.signal(number, handler)

    def close(self) -> None:
        """Leave the cluster; one that was started for this run ends, and leaves nothing behind."""
        self._ray.shutdown()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def connected(cluster: str) -> Iterator[None]:
    """Be part of `cluster`, inside; see `Session`."""
    session = Session(cluster)
    try:
        yield
    finally:
        session.close()


def require_ray() -> None:
    """See that Ray is installed.

    Raises:
        UserError: It is not.
    """
    try:
        missing = importlib.util.find_spec("ray") is None
    except ValueError:  # as a test may leave it
        missing = True
    if missing:
        raise UserError(
            "--cluster and sweep.sh need Ray, which is not installed: "
            ".venv/bin/python -m pip install 'ray>=2.60,<3', the extra `cluster` of pyproject.toml"
        )


def require_answer(address: str) -> None:
    """See that somebody answers at `address`, for Ray would wait for minutes.

    Raises:
        UserError: Nobody does, or it is no address.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > LAST_PORT or "/" in host:
        raise UserError(
            f"--cluster {address} is neither local nor auto nor an address such as 10.0.0.1:6379: give the "
            "one that `ray start --head` printed"
        )
    try:
        socket.create_connection((host, int(port)), SECONDS).close()
    except OSError as error:
        reason = error.strerror or error
        raise UserError(
            f"--cluster {address} cannot be reached ({reason}): see that `ray start --head` runs there, and "
            "that no firewall is between"
        ) from None


def complaint(cluster: str, error: Exception) -> str:
    """Return in one line what `error`, from Ray, says of joining `cluster`, and what to do."""
    words = " ".join(str(error).split())
    if "ersion mismatch" in words:
        return f"--cluster {cluster} is of another version: {words}: install the same on every machine"
    if cluster == AUTO and isinstance(error, ConnectionError):
        return (
            "--cluster auto: no Ray cluster runs on this machine: join one with `ray start --address ADDRESS`"
            " or give --cluster local"
        )
    return (
        f"--cluster {cluster} cannot be joined ({words[:300]}): see that `ray start` runs on this machine too"
    )


@cache
def machine_facts() -> dict[str, str]:
    """Return this machine's name, this process's id, and what must be the same on all machines."""
    return {
        "host": socket.gethostname(),
        "process": str(os.getpid()),
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "project": sources_digest(),
    }


def sources_digest() -> str:
    """Return a digest of the project's source files: a version number says too little of a working copy."""
    digest, folder = hashlib.sha256(), Path(__file__).parents[1]
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return digest.hexdigest()[:12]
