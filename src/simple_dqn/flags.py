"""The flags, made from the dataclasses of `config`."""

import argparse
import types
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from typing import Any, get_args, get_type_hints

from simple_dqn.command_line import INDENT, WIDTH, Parser, ShortHelp, number, or_none, yes_no_or, yes_or_no
from simple_dqn.config import (
    CLASS_FILE,
    GONE_VALUES,
    AgentConfig,
    BackendConfig,
    ClusterConfig,
    Config,
    EnvironmentConfig,
    MemoryConfig,
    NetworkConfig,
    RunConfig,
    Share,
)
from simple_dqn.presets import PRESETS

# Headings of --help, in its order, and the dataclass whose fields stand under each.
GROUPS: dict[str, type] = {
    "Environment": EnvironmentConfig,
    "Replay memory": MemoryConfig,
    "Deep Q-learning network": NetworkConfig,
    "Backend": BackendConfig,
    "Agent": AgentConfig,
    "Main loop": RunConfig,
    "Cluster": ClusterConfig,
}
LATER_GROUPS = ("Common",)
SETTINGS = {setting.name for setting in Config().settings()} - {"game"}

# The names of flags in other projects.
OTHER_NAMES = {
    "lr": "learning_rate",
    "alpha": "learning_rate",
    "gamma": "discount_rate",
    "discount": "discount_rate",
    "epsilon": "exploration_rate_start",
    "eps_start": "exploration_rate_start",
    "eps_end": "exploration_rate_end",
    "exploration_fraction": "exploration_decay_steps",
    "epsilon_decay": "exploration_decay_steps",
    "buffer_size": "replay_size",
    "memory_size": "replay_size",
    "learning_starts": "random_steps",
    "total_timesteps": "epochs",
    "env": "environment",
    "env_id": "environment",
    "num_envs": "workers",
    "n_envs": "workers",
    "seed": "random_seed",
    "target_network_frequency": "target_steps",
    "target_update_interval": "target_steps",
    "model": "load_weights",
    "checkpoint": "load_weights",
    "cpu": "backend",
    "gpu": "backend",
    "cuda": "backend",
    "dtype": "datatype",
    "per": "prioritized",
    "frameskip": "frame_skip",
    "sticky_actions": "repeat_action_probability",
    "n_steps": "n_step",
    "num_epochs": "epochs",
}


def parser(
    program: str,
    description: str,
    example: str = "",
    most_used: Sequence[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> Parser:
    """Return a parser with a flag for every setting, in simple_dqn's groups.

    Args:
        program: The command, as the user called it.
        description: One sentence on what it does.
        example: A command line, without `program`.
        most_used: The settings that `--help` shows, by name.
        defaults: The values to show as defaults, where they are not those of `config`.
    """
    result = Parser(
        prog=program,
        description=description,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
        add_help=False,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=INDENT, width=WIDTH),
    )
    result.example, result.most_used = example, most_used
    result.settings, result.other_names = SETTINGS, OTHER_NAMES
    result.add_argument(
        "-h",
        "--help",
        action=ShortHelp,
        nargs="?",
        metavar="all",
        help="most used flags; all: every flag",
    )
    headings = {name: result.add_argument_group(name) for name in (*GROUPS, *LATER_GROUPS)}
    for heading, settings in GROUPS.items():
        for setting in fields(settings):
            if not setting.metadata.get("positional"):
                default = (defaults or {}).get(setting.name, setting.default)
                _add_flag(headings[setting.metadata["group"] or heading], setting, settings, default)
    return result


def add_presets(parser: Parser, usual: str) -> None:
    """Add `--preset`, with the default `usual`, and `--print_config`."""
    group = parser.add_argument_group("Preset")
    group.add_argument(
        "--preset", choices=tuple(PRESETS),
        help=f"a set of settings, over the defaults above; flags beside it win (default: {usual})",
    )  # fmt: skip
    group.add_argument(
        "--print_config", type=yes_or_no, nargs="?", const=True, metavar="BOOL",
        help="print every setting and exit (default: false)",
    )  # fmt: skip


def as_word(value: Any) -> str:
    """Return `value` as written on the command line."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def words(given: Mapping[str, Any]) -> list[str]:
    """Return the flags `given` as on the command line."""
    return [f"--{name}={as_word(value)}" for name, value in given.items()]


def _add_flag(group: Any, setting: "Field[Any]", settings: type, default: Any) -> None:
    hint = get_type_hints(settings)[setting.name]
    kind = _plain_type(hint)
    arguments: dict[str, Any] = {
        "help": f"{setting.metadata['help']} (default: {as_word(default)})".replace("%", "%%")
    }
    if kind is bool:
        words = tuple(setting.metadata["choices"] or ())
        arguments |= {
            "type": yes_no_or(words),
            "nargs": "?",
            "const": True,
            "metavar": "|".join(("BOOL", *words[1:])),
        }
    elif setting.metadata["choices"] and setting.metadata["file"]:
        words = (*setting.metadata["choices"], setting.metadata["file"])
        arguments |= {"type": _one_of(words), "metavar": f"{{{','.join(words)}}}"}
    elif setting.metadata["choices"]:
        known = setting.metadata["choices"]
        arguments |= {"choices": known, "type": _not_gone(known)}
    else:
        limits = {name: setting.metadata[name] for name in ("minimum", "above", "maximum", "endless")}
        arguments |= {
            "type": kind if kind is str else number(kind, **limits),
            "metavar": kind.__name__.upper(),
        }
    if setting.metadata["share_of"]:
        arguments |= {"type": _or_share(arguments["type"]), "metavar": "INT|N%"}
    if isinstance(hint, types.UnionType):
        arguments["type"] = or_none(arguments["type"])
    group.add_argument(f"--{setting.name}", **arguments)


def _not_gone(known: Sequence[str]) -> Any:
    """Return a converter that refuses a value of an earlier version, unless it is `known` again."""

    def convert(word: str) -> str:
        if word in GONE_VALUES and word not in known:
            raise argparse.ArgumentTypeError(GONE_VALUES[word])
        return word

    return convert


def _or_share(convert: Any) -> Any:
    """Return `convert`, but with a `Share` of the run for a word such as 10%."""
    percent = number(float, minimum=0, maximum=100)
    return lambda word: Share(percent(word[:-1])) if word.endswith("%") else convert(word)


def _one_of(words: tuple[str, ...]) -> Any:
    """Return a converter that accepts one of `words`, or a file name of the form of the last."""

    def convert(word: str) -> str:
        if word not in words[:-1] and not CLASS_FILE.fullmatch(word):
            raise argparse.ArgumentTypeError(f"invalid choice: {word!r} (choose from {', '.join(words)})")
        return word

    return convert


def _plain_type(hint: Any) -> type:
    """Return T for the type hint T or T | None."""
    if isinstance(hint, types.UnionType):
        hint = next(kind for kind in get_args(hint) if kind is not types.NoneType)
    assert isinstance(hint, type)
    return hint
