"""`snapshot`: shows a snapshot, converts one of Neon's, or shares one with other programs and people."""

import csv
import glob
import io
import json
import logging
import re
import shlex
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn import __version__, command_line, hub, plot
from simple_dqn.command_line import Parser
from simple_dqn.config import Config, as_word, number
from simple_dqn.environment import is_atari
from simple_dqn.errors import UserError, beside_python, printable, require_extra
from simple_dqn.files import command, home, is_trained, kind_of, replacing, reporting_failure
from simple_dqn.run import make_environment, make_network
from simple_dqn.snapshot import Snapshot
from simple_dqn.statistics.writers import start_log
from simple_dqn.types import observation_dtype
from simple_dqn.verbs import play

SEEDED: dict[str, Any] = {**play.ONE_GAME, "random_seed": 0}
# Hugging Face reads the lines between the dashes.
CARD = """---
library_name: simple-dqn
license: mit
tags: [deep-reinforcement-learning, reinforcement-learning, dqn, {game}]
model-index:
- name: {name}
  results:
  - task: {{type: reinforcement-learning, name: reinforcement-learning}}
    dataset: {{name: {game}, type: {game}}}
    metrics:
    - {{type: mean_reward, name: mean_reward, value: {score}, verified: false}}
---

# DQN plays {game}

A deep Q-network of Simple-DQN {version}, after {epoch} epochs ({steps:,} training steps).{film}

```
{report}
```

Load it with `simple_dqn.load("{address}")`, or play: `./play.sh {address}`. Loading a snapshot runs no code.
The settings are in `config.yaml`, which marks those that differ from the defaults.{own}
{curve}"""


def snapshot(arguments: Sequence[str], program: str) -> None:
    """Show, convert, export or describe snapshots."""
    given = _parser(program).parse(arguments)
    action, source = given["action"], hub.local(given["source"])
    if action in ("export", "card"):
        start_log("WARNING")
    content = play.open_snapshot(source, given.get("game"))
    if action == "show":
        print(describe(content))
        return
    target: Path | None = given["target"]
    if not target and action == "card":
        target = home() / "snapshots" / f"{source.stem}_card"
    elif not target:  # beside the snapshot, unless that is in the cache of the Hub or one of the project's
        apart = source != Path(given["source"]) or is_trained(source)
        target = (home() / "snapshots" / source.name if apart else source).with_suffix(f".{given['format']}")
    if kind_of(target):
        raise UserError(f"{target} exists: remove it or give another name")
    if action == "card":
        card(source, content, target, given["games"], given["push"])
    elif action == "convert":
        if given["float16"]:
            half = {name: a.astype(np.float16) for name, a in content.weights.items() if a.ndim > 1}
            content = replace(content, weights=content.weights | half)
        content.save(target)
        print(printable(f"{target}: {content.game}, epoch {content.epoch}"))
    elif given["format"] == "onnx":
        export(source, content, target)
    else:
        export_weights(content, target)


def _parser(program: str) -> Parser:
    parser = Parser(prog=program, description="Show a snapshot, convert one of Neon's, or share one.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="show|convert|export|card")
    for action, text in {
        "show": "print the settings and layers of a snapshot",
        "convert": "write a snapshot, Neon's or ours, in our format",
        "export": "write the network as an ONNX file, or the weights as safetensors, for other programs",
        "card": "write a folder with a model card, a video and the settings, for the Hugging Face Hub",
    }.items():
        one = actions.add_parser(action, help=text)
        one.add_argument("source", metavar="FILE", help=play.SNAPSHOT)
        if action != "show":
            count, text = None if action == "convert" else "?", "the file or folder to write"
            one.add_argument("target", type=Path, nargs=count, metavar="OUT", help=text)
        if action in ("show", "convert"):
            one.add_argument("--game", help="the game of a Neon snapshot whose file name does not contain it")
        if action == "convert":
            text = "write matrices and filters in float16: half the size"
            one.add_argument("--float16", action="store_true", help=text)
        if action == "export":
            formats = one.add_mutually_exclusive_group(required=True)
            for kind, text in (("onnx", "the network"), ("safetensors", "its weights and settings")):
                formats.add_argument(f"--{kind}", dest="format", action="store_const", const=kind, help=text)
        if action == "card":
            text = "games to play for the score (default: 10)"
            one.add_argument("--games", type=partial(number, int, minimum=1), default=10, help=text)
            text = "upload the folder to this repository of models, created if it is new"
            one.add_argument("--push", metavar="USER/REPO", help=text)
    return parser


def describe(content: Snapshot) -> str:
    """Return the content of a snapshot as text, a line for each entry."""
    rows: list[tuple[str, object]] = [
        *((name, getattr(content, name)) for name in ("game", "epoch", "actions", "total_train_steps")),
        *((f"--{name}", value) for name, value in sorted(content.flags.items())),
    ]
    for name, weights in content.weights.items():
        shape = " x ".join(map(str, weights.shape))
        rows.append((printable(name), f"{shape}, mean {weights.mean():.4f}, deviation {weights.std():.4f}"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {printable(str(value))}" for name, value in rows)


def export(path: Path, content: Snapshot, target: Path) -> None:
    """Write the network of the snapshot `content`, at `path`, as an ONNX file, and print its largest error.

    Its input is `states` uint8 [B, S, H, W], or float32 if the agent observes numbers; its output is
    `q_values` float32 [B, A].
    """
    require_extra("onnx", "export --onnx")
    import onnxruntime
    import torch

    for log in ("onnxscript", "torch.onnx"):  # warn of operations that no network here has
        logging.getLogger(log).setLevel(logging.ERROR)
    fixed = {**SEEDED, "backend": "cpu", "datatype": "float32"}
    config = play.settings_of_agent(path, content, {}, fixed)
    with make_environment(config, training=False) as environment:
        network = make_network(config, environment)
        play.load_weights(path, environment, network, content)
    shape = (64, config.memory.history_length, *environment.screen_shape)
    kind, rng = observation_dtype(environment.screen_shape), np.random.default_rng(0)
    states = rng.integers(256, size=shape).astype(kind)
    most = 255 if kind == np.uint8 else 1

    class FromBytes(torch.nn.Module):  # divides the bytes of a state by 255 itself
        def __init__(self) -> None:
            super().__init__()
            self.network = network._online

        def forward(self, states: torch.Tensor) -> Any:
            return self.network(states.to(torch.float32) / most, None)

    with replacing(target) as part, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's exporter uses what PyTorch deprecates
        program = torch.onnx.export(
            FromBytes().eval(), (torch.from_numpy(states),), input_names=["states"],
            output_names=["q_values"], dynamic_shapes=({0: torch.export.Dim("batch")},), dynamo=True,
            verbose=False,
        )  # fmt: skip
        assert program is not None
        actions = " ".join(environment.action_names)
        program.model.metadata_props.update({"game": content.game, "actions": actions})
        program.save(str(part), external_data=False)
        session = onnxruntime.InferenceSession(str(part), providers=["CPUExecutionProvider"])
        (found,), wanted = session.run(None, {"states": states}), network.predict(states)
    sizes = ", ".join(map(str, shape[1:]))
    print(printable(f"{target}: q_values float32 [B, {environment.actions}] of states {kind} [B, {sizes}]"))
    off = np.abs(found - wanted).max() / np.abs(wanted).max()
    print(f"ONNX Runtime is off by at most {off:.1e} of the largest |Q|")


def export_weights(content: Snapshot, target: Path) -> None:
    """Write the weights of a snapshot as a safetensors file, by name, with facts and settings as metadata."""
    require_extra("hub", "export --safetensors")
    from safetensors.numpy import save_file

    facts = {name: getattr(content, name) for name in ("game", "epoch", "actions", "total_train_steps")}
    metadata = {name: as_word(value) for name, value in {**facts, **content.flags}.items()}
    with replacing(target) as part:
        save_file(content.weights, part, metadata)
    print(printable(f"{target}: {len(content.weights)} arrays, such as {next(iter(content.weights))}"))


def card(path: Path, content: Snapshot, target: Path, games: int, repo: str | None) -> None:
    """Write a folder for the Hub: snapshot, README.md, film, curve, settings; and upload it to `repo`."""
    if repo is not None:
        hub.check_repo(repo)  # before the games
    with reporting_failure(f"the folder {target}", "give another name"):
        target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as made:
        folder = Path(made, "card")
        folder.mkdir()
        _fill(folder, path, content, games, repo)
        folder.rename(target)
    print(printable(f"{target} holds {', '.join(sorted(file.name for file in target.iterdir()))}"))
    if repo:
        print(printable(f"Uploaded: {command('play', hub.push(target, repo))}"))
    else:
        words = shlex.join((f"YOUR_NAME/{target.name}", str(target)))
        print(printable(f"Nothing was uploaded. To upload it: {beside_python('hf')} upload {words}"))


def _fill(folder: Path, path: Path, content: Snapshot, games: int, repo: str | None) -> None:
    """Write the files of a card into `folder`."""
    settings, file = Config.from_flags({**content.flags, "game": content.game}), f"{path.stem}.pkl"
    address = f"hf://{repo}" if repo else file
    content.save(folder / file)
    (folder / "config.yaml").write_text(command_line.listing(settings, "simple_dqn") + "\n", "utf-8")
    protocol = "nature" if is_atari(settings.environment) else "simple_dqn"
    words = f"--protocol {protocol} --play_games {games} --random_seed 0 --log_level WARNING"
    with redirect_stdout(io.StringIO()):
        outcome = play.test([str(path), *words.split()], "snapshot")
    assert outcome.mean is not None  # each game is played to its end
    filmed = play.settings_of_agent(path, content, {}, {**SEEDED, "play_games": 1})
    film = " `replay.mp4` shows\na game of it."
    try:
        play.film(filmed, folder / "replay.mp4", None, "mp4", False)
    except UserError as error:  # such as that the games of an agent that observes numbers have no picture
        logging.getLogger(__name__).warning("The card has no video: %s", error)
        film = ""
    if curve := curve_of(path, content):
        with redirect_stdout(io.StringIO()):
            plot.main([str(curve), "--png_file", str(folder / "curve.png"), "--dpi", "60"])
    imports = settings.environment.imports
    text = CARD.format(
        own=f"\nThe environment's own code comes first: `--import {imports}`." if imports else "",
        game=content.game, name=json.dumps(path.stem, ensure_ascii=False), address=address, film=film,
        version=__version__, epoch=content.epoch,
        score=f"{outcome.mean:.2f} +/- {outcome.standard_deviation:.2f}",
        steps=content.total_train_steps, report=outcome,
        curve="\n![The curves of the training](curve.png)\n" if curve else "",
    )  # fmt: skip
    (folder / "README.md").write_text(text, "utf-8")


def curve_of(path: Path, content: Snapshot) -> Path | None:
    """Return the CSV of the run that wrote the snapshot, by its epoch, steps and seed; None: none is."""
    folder = home() / "results" / ("trained" if is_trained(path) else "")
    name = play.run_of(path, content).removesuffix("_best")
    wanted = ("train", str(content.epoch), str(content.total_train_steps))
    first = re.sub(r"_before(_\d+)?$", "", name)  # the CSV of an earlier run has a number instead
    for file in (folder / f"{name}.csv", *sorted(folder.glob(f"{glob.escape(first)}*.csv"))):
        columns, settings = ("phase", "epoch", "total_train_steps"), file.with_suffix(".yaml")
        unreadable = suppress(OSError, ValueError, csv.Error, UserError)
        with unreadable, file.open(newline="", encoding="utf-8") as text:
            if wanted in {tuple(map(row.get, columns)) for row in csv.DictReader(text)} and (
                file.stem == name or not settings.exists()  # or several runs of one game have such a row
                or command_line.read(str(settings)).get("random_seed") == content.flags.get("random_seed")
            ):  # fmt: skip
                return file
    return None
