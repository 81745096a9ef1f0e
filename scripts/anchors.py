"""Updates the line numbers in docs, in links `[file.py:12](../src/.../file.py#L12)` before a quoted line."""

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
    """A link to a line of code, with the quoted text."""

    page: Path
    file: Path
    name: str  # of the file, in the text of the link
    shown: int  # line number in the text of the link
    line: int  # line number in the address of the link
    text: str  # the quotation

    def lines(self) -> list[int]:
        """Return the numbers of all lines that contain the quotation, from 1."""
        if not self.file.is_file():
            return []
        return [
            number
            for number, line in enumerate(self.file.read_text(encoding="utf-8").splitlines(), 1)
            if self.text in line
        ]

    def fault(self) -> str | None:
        """Return a message if the anchor is wrong, or None."""
        where = f"{self.page.name}: [{self.name}:{self.shown}] `{self.text}`"
        found = self.lines()
        if len(found) != 1:
            return f"{where} is in {len(found)} lines of {self.file}: quote text that is in exactly one"
        if self.name.replace("\\", "") != self.file.name:
            return f"{where} leads to {self.file.name}"
        if not self.shown == self.line == found[0]:
            return f"{where} is in line {found[0]}: run make anchors"
        return None


def anchor(page: Path, match: re.Match[str]) -> Anchor:
    """Return the anchor in `page` at `match`."""
    return Anchor(
        page, (page.parent / match["path"]).resolve(), match["name"],
        int(match["shown"]), int(match["line"]), match["text"],
    )  # fmt: skip


def anchors(page: Path) -> list[Anchor]:
    """Return all anchors of a page.

    Raises:
        ValueError: A link to a line is not followed by a quotation.
    """
    text = page.read_text(encoding="utf-8")
    found = [anchor(page, match) for match in ANCHOR.finditer(text)]
    if len(found) != len(ANY_LINK.findall(text)):
        raise ValueError(
            f"{page.name}: a link to a line must be followed by the text of that line in backticks"
        )
    return found


def renewed(page: Path) -> str:
    """Return the text of a page with current line numbers; anchors without a match are unchanged."""

    def renew(match: re.Match[str]) -> str:
        found = anchor(page, match).lines()
        line = found[0] if len(found) == 1 else int(match["line"])
        return f"[{match['name']}:{line}]({match['path']}#L{line}){match['gap']}`{match['text']}`"

    return ANCHOR.sub(renew, page.read_text(encoding="utf-8"))


def pages() -> list[Path]:
    """Return the pages with links to lines of code."""
    return [
        page for page in sorted((PROJECT / "docs").glob("*.md")) if ANY_LINK.search(page.read_text("utf-8"))
    ]


if __name__ == "__main__":
    for page in pages():
        page.write_text(renewed(page), encoding="utf-8")
    faults = [fault for page in pages() for one in anchors(page) if (fault := one.fault())]
    print("\n".join(faults) or "All anchors are correct.")
    sys.exit(1 if faults else 0)
