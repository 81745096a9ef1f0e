"""Joins and leaves a Ray cluster, and describes this machine to others."""

import hashlib
import logging
import os
import platform
import shutil
import signal
import socket
from functools import cache
from pathlib import Path
from typing import Any

from simple_dqn.errors import UserError, one_line, require_extra
from simple_dqn.interrupt import SIGNALS

LOCAL, AUTO = "local", "auto"
LAST_PORT = 65_535
CONNECT_SECONDS = 5.0  # in which the head of a cluster must answer
ATTEMPTS = 3  # to start a cluster, each of which Ray ends after 30 seconds
OBJECT_STORE = 256 * 2**20  # bytes, for weights and trajectories in flight
# Environment variables that Ray reads when it is imported: no usage statistics.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
# Makes Ray listen on the loopback interface only; otherwise it replaces 127.0.0.1 by the machine's address.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
# A cluster may require a token; a machine that has the file uses it.
TOKEN_FILE = Path("~/.ray/auth_token")
TOKEN = {"RAY_AUTH_MODE": "token"}
LOOPBACK_HOSTS = ("127.", "localhost:")  # prefixes of addresses


class Session:
    """The membership of this process in a Ray cluster, from construction to `close`."""

    def __init__(self, cluster: str, cpus: int | None = None) -> None:
        """Join a cluster.

        Args:
            cluster: local, which starts a cluster of this machine that ends with the session; auto, the one
                that this machine belongs to; or the address of a cluster's head.
            cpus: How many processors a local cluster has; None: those of the machine.

        Raises:
            UserError: Ray is not installed, or the cluster cannot be reached or has another version of Ray
                or Python.
        """
        require_extra("cluster", "--cluster")
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
        """Join; try again if the machine was too busy to start a cluster in time.

        Raises:
            UserError: It cannot be joined.
        """
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        quiet = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.ERROR}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._ray.init(**arguments, **quiet)
                return
            except Exception as error:  # Ray raises many types.
                self._ray.shutdown()
                if attempt == ATTEMPTS or "timed out during startup" not in str(error):
                    raise UserError(complaint(cluster, error)) from None
            finally:
                for number, handler in handlers.items():  # Ray replaces one of them.
                    signal.signal(number, handler)

    def close(self) -> None:
        """Leave the cluster; a local one ends, and its files are deleted."""
        self._ray.shutdown()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def require_answer(address: str) -> None:
    """Check that a process listens at `address`; without this check Ray would wait for minutes.

    Raises:
        UserError: None does, or `address` is malformed.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > LAST_PORT or "/" in host:
        raise UserError(
            f"--cluster {address} is neither local nor auto nor an address such as 10.0.0.1:6379: give the "
            "one that `ray start --head` printed"
        )
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        reason = error.strerror or error
        raise UserError(
            f"--cluster {address} cannot be reached ({reason}): check that `ray start --head` runs there "
            "and that no firewall blocks it"
        ) from None


def complaint(cluster: str, error: Exception) -> str:
    """Return in one line why Ray could not join `cluster`, and what to do."""
    words = one_line(error)
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
