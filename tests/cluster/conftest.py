"""Ray for tests: on the loopback interface alone, whatever machine this is."""

import importlib.util
import os
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from simple_dqn.cluster.session import LOOPBACK, QUIET
from tests.command_line import PROJECT

# Read when Ray is imported, which the tests of this folder do. With no way in, no token is needed.
os.environ.update(QUIET | LOOPBACK | {"RAY_AUTH_MODE": "disabled"})
# It is among what `make test` installs, but not among what the project needs.
if importlib.util.find_spec("ray") is None:
    collect_ignore = ["test_actor.py", "test_cluster.py"]


class Nodes:
    """A cluster of a head with room for one actor, and of further nodes that can be killed."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._settings: dict[str, Any] = {
            "node_ip_address": "127.0.0.1", "include_log_monitor": False, "object_store_memory": 100 * 2**20,
        }  # fmt: skip
        head = {**self._settings, "num_cpus": 1, "include_dashboard": False, "no_monitor": True}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address: str = self._cluster.address
        self._others: list[Any] = []

    def add(self, cpus: int) -> None:
        self._others.append(self._cluster.add_node(num_cpus=cpus, **self._settings))

    def kill(self) -> None:
        """Kill (`kill -9`) all that runs on the node that was added last, at once."""
        node = self._others.pop()
        own = [psutil.Process(info.process.pid) for infos in node.all_processes.values() for info in infos]
        for process in [child for parent in own for child in parent.children(recursive=True)] + own:
            process.send_signal(signal.SIGKILL)
        reap(node)
        self._cluster.worker_nodes.discard(node)

    def close(self) -> None:
        """End all nodes, and leave no child to the tests that follow."""
        nodes = self._cluster.list_all_nodes()
        self._cluster.shutdown()
        for node in nodes:
            reap(node)


def reap(node: Any) -> None:
    """Take note of the ends of a node's processes, which are children of this one."""
    for infos in node.all_processes.values():
        for info in infos:
            info.process.wait(30)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with pytest.MonkeyPatch.context() as patch:
        # Whoever starts a node sees to it that its actors find the project.
        patch.setenv("PYTHONPATH", str(PROJECT / "src"), prepend=os.pathsep)
        cluster = Nodes()
        cluster.add(2)
        yield cluster
        cluster.close()
