#!/usr/bin/env bash
# Installs the packages of the given lock files into .venv, unless they are installed: setup.sh requirements.txt [...]
#
# .venv has a copy of each lock file it was made from, so that the usual case, nothing to do, takes one
# comparison. While packages are being installed, the file .venv/unfinished exists. If a later start finds it,
# the installation was interrupted, and .venv is made again.
set -euo pipefail

home=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
venv=$home/.venv
unfinished=$venv/unfinished
program=${SIMPLE_DQN_PROGRAM:-$0}

# Prints the path of a Python that can make .venv; exits with 3 if only its venv module is missing.
# The real path contains the version: if that version is uninstalled, .venv stops working and is made again.
probe='
import os, sys
if sys.version_info < (3, 11):
    sys.exit(1)
try:
    import ensurepip, venv
except ImportError:
    sys.exit(3)
print(os.path.realpath(sys.executable))
'

# Locks file descriptor 9 of this shell. The shell keeps the lock after this Python has ended.
lock='
import fcntl, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
try:
    fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("Another start is setting up .venv: waiting for it to end.", file=sys.stderr)
    fcntl.flock(9, fcntl.LOCK_EX)
except OSError:
    pass  # a network folder without locks: continue, since simultaneous starts are rare
'

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "$program: $*"
    exit 2
}

# Returns whether .venv has all packages of the given lock files.
ready() {
    [[ -x $venv/bin/python && ! -e $unfinished ]] || return 1
    local file
    for file; do
        cmp -s -- "$home/$file" "$venv/$file" || return 1
    done
}

# Sets `python` to the first Python that can make .venv.
find_python() {
    local candidates=(python3.11 python3.12 python3.13 python3) candidate status without_venv=
    if [[ -n ${PYTHON:-} ]]; then
        candidates=("$PYTHON")
    fi
    for candidate in "${candidates[@]}"; do
        status=0
        python=$("$candidate" -I -c "$probe" 2>/dev/null) || status=$?
        case $status in
            0) return ;;
            3) without_venv=${without_venv:-$candidate} ;;
        esac
    done
    if [[ -n $without_venv ]]; then
        fail "$without_venv lacks its venv module: install it (Debian, Ubuntu: apt install python3-venv)"
    elif [[ -n ${PYTHON:-} ]]; then
        fail "PYTHON=$PYTHON is not a Python 3.11 or newer: give the path of one, or unset PYTHON"
    fi
    fail "no Python 3.11 or newer was found: install one, or give its path: PYTHON=/path/to/python3.11 $program"
}

# Says how much will be downloaded. pip takes the GPU build of PyTorch on Linux unless its settings, in files or in
# the environment, name the CPU build's index.
say_size() {
    local settings
    settings=$("$venv/bin/python" -m pip config list 2>/dev/null) || true
    if [[ $OSTYPE == darwin* || $settings =~ index-url=[^$'\n']*/cpu ]]; then
        say "Downloading 0.4 GB, with PyTorch's CPU build; .venv will take 1.5 GB. This takes a minute or a few."
    else
        say "Downloading about 3 GB, with PyTorch's GPU build; .venv will take 5 GB. This takes up to 10 minutes."
        say "Without an NVIDIA GPU press Ctrl-C, and choose the CPU build, 0.4 GB: see \"Start\" in README.md."
    fi
}

# Makes .venv, unless there is one that works.
make_venv() {
    if [[ -e $unfinished ]]; then
        say "The last set-up was interrupted: making .venv again with $python."
    elif [[ ! -e $venv ]]; then
        say "First start: making .venv with $python."
    elif "$venv/bin/python" -I -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        : >"$unfinished"
        return
    else
        say "The Python of .venv no longer works: making .venv again with $python."
    fi
    rm -rf -- "$venv"
    mkdir -- "$venv"
    : >"$unfinished"
    "$python" -m venv "$venv" >&2 || fail "$python could not make $venv: see its messages above"
    say_size
}

# Installs the packages of the given lock files. It copies the files first and installs from the copies: if a lock
# file changes during the installation, the copies still list the installed packages.
install_packages() {
    local file requirements=()
    for file; do
        cp -- "$home/$file" "$venv/$file"
        requirements+=(--requirement "$venv/$file")
    done
    say "Installing the packages of $* into .venv with pip, whose last stage is silent for a minute or more."
    "$venv/bin/python" -m pip install "${requirements[@]}" >&2 ||
        fail "pip could not install the packages: fix the error above (network? disk?) and start again"
    rm -- "$unfinished"
    say "Set-up done."
}

# Libraries would fail with messages that do not name the folder.
pwd -P >/dev/null 2>&1 || fail "the current folder no longer exists: change to another"
if ready "$@"; then
    exit
fi
find_python
[[ -w $home ]] || fail "cannot write to $home, where .venv belongs: copy the project to a folder where you can write"
trap 'say "Set-up interrupted: the next start begins again."; exit 130' INT
exec 9>>"$home/requirements.txt"
"$python" -I -c "$lock"
if ! ready "$@"; then
    make_venv
    install_packages "$@"
fi
