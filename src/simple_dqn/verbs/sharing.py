"""`snapshot export` and `snapshot card`: a snapshot for other programs, and for other people."""

import csv
import glob
import io
import json
import re
import shutil
import tempfile
from contextlib import closing, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn import __version__, plot, settings_file
from simple_dqn.config import Config, as_word
from simple_dqn.environment import is_atari
from simple_dqn.errors import UserError, printable
from simple_dqn.files import home, is_trained, kind_of, replacing, reporting_failure
from simple_dqn.presets import PRESETS
from simple_dqn.run import make_environment, make_network
from simple_dqn.snapshot import Snapshot
from simple_dqn.verbs import test
from simple_dqn.verbs.common import load_weights, open_snapshot, run_of
from simple_dqn.verbs.record import record
from simple_dqn.verbs.settings import settings_of_agent

SEED = 0
SEEDED: dict[str, Any] = {"random_seed": SEED}
CHECKED_STATES = 64
COLUMNS = ("phase", "epoch", "total_train_steps")
# Hugging Face reads the lines between the dashes.
CARD = """---
library_name: simple-dqn
license: mit
tags: [deep-reinforcement-learning, reinforcement-learning, dqn, {game}]
model-index:
- name: {name}
  results:
  - task: {{type: reinforcement-learning, name: reinforcement-learning}}
    dataset: {{name: {title}, type: {title}}}
    metrics:
    - {{type: mean_reward, name: mean_reward, value: {score}, verified: false}}
---

# DQN plays {title}

A deep Q-network of Simple-DQN {version}, after {epoch} epochs ({steps:,} training steps). `replay.mp4` shows
a game of it.

```
{report}
```

Load it with `simple_dqn.load("{file}")`, or play: `./play.sh {file}`. Loading a snapshot runs no code.
The settings are in `config.yaml`; those that differ from the defaults:

{settings}
{curve}"""


def export(path: Path, target: Path | None) -> None:
    """Write the network of the snapshot at `path` as an ONNX file, and print how it differs.

    Raises:
        UserError: A package is missing, or a file cannot be used.
    """
    snapshot = open_snapshot(path)
    beside = home() / "snapshots" / path.name if is_trained(path) else path
    target = _free(target or beside.with_suffix(".onnx"))
    fixed = {**SEEDED, "backend": "cpu", "datatype": "float32"}
    config = settings_of_agent("play", path, snapshot, {}, fixed)
    with closing(make_environment(config, training=False)) as environment:
        network = make_network(config, environment)
        load_weights(path, environment, network, snapshot)
    shape = (CHECKED_STATES, config.memory.history_length, *environment.screen_shape)
    states = np.random.default_rng(SEED).integers(256, size=shape, dtype=np.uint8)
    from simple_dqn.onnx_file import write_onnx  # imports PyTorch

    with replacing(target) as part:
        facts = {"game": snapshot.game, "actions": " ".join(environment.action_names)}
        found, wanted = write_onnx(network, part, states, facts), network.predict(states)
    sizes = ", ".join(map(str, shape[1:]))
    print(printable(f"{target}: q_values float32 [B, {environment.actions}] of states uint8 [B, {sizes}]"))
    off = np.abs(found - wanted).max() / np.abs(wanted).max()
    print(f"ONNX Runtime is off by at most {off:.1e} of the largest |Q|")


def card(path: Path, target: Path | None, games: int) -> None:
    """Write a folder for a model hub: snapshot, README.md, film, curve and settings; it is uploaded by hand.

    Raises:
        UserError: It exists, or a file cannot be used.
    """
    snapshot = open_snapshot(path)
    target = _free(target or home() / "snapshots" / f"{path.stem}_card")
    with reporting_failure(f"the folder {target}", "give another name"):
        target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as made:
        folder = Path(made, "card")
        folder.mkdir()
        _fill(folder, path, snapshot, games)
        folder.rename(target)
    print(printable(f"{target} holds {', '.join(sorted(file.name for file in target.iterdir()))}"))
    print(printable(f"Nothing was uploaded. To do so: hf upload YOUR_NAME/{target.name} {target}"))


def _free(target: Path) -> Path:
    if kind_of(target):
        raise UserError(f"{target} exists: remove it or give another name")
    return target


def _fill(folder: Path, path: Path, snapshot: Snapshot, games: int) -> None:
    settings, file = Config.from_flags({**snapshot.flags, "game": snapshot.game}), f"{path.stem}.pkl"
    snapshot.save(folder / file)
    (folder / "config.yaml").write_text(settings_file.listing(settings, "simple_dqn") + "\n", "utf-8")
    flags = {
        **SEEDED, "protocol": "nature" if is_atari(settings.environment) else "simple_dqn",
        "play_games": games, "json": folder / "score.json", "log_level": "WARNING",
    }  # fmt: skip
    report = io.StringIO()
    with redirect_stdout(report):
        test.main([str(path), *(f"--{name}={value}" for name, value in flags.items())], "snapshot")
    score = json.loads((folder / "score.json").read_text("utf-8"))
    (folder / "score.json").unlink()
    filmed = settings_of_agent("record", path, snapshot, {}, SEEDED)
    record(filmed, folder / "replay.mp4", folder / "screens", "mp4", False)
    if curve := curve_of(path, snapshot):
        with redirect_stdout(io.StringIO()):
            plot.main([str(curve), "--png_file", str(folder / "curve.png"), "--dpi", "60"])
    shutil.rmtree(folder / "screens")
    defaults = Config.from_flags(PRESETS["simple_dqn"]).shared_flags()
    changed = {key: value for key, value in settings.shared_flags().items() if value != defaults[key]}
    text = CARD.format(
        game=snapshot.game, name=path.stem, title=name_of_game(snapshot), file=file, version=__version__,
        score=f"{score['mean']:.2f} +/- {score['standard_deviation']:.2f}", epoch=snapshot.epoch,
        steps=snapshot.total_train_steps, report=report.getvalue().rstrip(),
        settings="\n".join(f"- `--{key} {as_word(value)}`" for key, value in sorted(changed.items())),
        curve="\n![The curves of the training](curve.png)\n" if curve else "",
    )  # fmt: skip
    (folder / "README.md").write_text(text, "utf-8")


def curve_of(path: Path, snapshot: Snapshot) -> Path | None:
    """Return the CSV of the run that wrote `snapshot`: one with its epoch after as many training steps."""
    folder, name = home() / "results" / ("trained" if is_trained(path) else ""), run_of(path, snapshot)
    wanted = ("train", str(snapshot.epoch), str(snapshot.total_train_steps))
    first = re.sub(r"_before(_\d+)?$", "", name)  # the CSV of an earlier run has a number instead
    for file in (folder / f"{name}.csv", *sorted(folder.glob(f"{glob.escape(first)}*.csv"))):
        with suppress(OSError, ValueError, csv.Error), file.open(newline="", encoding="utf-8") as text:
            if wanted in {tuple(map(row.get, COLUMNS)) for row in csv.DictReader(text)}:
                return file
    return None


def name_of_game(snapshot: Snapshot) -> str:
    """Return the id of the game as Gymnasium writes it, such as `ALE/SpaceInvaders-v5`."""
    environment = Config.from_flags({**snapshot.flags, "game": snapshot.game}).environment
    if not is_atari(environment):
        return snapshot.game
    if environment.environment == "gym":
        return snapshot.game.replace("ALE_", "ALE/", 1)  # file names have no slash
    return f"ALE/{''.join(map(str.capitalize, snapshot.game.split('_'))).replace('3d', '3D')}-v5"
