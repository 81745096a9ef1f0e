# Runs one verb of Simple-DQN. Every script in the main folder sources this file with its verb,
# `source .../scripts/run.sh VERB ARGUMENTS...`, so that $0 remains the name that the user typed.
# The user's current folder stays the current folder: paths in the arguments are relative to it. By default
# a verb writes to the folders of the project (SIMPLE_DQN_HOME).
# shellcheck shell=bash
set -euo pipefail

export SIMPLE_DQN_HOME=${BASH_SOURCE[0]%/scripts/run.sh}
export SIMPLE_DQN_PROGRAM=$0

"$SIMPLE_DQN_HOME/scripts/setup.sh" requirements.txt

# Memory pages of 2 MB in place of 4 kB save 5 % of a training step; the program computes the same.
export GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1}

# -P removes the current folder from the import path, since a file there may have the name of a module.
# exec replaces the shell by Python, so that signals reach Python and its exit code is that of the script.
export PYTHONPATH=$SIMPLE_DQN_HOME/src:$SIMPLE_DQN_HOME${PYTHONPATH:+:$PYTHONPATH}
exec "$SIMPLE_DQN_HOME/.venv/bin/python" -P -m simple_dqn.main "$@"
