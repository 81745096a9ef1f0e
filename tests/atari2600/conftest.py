"""Small programs on the emulator: skipped where NVIDIA Warp is not installed."""

from typing import Any

import pytest

from tests.atari2600.assembler import Run, assemble


@pytest.fixture
def run() -> Run:
    """Return a function that assembles a program, puts it at $80 and runs some of its instructions."""
    pytest.importorskip("warp", reason="NVIDIA Warp is not installed")
    from atari2600.console import Console
    from atari2600.machine import CPU

    def run(
        source: str, instructions: int = 1000, ram: dict[int, int] | None = None, rom: bytes = b""
    ) -> Any:
        console = Console(rom.ljust(4096, b"\0"), games=1)
        code = assemble(source)
        console.ram[0, : len(code)] = list(code)
        for address, value in (ram or {}).items():
            console.ram[0, address & 127] = value
        console.cpu[0, CPU.PC] = 0x80
        console.cpu[0, CPU.SP] = 0xFF
        console.execute(instructions)
        return console

    return run
