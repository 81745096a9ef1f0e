"""Registration of your own networks, target rules, samplers and writers, chosen by name."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from simple_dqn.config import REGISTERED
from simple_dqn.errors import UserError

if TYPE_CHECKING:
    from simple_dqn.deepqnetwork.networks import NetworkSpec
    from simple_dqn.deepqnetwork.update import TargetRule
    from simple_dqn.replay_memory.prioritized import Prioritized
    from simple_dqn.replay_memory.uniform import Uniform
    from simple_dqn.statistics import Writer

Entry = TypeVar("Entry")


def register_network(name: str, spec: "NetworkSpec") -> None:
    """Register hidden layers for `--network NAME`; snapshots record the name.

    Args:
        name: A new name, or that of a network to replace.
        spec: The layers, from `simple_dqn.deepqnetwork.networks`.

    Raises:
        UserError: The name is not made of letters, digits and _, or is `auto`.

    Example:
        >>> spec = NetworkSpec((Convolution(16, 8, 4), Dense(128)), True, uniform_by_inputs)
        >>> simple_dqn.register_network("tiny", spec)
        >>> simple_dqn.train("pong", network="tiny")
    """
    from simple_dqn.deepqnetwork.networks import NETWORKS

    _register("network", name, spec, NETWORKS)


def register_target_rule(name: str, rule: "TargetRule") -> None:
    """Register a target rule for `--target_rule NAME`; snapshots record the name.

    Args:
        name: A new name; or `max`, `double` or `munchausen`, to replace the rule that `auto` chooses.
        rule: Returns the targets of transitions, as `examples/expected_sarsa.py` does.

    Raises:
        UserError: The name is not made of letters, digits and _, or is `auto`.

    Example:
        >>> simple_dqn.register_target_rule("sarsa", of_policy)
        >>> simple_dqn.train("pong", target_rule="sarsa")
    """
    from simple_dqn.deepqnetwork.update import TARGET_RULES

    _register("target_rule", name, rule, TARGET_RULES)


def register_sampler(name: str, sampler: "type[Uniform] | type[Prioritized]") -> None:
    """Register a sampler of the replay memory for `--sampler NAME`; snapshots record the name.

    Args:
        name: A new name; or `uniform` or `prioritized`, to replace the sampler that `auto` chooses.
        sampler: A class with the methods of `Uniform`, as in `examples/combined_replay.py`. It receives TD
            errors if its `uses_errors` is true.

    Raises:
        UserError: The name is not made of letters, digits and _, or is `auto`.

    Example:
        >>> simple_dqn.register_sampler("combined", Combined)
        >>> simple_dqn.train("pong", sampler="combined")
    """
    from simple_dqn.replay_memory.memory import SAMPLERS

    _register("sampler", name, sampler, SAMPLERS)


def register_track(name: str, make: "Callable[[Path, Mapping[str, Any], bool], Writer]") -> None:
    """Register a writer for `--track NAME`; it receives the events of a run.

    Args:
        name: A new name; or `wandb` or `trackio`, to replace it.
        make: A function or class that returns the writer, a `simple_dqn.statistics.Writer`. Its arguments are
            the path of the run's CSV without its extension, the settings, and whether the run is resumed.

    Raises:
        UserError: The name is not made of letters, digits and _, or is `auto` or `none`.

    Example:
        >>> simple_dqn.register_track("mine", MyWriter)
        >>> simple_dqn.train("pong", track="mine")
    """
    from simple_dqn.statistics.trackers import TRACKERS

    _register("track", name, make, TRACKERS)


def _register(setting: str, name: str, entry: Entry, table: dict[str, Entry]) -> None:
    """Add `entry` to `table`, and a new `name` to the values of `setting`."""
    if name in ("auto", "none") or not name.isidentifier():
        raise UserError(f"{name!r} cannot name a {setting}: use letters, digits and _, not a digit first")
    if name not in table:
        REGISTERED[setting].append(name)
    table[name] = entry
