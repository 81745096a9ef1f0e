"""Renews the line numbers in docs, where `[file.py:12](../src/.../file.py#L12)` comes before a quotation."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
ANCHOR = re.compile(
    r"\[(?P<name>[\w.\\]+):(?P<shown>\d+)\]\((?P<path>[^)#]+)#L(?P<line>\d+)\)(?P<gap>\s+)`(?P<text>[^`]+)`"
)
ANY_LINK = re.compile(r"#L\d+\)")


@dataclass(frozen=True)
class Anchor:
    """A place in the code that a page names."""

    page: Path
    file: Path
    name: str  # as the page shows it
    shown: int  # the line that the page shows
    line: int  # the line that the link leads to
    text: str  # what stands in that line

    def lines(self) -> list[int]:
        """Return all the lines that hold the text, counted from 1."""
        if not self.file.is_file():
            return []
        return [
            number
            for number, line in enumerate(self.file.read_text(encoding="utf-8").splitlines(), 1)
            if self.text in line
        ]

    def fault(self) -> str | None:
        """Return what is wrong with it in a line, or None."""
        where = f"{self.page.name}: [{self.name}:{self.shown}] `{self.text}`"
        found = self.lines()
        if len(found) != 1:
            return f"{where} stands in {len(found)} lines of {self.file}: quote one that is there once"
        if self.name.replace("\\", "") != self.file.name:
            return f"{where} leads to {self.file.name}"
        if not self.shown == self.line == found[0]:
            return f"{where} stands in line {found[0]}: make anchors"
        return None


def anchor(page: Path, match: re.Match[str]) -> Anchor:
    """Return the anchor of `page` that `match` has found."""
    return Anchor(
        page, (page.parent / match["path"]).resolve(), match["name"],
        int(match["shown"]), int(match["line"]), match["text"],
    )  # fmt: skip


def anchors(page: Path) -> list[Anchor]:
    """Return all anchors of a page; a link to a line that quotes nothing is an error.

    Raises:
        ValueError: There is one.
    """
    text = page.read_text(encoding="utf-8")
    found = [anchor(page, match) for match in ANCHOR.finditer(text)]
    if len(found) != len(ANY_LINK.findall(text)):
        raise ValueError(f"{page.name}: a link to a line lacks, after it, what stands there in backticks")
    return found


def renewed(page: Path) -> str:
    """Return the text of a page with the lines at which its quotations stand now; what is not there stays."""

    def renew(match: re.Match[str]) -> str:
        found = anchor(page, match).lines()
        line = found[0] if len(found) == 1 else int(match["line"])
        return f"[{match['name']}:{line}]({match['path']}#L{line}){match['gap']}`{match['text']}`"

    return ANCHOR.sub(renew, page.read_text(encoding="utf-8"))


def pages() -> list[Path]:
    """Return the pages that name lines of code."""
    return [
        page for page in sorted((PROJECT / "docs").glob("*.md")) if ANY_LINK.search(page.read_text("utf-8"))
    ]


if __name__ == "__main__":
    for page in pages():
        page.write_text(renewed(page), encoding="utf-8")
    faults = [fault for page in pages() for one in anchors(page) if (fault := one.fault())]
    print("\n".join(faults) or "All anchors stand.")
    sys.exit(1 if faults else 0)
