"""Figures that follow a run: what is waited for, what is drawn again, and how it ends."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib.image
import pytest

from simple_dqn.plot.command import Request
from simple_dqn.plot.live import changes

SOURCE = Path(__file__).parents[2] / "src"
HEADER = "epoch,phase,average_reward\n"
LIVE = ["--live", "true", "--fields", "average_reward", "--figure_width", "4", "--figure_height", "3"]


def request_for(*paths: Path) -> Request:
    return Request(
        names={path: path.stem for path in paths},
        fields=["average_reward"],
        png_file=paths[0].with_suffix(".png"),
        html_file=None,
        width=4,
        height=3,
        dpi=50,
        skip_rows=None,
        delimiter=",",
    )


def follow(request: Request, *events: Callable[[], object]) -> list[dict[str, list[float]]]:
    """Return what is seen at each change, by run, while the events happen one after the other."""
    left = list(events)

    def wait() -> bool:
        if left:
            left.pop(0)()
            return True
        return False

    return [
        {run.name: run.columns["average_reward"].tolist() for run in runs} for runs in changes(request, wait)
    ]


def append(path: Path, text: str) -> Callable[[], object]:
    def write() -> None:
        with path.open("a") as file:
            file.write(text)

    return write


def test_a_csv_that_grows_is_seen_at_each_row_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "pong.csv"
    path.write_text(HEADER + "1,train,1\n")
    seen = follow(request_for(path), lambda: None, append(path, "1,test,2\n"), lambda: None)
    assert seen == [{"pong": [1]}, {"pong": [1, 2]}]


def test_a_csv_that_is_not_there_yet_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pong.csv"
    steps = [append(path, words) for words in ("epoch,ph", "ase,average_reward\n", "1,train,1\n")]
    assert follow(request_for(path), lambda: None, *steps) == [{"pong": [1]}]
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 3
    assert all(line.startswith("Waiting: ") for line in said)
    assert "No such file" in said[0]
    assert "does not begin with the names" in said[1]
    assert "nothing to draw" in said[2]


def test_half_a_row_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "pong.csv"
    path.write_text(HEADER + "1,train,1\n")
    seen = follow(request_for(path), append(path, "1,te"), append(path, "st,2\n"))
    assert seen == [{"pong": [1]}, {"pong": [1]}, {"pong": [1, 2]}]


def test_a_run_that_starts_anew_leaves_the_picture_until_it_has_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pong.csv"
    path.write_text(HEADER + "1,train,1\n2,train,2\n")
    anew = [lambda: path.rename(tmp_path / "pong.1.csv"), append(path, HEADER), append(path, "1,train,3\n")]
    assert follow(request_for(path), *anew) == [{"pong": [1, 2]}, {"pong": [3]}]
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_runs_that_are_there_do_not_wait_for_the_others(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    second.write_text(HEADER + "1,train,2\n")
    seen = follow(request_for(first, second), append(first, HEADER + "1,train,1\n"))
    assert seen == [{"b": [2]}, {"a": [1], "b": [2]}]


class Following:
    """`plot --live true` in a process of its own."""

    def __init__(self, path: Path, *flags: str, display: str | None = None) -> None:
        names = {"DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND", "SIMPLE_DQN_PROGRAM"}
        environment = {name: value for name, value in os.environ.items() if name not in names}
        environment |= {"PYTHONPATH": str(SOURCE)} | ({"DISPLAY": display} if display else {})
        self.process = subprocess.Popen(
            [sys.executable, "-m", "simple_dqn.main", "plot", str(path), *LIVE, *flags],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def first_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self, number: signal.Signals | None = None) -> tuple[int, str]:
        """Return the exit code, and what it complained of, after a signal to stop."""
        if number is not None:
            self.process.send_signal(number)
        _, complaints = self.process.communicate(timeout=60)
        return self.process.returncode, complaints


@pytest.fixture
def start() -> Iterator[Callable[..., Following]]:
    started: list[Following] = []

    def start(path: Path, *flags: str, display: str | None = None) -> Following:
        started.append(Following(path, *flags, display=display))
        return started[-1]

    yield start
    for following in started:
        following.process.kill()
        following.process.communicate()


def wait_until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_without_a_display_the_files_are_drawn_again_until_a_signal(
    start: Callable[..., Following], csv_file: Path, number: signal.Signals
) -> None:
    png_file, page = csv_file.with_suffix(".png"), csv_file.with_name("pong_plot.html")
    following = start(csv_file, "--html", "true")
    said = following.first_line()
    assert "there is no window" in said
    assert str(png_file) in said
    assert str(page) in said
    wait_until(page.exists)
    before = matplotlib.image.imread(png_file)
    assert "sessionStorage.getItem(key)" in page.read_text()
    inode = page.stat().st_ino
    row = csv_file.read_text().splitlines()[-1].replace("3,", "4,", 1)
    append(csv_file, f"{row}\n")()
    wait_until(lambda: page.stat().st_ino != inode)
    assert (matplotlib.image.imread(png_file) != before).any()
    assert following.end(number) == (130, "")
    assert "sessionStorage.getItem(key)" not in page.read_text()  # it has no more to wait for
    names = sorted(path.name for path in csv_file.parent.iterdir())
    assert names == ["pong.csv", "pong.png", "pong_plot.html"]


def test_a_wrong_field_ends_it(start: Callable[..., Following], csv_file: Path) -> None:
    status, complaint = start(csv_file, "--fields", "score").end()
    assert status == 2
    assert "no field 'score'" in complaint


def window_of(display: str, title: str) -> str:
    """Return the number of the window with that title, once it is there."""
    command = ["xdotool", "search", "--sync", "--onlyvisible", "--name", f"^{title}$"]
    found = subprocess.run(
        command, env=os.environ | {"DISPLAY": display}, capture_output=True, text=True, timeout=60, check=True
    )
    return found.stdout.split()[0]


@pytest.mark.parametrize("by", ["key", "signal"])
def test_with_a_display_there_is_a_window_that_can_be_closed(
    start: Callable[..., Following], display: str, csv_file: Path, by: str
) -> None:
    pytest.importorskip("tkinter", reason="matplotlib has no GUI toolkit here")
    csv_file = Path(shutil.move(csv_file, csv_file.with_name(f"pong {by}.csv")))
    following = start(csv_file, display=display)
    assert "there is no window" not in following.first_line()
    window = window_of(display, f"pong {by}")
    wait_until(csv_file.with_suffix(".png").exists)
    if by == "signal":
        assert following.end(signal.SIGINT) == (130, "")
    else:
        environment = os.environ | {"DISPLAY": display}
        subprocess.run(["xdotool", "windowfocus", "--sync", window, "key", "q"], env=environment, check=True)
        assert following.end() == (0, "")


def test_a_display_that_cannot_be_reached_is_none(start: Callable[..., Following], csv_file: Path) -> None:
    following = start(csv_file, display=":87654")
    assert "there is no window" in following.first_line()
    wait_until(csv_file.with_suffix(".png").exists)
    assert following.end(signal.SIGINT) == (130, "")
