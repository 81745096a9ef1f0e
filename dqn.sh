#!/usr/bin/env bash
# Trains an agent with examples/dqn.py, the whole algorithm in one file: ./dqn.sh GAME [flags]
set -euo pipefail
home=$(dirname -- "$(readlink -f -- "$0")")
SIMPLE_DQN_PROGRAM=$0 "$home/scripts/setup.sh" requirements.txt
exec "$home/.venv/bin/python" -P "$home/examples/dqn.py" "$@"
