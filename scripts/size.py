"""Check that the code has not grown: lines and files of each folder against the table in `SIZE`.

`make lint` runs it. A number in `SIZE` may only fall; a commit that raises one says why. `--update` lowers
the numbers to what the folders have now.
"""

import signal
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
SIZE = HOME / "SIZE"


def measured(folder: str) -> tuple[int, int]:
    """Return the lines and the number of the Python files that git tracks in `folder`."""
    command = ["git", "ls-files", "-z", "--", f"{folder}/*.py"]
    listed = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=True)
    files = [HOME / name for name in listed.stdout.split("\0") if name and (HOME / name).is_file()]
    return sum(len(file.read_bytes().splitlines()) for file in files), len(files)


def main(update: bool) -> int:
    """Print a line for each folder, and return 1 if one is above its limit."""
    head, *lines = SIZE.read_text().splitlines()
    rows, failed = [head], False
    for line in lines:
        folder, *limits = line.split()
        now = measured(folder)
        above = any(one > int(limit) for one, limit in zip(now, limits, strict=True))
        failed |= above
        remark = "  above the limit: make it smaller, or raise SIZE and say why in the commit" * above
        print(f"{folder:18} {now[0]:6} of {limits[0]:>6} lines, {now[1]:4} of {limits[1]:>4} files{remark}")
        rows.append(f"{folder:18} {min(now[0], int(limits[0])):6} {min(now[1], int(limits[1])):5}")
    if update:
        SIZE.write_text("\n".join(rows) + "\n")
    return int(failed)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the reader of the output may quit, as `head` does
    sys.exit(main("--update" in sys.argv[1:]))
