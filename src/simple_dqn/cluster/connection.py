"""The connection to Ray: to a cluster that runs, or to one on this machine for as long as it is needed."""

import logging
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from simple_dqn.errors import UserError

LOCAL, AUTO = "local", "auto"
ADDRESS = re.compile(r"(?P<host>[^:/\s]+):(?P<port>\d{1,5})")
LOOPBACK = ("127.", "localhost:")  # how such addresses begin
ANSWER_SECONDS = 5.0  # that a cluster may take to accept a connection
STORE_BYTES = 80_000_000  # of shared memory for what tasks hand over: here a few lines

# Read by Ray when it is imported, and handed on to its processes.
USUAL = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
# For a cluster that listens on the loopback interface alone, as our own does. The name is Ray's own; without
# this, it takes the machine's address in place of 127.0.0.1, and listens on all interfaces.
ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Be connected to Ray, inside.

    Args:
        address: `local`: a cluster on this machine, which begins and ends here; `auto`: the one that runs on
            this machine, or that RAY_ADDRESS names; else HOST:PORT of its head, as `ray start` printed it.

    Raises:
        UserError: Ray is not installed, there is no such cluster, or it does not accept us.
    """
    ray = _ray(alone=address == LOCAL or address.startswith(LOOPBACK))
    folder = tempfile.mkdtemp(prefix="dqn-") if address == LOCAL else None
    try:
        _connect(ray, address, folder)
        yield
    finally:
        ray.shutdown()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _ray(alone: bool) -> ModuleType:
    """Return Ray.

    Raises:
        UserError: It is not installed.
    """
    for name, value in (USUAL | (ALONE if alone else {})).items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise UserError(
            f"--cluster needs Ray, which cannot be imported ({error}): install the extra `cluster` "
            "(.venv/bin/python -m pip install '.[cluster]')"
        ) from None
    module: ModuleType = ray
    return module


def _connect(ray: ModuleType, address: str, folder: str | None) -> None:
    how: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if folder:
        how |= {
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
            "_temp_dir": folder,
            "object_store_memory": STORE_BYTES,
        }
    elif address != AUTO:
        _check_answers(address)
    try:
        ray.init(address, **how)
    except Exception as error:  # Ray's are of many kinds
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(
            f"cannot use the cluster {address}: {reason.rstrip('.')}: see that `ray status` lists this "
            "machine, or give --cluster local"
        ) from None


def _check_answers(address: str) -> None:
    """Refuse at once what Ray itself would try to reach for a minute."""
    place = ADDRESS.fullmatch(address)
    if not place:
        raise UserError(
            f"--cluster {address}: give local, auto, or the HOST:PORT that `ray start --head` names"
        )
    try:
        socket.create_connection((place["host"], int(place["port"])), ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"no cluster answers at {address} ({reason}): start it with `ray start --head`, or give "
            "--cluster local"
        ) from None
