#!/usr/bin/env bash
# Updates requirements.txt and requirements-dev.txt from the version ranges in pyproject.toml: `make lock`.
# It installs the packages in a temporary environment, and records the installed versions.
set -euo pipefail

home=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
python=${PYTHON:-python3.11} # the oldest supported Python: newer ones can install the same versions
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

# Prints the requirements in the section [project] of pyproject.toml, one per line.
ranges() {
    "$python" -c '
import sys, tomllib
project = tomllib.load(open(sys.argv[1], "rb"))["project"]
wanted = project["dependencies"] if sys.argv[2] == "run" else project["optional-dependencies"][sys.argv[2]]
print(*wanted, sep="\n")
' "$home/pyproject.toml" "$1"
}

# Prints the installed packages with exact versions, except pip and what belongs to one build of PyTorch only
# (GPU libraries and the suffix of the build), so that the lock files fit every build.
installed() {
    "$work/venv/bin/python" -m pip freeze --all |
        grep -v -E '^(pip|triton|nvidia-.*|cuda-.*)==' |
        sed -E 's/^(torch==[^+]*)[+].*/\1/'
}

"$python" -m venv "$work/venv"

ranges run >"$work/run.in"
"$work/venv/bin/python" -m pip install --requirement "$work/run.in"
installed >"$work/run.txt"

ranges dev >"$work/dev.in"
"$work/venv/bin/python" -m pip install --constraint "$work/run.txt" --requirement "$work/dev.in"
installed | grep -v -x -F -f "$work/run.txt" >"$work/dev.txt"

{
    cat <<'HEADER'
# All packages that the scripts install, dependencies included, with exact versions.
# `make lock` made this file from the ranges in pyproject.toml; update it with the same command.
# torch is listed without a build, and without the libraries that its CUDA build requires itself: pip's
# configuration selects the build (docs/getting_started.md).
HEADER
    cat "$work/run.txt"
} >"$work/requirements.txt"
{
    cat <<'HEADER'
# Additional packages for the checks of `make test`. Made by `make lock`, like requirements.txt.
--requirement requirements.txt
HEADER
    cat "$work/dev.txt"
} >"$work/requirements-dev.txt"
mv -- "$work/requirements.txt" "$work/requirements-dev.txt" "$home/"
