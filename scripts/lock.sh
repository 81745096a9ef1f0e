#!/usr/bin/env bash
# Renews requirements.txt and requirements-dev.txt from the ranges in pyproject.toml: `make lock`.
# The packages are resolved and installed in a temporary environment, and what is there then is written down.
set -euo pipefail

home=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
python=${PYTHON:-python3.11} # the oldest Python supported: what it can install, newer ones can
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

# Prints the requirements that pyproject.toml names under [project], one a line.
ranges() {
    "$python" -c '
import sys, tomllib
project = tomllib.load(open(sys.argv[1], "rb"))["project"]
wanted = project["dependencies"] if sys.argv[2] == "run" else project["optional-dependencies"][sys.argv[2]]
print(*wanted, sep="\n")
' "$home/pyproject.toml" "$1"
}

# Prints what is installed, with exact versions. Left out: pip itself, and what belongs to one build of
# PyTorch alone (the GPU libraries, and the local name of the build), so that the lock fits every build.
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
# Every package that the scripts install, those needed by others too, each in one version.
# Made by `make lock` from the ranges in pyproject.toml; renew it with the same command.
# torch stands without the name of a build, and the libraries that its CUDA build needs are not listed (that
# build asks for them itself): pip's own configuration decides which build it is. README.md says how.
HEADER
    cat "$work/run.txt"
} >"$work/requirements.txt"
{
    cat <<'HEADER'
# What the checks of `make test` need on top of requirements.txt. Made by `make lock`, like that file.
--requirement requirements.txt
HEADER
    cat "$work/dev.txt"
} >"$work/requirements-dev.txt"
mv -- "$work/requirements.txt" "$work/requirements-dev.txt" "$home/"
