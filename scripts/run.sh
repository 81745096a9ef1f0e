# Runs one verb of Simple-DQN. Every script of the main folder is a line over this file, which it sources:
# `source .../scripts/run.sh VERB ARGUMENTS...`, so $0 is still the name that the user called.
# The current folder stays the user's: paths among the arguments start there, while what a verb writes
# by default goes to the folders of the project (SIMPLE_DQN_HOME).
# shellcheck shell=bash
set -euo pipefail

export SIMPLE_DQN_HOME=${BASH_SOURCE[0]%/scripts/run.sh}
export SIMPLE_DQN_PROGRAM=$0

"$SIMPLE_DQN_HOME/scripts/setup.sh" requirements.txt

# -P keeps the current folder off the import path: a file there may have the name of a module.
# exec gives the process to Python: signals reach it, and its exit code is the script's.
export PYTHONPATH=$SIMPLE_DQN_HOME/src:$SIMPLE_DQN_HOME${PYTHONPATH:+:$PYTHONPATH}
exec "$SIMPLE_DQN_HOME/.venv/bin/python" -P -m simple_dqn.main "$@"
