"""How a program ends when something is wrong that is not its own fault."""

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from simple_dqn import __version__
from simple_dqn.errors import EXTRAS, Interrupt, UserError, exit_code, printable
from simple_dqn.verbs.play import finish
from tests.command_line import Capsys

SOURCES = Path(__file__).parents[1] / "src"
MAIN = f"{sys.executable} -m simple_dqn.main"
PREPARED = f'{sys.executable} -c "import os, sys; from simple_dqn.errors import *; prepare_streams(); {{}}"'
SPEAKING = PREPARED.format(r"sys.exit(exit_code('x', lambda: print('a line\n' * 10**6, flush=True)))")
# A command, PYTHONUNBUFFERED, its exit code, its output, and a part of its one line of complaint.
STREAMS = [
    (f"{MAIN} --help > /dev/full", "1", 2, "", "No space left"),
    (f"{MAIN} train --help all > /dev/full", "", 2, "", "No space left"),
    (f"{MAIN} --help >&-", "", 2, "", "simple-dqn: cannot write to standard output: Bad file descriptor"),
    (f"{MAIN} --help <&- >&- 2>&-", "", 2, "", ""),
    (f"{MAIN} trian 2> /dev/full", "", 2, "", ""),
    (f"{MAIN} trian", "", 2, "", "simple-dqn: there is no verb 'trian': usage:"),
    (f"{MAIN} --version 2>&-", "1", 0, f"simple-dqn {__version__}\n", ""),
    # A reader who leaves ends the program without a word.
    *((f"{SPEAKING} | head -n 1", one, 128 + signal.SIGPIPE, "a line\n", "") for one in ("", "1")),
    # No file takes the number of a closed stream; a letter that the output lacks is no error.
    (PREPARED.format("sys.exit(os.open(os.devnull, os.O_RDONLY))") + " <&- >&- 2>&-", "", 3, "", ""),
    (PREPARED.format("exit_code('x', lambda: print('ε'))"), "", 0, "?\n", ""),
]


def test_the_extras_are_those_of_pyproject() -> None:
    project = tomllib.loads((SOURCES.parent / "pyproject.toml").read_text())["project"]
    ours = {name: list(pins) for name, pins in EXTRAS.items()}
    assert ours == {name: project["optional-dependencies"][name] for name in EXTRAS}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pong ± 😀", "pong ± 😀"), ("\x1b[2J\x07", r"\x1b[2J\x07"), ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x9b31m\x7f\u2028", r"\x9b31m\x7f\u2028"), ("\u202egnp", r"\u202egnp"),
        ("\udcff\ud800", r"\udcff\ud800"), (r"\x1b", r"\x1b"),
    ],
)  # fmt: skip
def test_no_control_character_is_printed(text: str, shown: str) -> None:
    assert printable(text) == printable(shown) == str(UserError(text)) == shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_asks_and_is_told_by_its_number(number: int) -> None:
    before = signal.getsignal(number)

    def work() -> None:
        with Interrupt() as interrupt:
            assert not interrupt.requested
            os.kill(os.getpid(), number)
            assert interrupt.requested
            # As `timeout` and a closed terminal send them: at once, to the group and to the process.
            for other in (signal.SIGHUP, signal.SIGTERM):
                os.kill(os.getpid(), other)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)  # again, or for the first time after another
        finish(interrupt)

    assert exit_code("x", work) == 128 + number
    assert signal.getsignal(number) == before


def test_a_run_by_nohup_goes_on_when_the_terminal_is_closed() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Interrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not interrupt.requested
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("command", "unbuffered", "code", "out", "complaint"), STREAMS)
def test_a_standard_stream_that_is_full_closed_or_poor_in_letters(
    command: str, unbuffered: str, code: int, out: str, complaint: str
) -> None:
    variables = {"PYTHONUNBUFFERED": unbuffered, "PYTHONIOENCODING": "latin1:strict"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCES)} | variables,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (code, out), done.stderr
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == (complaint != "")


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (UserError("it is so: do this"), "it is so: do this\n"),
        (PermissionError(13, "Permission denied", "a\x1bb"), r"cannot use a\x1bb: Permission denied"),
        (OSError(36, "File name too long", b"\xff.csv"), r"cannot use \udcff.csv: File name too long"),
        (OSError(28, "No space left on device"), "cannot write: No space left on device"),
    ],
)
def test_what_the_user_can_mend_is_a_line(error: Exception, complaint: str, capsys: Capsys) -> None:
    def work() -> None:
        raise error

    assert exit_code("x", work) == 2
    assert capsys.readouterr().err.startswith(f"x: {complaint}")


def test_a_pipe_to_another_process_is_no_such_reader(capfd: Capsys) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with capfd.disabled(), pytest.raises(BrokenPipeError):
        exit_code("x", lambda: os.write(writing, b"x"))
    os.close(writing)
