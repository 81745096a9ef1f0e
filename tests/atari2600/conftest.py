"""Small programs on the emulator: skipped where NVIDIA Warp is not installed."""

from typing import Any

import pytest

from tests.atari2600.assembler import Run, assemble


@pytest.fixture
def run() -> Run:
    """Return a function that assembles a program, puts it at $80 and runs some of its instructions.

    `memory` has values by address, from $1000 on of the cartridge.
    """
    pytest.importorskip("warp", reason="NVIDIA Warp is not installed")
    from atari2600.console import Console
    from atari2600.machine import CPU

    def run(source: str, instructions: int = 1000, memory: Any = (), rom: bytes = b"") -> Any:
        content = bytearray(rom.ljust(4096, b"\0"))
        values = dict(memory)
        for address in [one for one in values if one >= 0x1000]:
            content[address & 0xFFF] = values.pop(address)
        console = Console(bytes(content), games=1)
        code = assemble(source)
        console.ram[0, : len(code)] = list(code)
        for address, value in values.items():
            console.ram[0, address & 127] = value
        console.cpu[0, CPU.PC], console.cpu[0, CPU.SP] = 0x80, 0xFF
        console.execute(instructions)
        return console

    return run
