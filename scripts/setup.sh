#!/usr/bin/env bash
# Sees to it that .venv holds the packages of the lock files named: setup.sh requirements.txt [...]
#
# .venv keeps a copy of each lock file that it was made from, so that the usual case, nothing to do, costs
# one comparison. While packages are being installed .venv/unfinished lies beside the copies; a start that
# finds it knows that the one before was interrupted, and makes .venv anew.
set -euo pipefail

home=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
venv=$home/.venv
unfinished=$venv/unfinished
program=${SIMPLE_DQN_PROGRAM:-$0}

# Prints where a Python lies that can make .venv; ends with 3 where only its venv module is missing.
# The real path names the version, so that .venv breaks, and is made anew, when that version goes away.
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

# Locks descriptor 9 of this shell, which keeps the lock when this Python has ended: until the shell ends too.
lock='
import fcntl, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
try:
    fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("Another start is setting up .venv: waiting for it to end.", file=sys.stderr)
    fcntl.flock(9, fcntl.LOCK_EX)
except OSError:
    pass  # a network folder without locks: go on, for starts at the same time are rare
'

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "$program: $*"
    exit 2
}

# Tells whether .venv holds all packages of the lock files given.
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
        fail "PYTHON=$PYTHON is not a Python 3.11 or newer: name one that is, or unset PYTHON"
    fi
    fail "no Python 3.11 or newer was found: install one, or name it: PYTHON=/path/to/python3.11 $program"
}

# Makes .venv where there is none that can be built upon.
make_venv() {
    if [[ -e $unfinished ]]; then
        say "The last set-up was interrupted: making .venv anew with $python."
    elif [[ ! -e $venv ]]; then
        say "First start: making .venv with $python."
    elif "$venv/bin/python" -I -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        : >"$unfinished"
        return
    else
        say "The Python of .venv does not work any more: making .venv anew with $python."
    fi
    say "It takes 1 to 10 minutes and 0.4 GB of downloads; gigabytes with PyTorch's GPU build (README.md)."
    rm -rf -- "$venv"
    mkdir -- "$venv"
    : >"$unfinished"
    "$python" -m venv "$venv" >&2 || fail "$python could not make $venv: its own words are above"
}

# Installs the packages of the lock files given, from copies: what .venv says it holds is what was installed.
install_packages() {
    local file requirements=()
    for file; do
        cp -- "$home/$file" "$venv/$file"
        requirements+=(--requirement "$venv/$file")
    done
    say "Installing the packages of $* into .venv; pip says how far it is."
    "$venv/bin/python" -m pip install "${requirements[@]}" >&2 ||
        fail "pip could not install the packages: mend what it says above (network? disk?) and start again"
    rm -- "$unfinished"
    say "Set-up done."
}

if ready "$@"; then
    exit
fi
find_python
[[ -w $home ]] || fail "$home, where .venv is made, cannot be written: copy the project to a folder that can"
trap 'say "Set-up interrupted: the next start begins it anew."; exit 130' INT
exec 9>>"$home/requirements.txt"
"$python" -I -c "$lock"
if ! ready "$@"; then
    make_venv
    install_packages "$@"
fi
