import os
import signal

import pytest

from simple_dqn.interrupt import Interrupt

HUP, TERM, INT = signal.SIGHUP, signal.SIGTERM, signal.SIGINT


# `timeout` and a closed terminal send several: at once, to the group and to the process.
@pytest.mark.parametrize("numbers", [(INT,), (TERM,), (HUP, TERM, HUP, TERM)])
def test_the_first_signal_asks_and_the_handlers_are_given_back(numbers: tuple[int, ...]) -> None:
    before = signal.getsignal(numbers[0])
    with Interrupt() as interrupt:
        assert not interrupt.requested
        for number in numbers:
            os.kill(os.getpid(), number)
        assert interrupt.requested
        assert interrupt.number == numbers[0]
    assert signal.getsignal(numbers[0]) == before


def test_the_second_ctrl_c_leaves_at_once() -> None:
    with Interrupt():
        os.kill(os.getpid(), INT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), INT)


def test_who_runs_by_nohup_goes_on_when_the_terminal_is_closed() -> None:
    before = signal.signal(HUP, signal.SIG_IGN)
    try:
        with Interrupt() as interrupt:
            os.kill(os.getpid(), HUP)
            assert not interrupt.requested
    finally:
        signal.signal(HUP, before)
