"""What README.md and the other pages tell the reader to type: the commands, and the flags in the text."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^ {4}.*\S.*\n)+", re.MULTILINE)
SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
FLAG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
# How a line, or a piece of text, begins that is a command of this project.
OURS = re.compile(r"(\S+=\S+ |taskset -c \S+ )*(\./)?(\w+\.sh\b|make\b|pytest\b|simple-dqn\b|\S*python\d? )")
# A word in the place of what the reader is to give.
PLACEHOLDER = re.compile(r"…|<.*>|[A-Z]+(_[A-Z]+)*")
# What is left of a command line once all that goes before the program is gone.
BEFORE = re.compile(r"^(\w+=\S* |taskset -c \S+ )+")


@dataclass(frozen=True)
class Command:
    """One command, as a document has it."""

    words: tuple[str, ...]
    inline: bool  # in the text, where it may be cut short

    def __str__(self) -> str:
        return " ".join(self.words)

    @property
    def program(self) -> str:
        """The program, such as `train.sh`, which may be spelled `./train.sh` or `simple-dqn train`."""
        program, *words = self.words
        return f"{words[0]}.sh" if program == "simple-dqn" and words else program.removeprefix("./")

    @property
    def arguments(self) -> list[str]:
        """What it is given."""
        return list(self.words[2 if self.words[0] == "simple-dqn" else 1 :])

    @property
    def verb(self) -> str:
        """The verb that the command runs: `train` for `train.sh`."""
        return self.program.removesuffix(".sh")


def is_placeholder(word: str) -> bool:
    """Return whether the reader puts something else there: `…`, `SNAPSHOT`, `<file>`, `FILE.py:CLASS`."""
    return PLACEHOLDER.fullmatch(Path(word.partition(":")[0]).stem) is not None


def pages() -> list[Path]:
    """Return every document in reading order, without the lab notebook, whose commands are of its day, and
    without `upgrading.md`, which names what has gone.
    """
    docs = {*(HOME / "docs").glob("*.md")} - {HOME / "docs" / "upgrading.md"}
    folders = [HOME / folder / "README.md" for folder in ("roms", "snapshots", "results", "videos")]
    return [HOME / "README.md", *folders, HOME / "CONTRIBUTING.md", *sorted(docs)]


def commands(text: str) -> Iterator[Command]:
    """Yield the commands of this project in a document: those in its blocks, and those in its text."""
    found: list[tuple[int, str, bool]] = []
    rest = text
    for pattern, group in ((FENCE, 2), (INDENTED, 0)):
        for block in pattern.finditer(rest):
            found += [(block.start(group), line, False) for line in lines(block[group])]
        rest = pattern.sub(lambda block: " " * len(block[0]), rest)
    found += [(span.start(), " ".join(span[1].split()), True) for span in SPAN.finditer(rest)]
    for _, line, inline in sorted(found, key=lambda item: item[0]):
        if OURS.match(line):
            yield from (Command(tuple(words), inline) for words in readings(line))


def lines(block: str) -> list[str]:
    """Return the commands in a block, those over several lines as one, without their comments."""
    joined = re.sub(r"\\\n\s*", " ", block)
    return [re.sub(r"(^|\s+)#.*", "", line).strip() for line in joined.splitlines() if line.strip()]


def readings(line: str) -> Iterator[list[str]]:
    """Yield what a line stands for: once for each of `a|b`, and without what is [optional]."""
    line = re.sub(r"\s*\[[^\]]*\]", "", BEFORE.sub("", line)).replace("\\|", "|")
    yield from map(list, product(*(word.split("|") for word in shlex.split(line))))


def flags(text: str) -> set[str]:
    """Return every flag that stands anywhere in the blocks and in the code of a document."""
    blocks = [block[2] for block in FENCE.finditer(text)] + [block[0] for block in INDENTED.finditer(text)]
    spans = [span[1] for span in SPAN.finditer(FENCE.sub("", text))]
    return {flag for piece in blocks + spans for flag in FLAG.findall(piece)}
