"""`snapshot`: look into a snapshot, convert one of Neon's, or share one."""

from collections.abc import Sequence
from pathlib import Path

from simple_dqn.command_line import Parser, number
from simple_dqn.errors import UserError, printable
from simple_dqn.files import kind_of
from simple_dqn.snapshot import Snapshot
from simple_dqn.verbs.common import open_snapshot, start_log


def main(arguments: Sequence[str], program: str) -> None:
    """Show, convert, export or describe snapshots."""
    if arguments and arguments[0] == "average":
        raise UserError(
            "average is gone: train with --average_updates, such as 1%; every snapshot is then a mean"
        )
    given = _parser(program).parse(arguments)
    if given["action"] == "show":
        print(describe(open_snapshot(given["source"], given["game"])))
        return
    if given["action"] in ("export", "card"):
        start_log("WARNING")
        from simple_dqn.verbs import sharing  # which needs much that the others do not

        if given["action"] == "export":
            sharing.export(given["source"], given["target"])
        else:
            sharing.card(given["source"], given["target"], given["games"])
        return
    if kind_of(given["target"]):
        raise UserError(f"{given['target']} exists: the last name is that of the new file; give another one")
    snapshot = open_snapshot(given["source"], given["game"])
    snapshot.save(given["target"])
    print(printable(f"{given['target']}: {snapshot.game}, epoch {snapshot.epoch}"))


def _parser(program: str) -> Parser:
    parser = Parser(
        prog=program,
        description="Look into a snapshot, convert one of Neon's, or share one.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="show|convert|export|card")
    show = actions.add_parser("show", help="print the settings and layers of a snapshot")
    show.add_argument("source", type=Path, metavar="FILE", help="such as snapshots/pong_10.pkl")
    convert = actions.add_parser("convert", help="write a snapshot, Neon's or ours, in our format")
    convert.add_argument("source", type=Path, metavar="IN", help="such as breakout_77.pkl")
    convert.add_argument("target", type=Path, metavar="OUT", help="such as snapshots/breakout_77.pkl")
    onnx = actions.add_parser("export", help="write the network for programs without PyTorch")
    onnx.add_argument("source", type=Path, metavar="IN", help="such as snapshots/pong_10.pkl")
    onnx.add_argument("--onnx", action="store_true", required=True, help="as an ONNX file, the only format")
    card = actions.add_parser("card", help="write a folder with a model card, a film and the settings")
    card.add_argument("source", type=Path, metavar="IN", help="such as snapshots/pong_10.pkl")
    card.add_argument(
        "--games", type=number(int, minimum=1), default=10, help="games of the score (default: 10)"
    )
    for action, target in ((onnx, "IN.onnx"), (card, "snapshots/IN_card")):
        action.add_argument("target", type=Path, nargs="?", metavar="OUT", help=f"(default: {target})")
    for action in (show, convert):
        action.add_argument("--game", help="the game of one of Neon's whose file is not named after it")
    return parser


def describe(snapshot: Snapshot) -> str:
    """Return the content of `snapshot` as text, a line for each entry."""
    rows = [
        ("game", snapshot.game),
        ("epoch", snapshot.epoch),
        ("actions", snapshot.actions),
        ("total_train_steps", snapshot.total_train_steps),
        *((f"--{name}", value) for name, value in sorted(snapshot.flags.items())),
    ]
    for name, weights in snapshot.weights.items():
        shape = " x ".join(map(str, weights.shape))
        rows.append((printable(name), f"{shape}, mean {weights.mean():.4f}, deviation {weights.std():.4f}"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {printable(str(value))}" for name, value in rows)
