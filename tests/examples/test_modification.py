"""What a run was modified by is recorded, compared at each use, and never run."""

import hashlib
import logging
from pathlib import Path

import pytest

from simple_dqn import main
from simple_dqn.errors import UserError
from simple_dqn.snapshot import CheckpointFolder, Modification, Snapshot, archive
from simple_dqn.snapshot.modification import current_modification, from_record, record_of, running_with
from simple_dqn.verbs.common import warn_of_modification

CATCH = [
    "catch", "--environment", "catch", "--preset", "simple_dqn", "--screen_width", "36",
    "--screen_height", "36", "--random_steps", "60", "--train_steps", "40", "--test_steps", "40",
    "--replay_size", "100", "--batch_size", "4", "--target_steps", "8", "--backend", "cpu",
    "--threads", "1", "--random_seed", "0", "--epochs", "1",
]  # fmt: skip
CHANGE = """
from pathlib import Path
from simple_dqn.main import console

with Path("ran.txt").open("a") as file:
    file.write("once\\n")
console()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMPLE_DQN_HOME", ".")
    (tmp_path / "change.py").write_text(CHANGE)
    (tmp_path / "other.py").write_text(CHANGE)
    return tmp_path


def modified(*arguments: str) -> None:
    with pytest.raises(SystemExit) as end:
        main.run(["modified", *arguments])
    assert end.value.code == 0
    assert current_modification() is None


def warnings(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines about modifications, from the path on."""
    lines = capsys.readouterr().err.splitlines()
    return [line.split(" ", 2)[2] for line in lines if "and this command runs" in line]


def of(path: Path) -> Modification:
    return Modification(path.name, hashlib.sha256(path.read_bytes()).hexdigest())


def test_snapshots_and_checkpoints_record_the_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    modified("change.py", "train", *CATCH)
    change = of(home / "change.py")
    assert Snapshot.load(home / "snapshots" / "catch_1.pkl").modification == change
    saved = CheckpointFolder(home / "snapshots" / "catch_checkpoint").newest()
    assert saved is not None
    assert saved.modification == change
    capsys.readouterr()
    assert main.run(["snapshot", "show", "snapshots/catch_1.pkl"]) == 0
    assert f"  change.py, SHA-256 {change.sha256}\n" in capsys.readouterr().out
    assert main.run(["snapshot", "convert", "snapshots/catch_1.pkl", "copy.pkl"]) == 0
    assert Snapshot.load(home / "copy.pkl").modification == change
    assert (home / "ran.txt").read_text() == "once\n"


def test_a_plain_run_records_none(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["train", *CATCH])
    assert Snapshot.load(home / "snapshots" / "catch_1.pkl").modification is None
    saved = CheckpointFolder(home / "snapshots" / "catch_checkpoint").newest()
    assert saved is not None
    assert saved.modification is None
    main.run(["resume", "snapshots/catch_1.pkl", "--epochs", "2"])
    assert not warnings(capsys)
    main.run(["snapshot", "show", "snapshots/catch_1.pkl"])
    assert "modification" in (text := capsys.readouterr().out)
    assert "none recorded" in text


def test_an_exact_resume_tells_what_differs(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    modified("change.py", "train", *CATCH)
    change, other = of(home / "change.py"), of(home / "other.py")
    assert change.sha256 == other.sha256  # another name is another file all the same
    modified("change.py", "resume", "snapshots/catch_1.pkl", "--epochs", "2")
    assert not warnings(capsys)
    checkpoint = "snapshots/catch_checkpoint/run_{:06}.npz {}, and this command runs {}"
    written = "was written by a run with {}"
    without = "without it: for the same algorithm, use ./modified.sh FILE.py VERB ..."
    saved = CheckpointFolder(home / "snapshots" / "catch_checkpoint")
    now = saved.latest_number()
    assert main.run(["resume", "snapshots/catch_2.pkl", "--epochs", "3"]) == 0
    assert warnings(capsys) == [checkpoint.format(now, written.format(change), without)]
    # The run went on without it, and that is what its checkpoints record now.
    now = saved.latest_number()
    modified("other.py", "train", *CATCH, "--epochs", "4", "--resume", "true")
    assert warnings(capsys) == [checkpoint.format(now, "records no modification", f"with {other}")]
    (home / "other.py").write_text(f"{CHANGE}\n# edited\n")
    edited = of(home / "other.py")
    now = saved.latest_number()
    modified("other.py", "resume", "snapshots/catch_checkpoint", "--epochs", "5")
    assert warnings(capsys) == [checkpoint.format(now, written.format(other), f"with {edited}")]
    assert Snapshot.load(home / "snapshots" / "catch_5.pkl").modification == edited != other
    assert (home / "ran.txt").read_text().count("once") == 4  # by `modified` alone


@pytest.mark.parametrize(
    "arguments",
    [
        ("resume", "snapshots/catch_1.pkl", "--epochs", "2"),
        ("test", "snapshots/catch_1.pkl"),
        ("nvis", "snapshots/catch_1.pkl"),
        ("train", *CATCH, "--load_weights", "snapshots/catch_1.pkl"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_whatever_uses_a_snapshot_tells_what_differs(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    modified("change.py", "train", *CATCH)
    for path in (home / "snapshots" / "catch_checkpoint").iterdir():
        path.unlink()
    capsys.readouterr()
    assert main.run(arguments) == 0
    (line,) = warnings(capsys)
    was = f"was written by a run with {of(home / 'change.py')}"
    assert line.startswith(f"snapshots/catch_1.pkl {was}, and this command runs without it: ")
    assert (home / "ran.txt").read_text() == "once\n"


def test_each_difference_has_its_words(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    change = tmp_path / "change.py"
    change.write_text("1\n")
    path, one = Path("pong_1.pkl"), Modification("a.py", "0123456789ab" + "0" * 52)
    with caplog.at_level(logging.WARNING):
        warn_of_modification(path, None)
        with running_with(change):
            warn_of_modification(path, of(change))
        assert not caplog.records
        warn_of_modification(path, one)
        with running_with(change):
            warn_of_modification(path, one)
            warn_of_modification(path, None)
    was, now = "a.py (SHA-256 0123456789ab…)", f"change.py (SHA-256 {of(change).sha256[:12]}…)"
    assert [record.getMessage() for record in caplog.records] == [
        f"pong_1.pkl was written by a run with {was}, and this command runs without it: for the same "
        "algorithm, use ./modified.sh FILE.py VERB ...",
        f"pong_1.pkl was written by a run with {was}, and this command runs with {now}",
        f"pong_1.pkl records no modification, and this command runs with {now}",
    ]


def test_files_from_before_there_was_a_record_load(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["train", *CATCH])
    path = home / "snapshots" / "catch_1.pkl"
    content = archive.read(path)
    del content["modification"]
    archive.write(path, content)
    newest = max((home / "snapshots" / "catch_checkpoint").glob("run_*.npz"))
    content = archive.read(newest)
    del content["run"]["modification"]
    archive.write(newest, content)
    capsys.readouterr()
    assert main.run(["resume", "snapshots/catch_1.pkl", "--epochs", "2"]) == 0
    log = capsys.readouterr().err
    assert "train 2, step 0" in log
    assert "and this command runs" not in log


def test_there_is_one_modification_at_a_time(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).touch()
    with running_with(tmp_path / "a.py"):
        with pytest.raises(UserError, match=r"b\.py would be a second modification beside a\.py"):
            running_with(tmp_path / "b.py").__enter__()
        assert current_modification() == of(tmp_path / "a.py")
    assert current_modification() is None


@pytest.mark.parametrize(
    "name", ["my change (2).py", "line\nbreak.py", "right\u202eleft.py", "ü" * 120 + ".py"]
)
def test_any_name_of_a_file_can_be_recorded(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with running_with(tmp_path / name):
        now = current_modification()
        assert now is not None
        assert now.file.isprintable()
        assert from_record(record_of(now)) == now


@pytest.mark.parametrize(
    "record",
    [
        "change.py", 3, [], {}, {"file": "a.py"}, {"file": "", "sha256": "0" * 64},
        {"file": "a.py", "sha256": "0" * 63}, {"file": "a.py", "sha256": "G" * 64},
        {"file": "a\n.py", "sha256": "0" * 64}, {"file": "\x1b[2J", "sha256": "0" * 64},
        {"file": "a" * 256, "sha256": "0" * 64}, {"file": 1, "sha256": "0" * 64},
        {"file": "a.py", "sha256": ["0"] * 64},
    ],
)  # fmt: skip
def test_a_record_that_is_none_is_refused(tmp_path: Path, record: object) -> None:
    path = tmp_path / "pong_1.pkl"
    Snapshot("pong", 1, 6, 10, {}, {}).save(path)
    content = archive.read(path)
    archive.write(path, {**content, "modification": record})
    with pytest.raises(UserError, match=r"its record of a modification") as refusal:
        Snapshot.load(path)
    assert "\n" not in str(refusal.value)
