"""Registration of your own networks, target rules, samplers and writers, chosen by name."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from simple_dqn.config import REGISTERED
from simple_dqn.errors import UserError

if TYPE_CHECKING:
    from simple_dqn.dqn import TargetRule
    from simple_dqn.networks import NetworkSpec
    from simple_dqn.samplers import Uniform
    from simple_dqn.statistics import Writer

Entry = TypeVar("Entry")
LONGEST = 100  # letters of a name
SAMPLER_METHODS = {
    "draw": "self, count, steps, rng",
    "set_errors": "self, numbers, errors",
    "get_state": "self",
    "set_state": "self, state",
}


def register_network(name: str, spec: "NetworkSpec") -> None:
    """Register hidden layers for `--network NAME`; snapshots record the name.

    Args:
        name: A new name, or that of a network to replace.
        spec: The layers, from `simple_dqn.networks`.

    Raises:
        UserError: The name is not made of letters, digits and _, or is `auto`; or `spec` is no such object.

    Example:
        >>> spec = NetworkSpec((Convolution(16, 8, 4), Dense(128)), True, uniform_by_inputs)
        >>> simple_dqn.register_network("tiny", spec)
        >>> simple_dqn.train("pong", network="tiny")
    """
    from simple_dqn.networks import NETWORKS, NetworkSpec

    if not isinstance(spec, NetworkSpec):
        raise UserError(
            f"{spec!r} is no network: give a simple_dqn.networks.NetworkSpec, such as "
            "NetworkSpec((Convolution(16, 8, 4), Dense(128)), True, uniform_by_inputs)"
        )
    _register("network", name, spec, NETWORKS)


def register_target_rule(name: str, rule: "TargetRule") -> None:
    """Register a target rule for `--target_rule NAME`; snapshots record the name.

    Args:
        name: A new name; or `max`, `double` or `munchausen`, to replace the rule that `auto` chooses.
        rule: Returns the targets of transitions, as `examples/expected_sarsa.py` does.

    Raises:
        UserError: The name is not made of letters, digits and _, or is `auto`; or `rule` cannot be called so.

    Example:
        >>> simple_dqn.register_target_rule("sarsa", of_policy)
        >>> simple_dqn.train("pong", target_rule="sarsa")
    """
    from simple_dqn.dqn import TARGET_RULES

    contract = "give a function (target, config, transitions, noise) that returns targets [B, 1, N]"
    _check_call(rule, "target, config, transitions, noise", contract)
    _register("target_rule", name, rule, TARGET_RULES)


def register_sampler(name: str, sampler: "type[Uniform]") -> None:
    """Register a sampler of the replay memory for `--sampler NAME`; snapshots record the name.

    Args:
        name: A new name; or `uniform` or `prioritized`, to replace the sampler that `auto` chooses.
        sampler: A class with the methods of `Uniform`, as in `examples/combined_replay.py`. It receives TD
            errors if its `uses_errors` is true.

    Raises:
        UserError: The name is not made of letters, digits and _, or is `auto`; or a method is missing, or
            takes other arguments.

    Example:
        >>> simple_dqn.register_sampler("combined", Combined)
        >>> simple_dqn.train("pong", sampler="combined")
    """
    from simple_dqn.samplers import SAMPLERS

    contract = "give a class with the methods of simple_dqn.samplers.Uniform"
    if not isinstance(sampler, type):
        raise UserError(f"{sampler!r} is no class: {contract}")
    _check_call(sampler, "ring, config", contract)
    for old, new in {"update": "set_errors", "on_append": "draw, which sees what was appended"}.items():
        if hasattr(sampler, old):
            raise UserError(f"{sampler.__qualname__}.{old} is now called {new}: rename it")
    for name_of, arguments in SAMPLER_METHODS.items():
        _check_call(getattr(sampler, name_of, None), arguments, f"{contract}, {name_of}({arguments}) too")
    for name_of in ("experience_bytes", "nbytes", "uses_errors"):
        if not hasattr(sampler, name_of):
            raise UserError(f"{sampler.__qualname__} has no attribute {name_of}: {contract}")
    _register("sampler", name, sampler, SAMPLERS)


def register_track(name: str, make: "Callable[[Path, Mapping[str, Any], bool], Writer]") -> None:
    """Register a writer for `--track NAME`; it receives the events of a run.

    Args:
        name: A new name; or `wandb` or `trackio`, to replace it.
        make: A function or class that returns the writer, a `simple_dqn.statistics.Writer`. Its arguments are
            the path of the run's CSV without its extension, the settings, and whether the run is resumed.

    Raises:
        UserError: The name is not made of letters, digits and _, or is `auto` or `none`; or `make` cannot be
            called so.

    Example:
        >>> simple_dqn.register_track("mine", MyWriter)
        >>> simple_dqn.train("pong", track="mine")
    """
    from simple_dqn.statistics import Writer
    from simple_dqn.statistics.writers import TRACKERS

    contract = "give a function (path, settings, resumed) that returns a simple_dqn.statistics.Writer"
    _check_call(make, "path, settings, resumed", contract)
    if isinstance(make, type) and not issubclass(make, Writer):
        raise UserError(f"{make.__qualname__} is no Writer: {contract}")
    _register("track", name, make, TRACKERS)


def _register(setting: str, name: str, entry: Entry, table: dict[str, Entry]) -> None:
    """Add `entry` to `table`, and a new `name` to the values of `setting`."""
    reserved = name in ("auto", "none")
    if not isinstance(name, str) or reserved or not name.isidentifier() or len(name) > LONGEST:
        remedy = f"up to {LONGEST} letters, digits and _, with a letter first"
        why = "it is reserved, so choose another" if reserved else f"use {remedy}"
        raise UserError(f"{name!r} cannot name a {setting}: {why}")
    if name not in table:
        REGISTERED[setting].append(name)
    table[name] = entry


def _check_call(function: object, arguments: str, contract: str) -> None:
    """Check that `function` can be called with `arguments`, their names.

    Raises:
        UserError: It cannot; the `contract` says what to give.
    """
    returns_later = inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function)
    if not callable(function) or returns_later:
        raise UserError(f"{function!r} cannot be called: {contract}")
    try:
        inspect.signature(function).bind(*arguments.split(", "))
    except (TypeError, ValueError) as error:  # ValueError: such as `int`, which has no signature
        name = getattr(function, "__qualname__", repr(function))
        raise UserError(f"{name} cannot be called with ({arguments}), {error}: {contract}") from None
