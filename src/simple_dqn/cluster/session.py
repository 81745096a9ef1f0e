"""Joins and leaves a Ray cluster, and describes this machine to the others of the cluster."""

import hashlib
import logging
import os
import platform
import re
import shutil
import signal
import socket
from functools import cache
from pathlib import Path
from typing import Any

from simple_dqn.errors import SIGNALS, UserError, beside_python, one_line, require_extra

CONNECT_SECONDS = 5.0  # in which the head of a cluster must answer
ATTEMPTS = 3  # to start a cluster, each of which Ray ends after 30 seconds
# Environment variables that Ray reads when it is imported: no usage statistics.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
# Makes Ray listen on the loopback interface only; otherwise it replaces 127.0.0.1 by the machine's address.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
TOKEN_FILE = Path("~/.ray/auth_token")  # A cluster may require a token; a machine that has the file uses it.


class Session:
    """The membership of this process in a Ray cluster, from construction to `close`."""

    def __init__(self, cluster: str, cpus: int | None = None) -> None:
        """Join a cluster: `auto`, the one that this machine belongs to, or the one whose head has an address.

        `local` starts a cluster on this machine alone, with `cpus` cores (None: all), which ends with the
        session. Raise UserError if Ray is not installed, or the cluster cannot be reached or has another
        version.
        """
        require_extra("cluster", "--cluster")
        alone = cluster == "local" or cluster.startswith(("127.", "localhost:"))
        token = {"RAY_AUTH_MODE": "token"} if TOKEN_FILE.expanduser().exists() else {}
        for name, value in (QUIET | (LOOPBACK if alone else {}) | token).items():
            os.environ.setdefault(name, value)
        if cluster not in ("local", "auto"):
            _require_answer(cluster)
        import ray

        self._ray, self._folder = ray, None
        logging.getLogger("ray").setLevel(logging.ERROR)
        arguments: dict[str, Any] = {"address": cluster}
        if cluster == "local":  # the object store holds weights and trajectories in flight
            arguments |= {"num_cpus": cpus, "num_gpus": 0, "object_store_memory": 256 << 20}
            arguments["include_dashboard"] = False
        self._join(cluster, arguments)
        if cluster == "local":
            self._folder = Path(ray._private.worker._global_node.get_session_dir_path())

    def _join(self, cluster: str, arguments: dict[str, Any]) -> None:
        """Join a cluster; try again if the machine was too busy to start one in time."""
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        quiet = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.ERROR}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._ray.init(**arguments, **quiet)
                return
            except Exception as error:  # Ray raises many types.
                self._ray.shutdown()
                why = one_line(error)
                if attempt == ATTEMPTS or "timed out during startup" not in why:
                    auto = f"start one, {beside_python('ray')} start --head, or give --cluster local"
                    remedy = auto if cluster == "auto" else "install the same Ray and Python on every machine"
                    raise UserError(f"--cluster {cluster} cannot be joined ({why[:300]}): {remedy}") from None
            finally:
                for number, handler in handlers.items():  # Ray replaces one of them.
                    signal.signal(number, handler)

    def close(self) -> None:
        """Leave the cluster; a local one ends, and its files are deleted."""
        self._ray.shutdown()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def _require_answer(address: str) -> None:
    """Raise UserError unless a process listens at `address`; Ray alone would wait for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65_535 or "/" in host:
        what = "is neither local nor auto nor an address such as 10.0.0.1:6379"
        raise UserError(f"--cluster {address} {what}: give the one that `ray start --head` printed")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, UnicodeError) as error:  # UnicodeError: a host name with an empty or overlong label
        why = getattr(error, "strerror", None) or error
        remedy = "check that `ray start --head` runs there and that no firewall blocks it"
        raise UserError(f"--cluster {address} cannot be reached ({why}): {remedy}") from None


@cache
def machine_facts() -> dict[str, str]:
    """Return this machine's name, this process's id, and what must be the same on all machines.

    The project is identified by a digest of its files, because a working copy may differ from its version.
    """
    digest, folder = hashlib.sha256(), Path(__file__).parents[2]
    for path in sorted([*folder.glob("simple_dqn/**/*.py"), *folder.glob("atari2600/**/*.py")]):
        digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return {
        "host": socket.gethostname(),
        "process": str(os.getpid()),
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "project": digest.hexdigest()[:12],
    }
