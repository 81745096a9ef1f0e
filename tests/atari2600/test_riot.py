"""The RIOT: its timer, its interrupt flag and its ports."""

import pytest

from tests.atari2600.assembler import Run


def wait(cycles: int) -> str:
    """Return code that takes `cycles` cycles, none or at least two."""
    return "BIT $F0\n" * (cycles % 2) + "NOP\n" * ((cycles - 3 * (cycles % 2)) // 2)


@pytest.mark.parametrize(
    ("timer", "value", "delay", "found"),
    [
        ("TIM1T", 20, 0, 16),  # the first step is one cycle after the write; LDA reads 4 cycles after it
        ("TIM8T", 2, 0, 1),
        ("TIM8T", 2, 4, 1),
        ("TIM8T", 2, 5, 0),
        ("TIM8T", 2, 12, 0),
        ("TIM8T", 2, 13, 0xFF),  # past zero it counts cycles
        ("TIM8T", 2, 14, 0xFE),
        ("TIM64T", 1, 20, 0),
        ("T1024T", 1, 20, 0),
    ],
)
def test_the_timer(run: Run, timer: str, value: int, delay: int, found: int) -> None:
    console = run(f"LDA #{value}\nSTA {timer}\n{wait(delay)}LDA INTIM\nSTA $F1\nend: JMP end", 40)
    assert console.ram[0, 0x71] == found


@pytest.mark.parametrize(("delay", "flags"), [(10, [0, 0x80]), (20, [0x80, 0x80])])
def test_the_flag_is_set_when_the_timer_passes_zero_and_a_read_of_it_leaves_it(
    run: Run, delay: int, flags: list[int]
) -> None:
    console = run(
        f"LDA #2\nSTA TIM8T\n{wait(delay)}LDA TIMINT\nSTA $F1\nLDA TIMINT\nSTA $F2\nend: JMP end", 40
    )
    assert console.ram[0, 0x71:0x73].tolist() == flags


@pytest.mark.parametrize(("delay", "flag"), [(13, 0x80), (14, 0)])
def test_reading_the_timer_clears_the_flag_but_not_in_the_cycle_that_sets_it(
    run: Run, delay: int, flag: int
) -> None:
    console = run(f"LDA #2\nSTA TIM8T\n{wait(delay)}LDA INTIM\nLDA TIMINT\nSTA $F1\nend: JMP end", 40)
    assert console.ram[0, 0x71] == flag


def test_a_read_past_zero_puts_the_timer_back_to_its_interval(run: Run) -> None:
    console = run(
        "LDA #1\nSTA TIM8T\n" + wait(8) + "LDA INTIM\nSTA $F1\nLDA INTIM\nSTA $F2\nend: JMP end", 40
    )
    assert console.ram[0, 0x71:0x73].tolist() == [0xFC, 0xFB]  # 7 cycles apart


def test_a_write_sets_the_timer_anew(run: Run) -> None:
    console = run(
        "LDA #1\nSTA TIM1T\n" + wait(8) + "LDA #9\nSTA TIM64T\nLDA TIMINT\nSTA $F1\nend: JMP end", 40
    )
    assert console.ram[0, 0x71] == 0


def test_the_ports(run: Run) -> None:
    console = run(
        "LDA SWCHA\nSTA $F1\nLDA #$F0\nSTA SWACNT\nLDA #$50\nSTA SWCHA\nLDA SWCHA\nSTA $F2\n"
        "LDA SWCHB\nSTA $F3\n"
        "end: JMP end"
    )
    assert console.ram[0, 0x71:0x74].tolist() == [0xFF, 0x5F, 0x3F]
