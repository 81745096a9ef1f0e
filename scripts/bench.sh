# Prints one table of speed: bench.sh of the main folder sources it, `source .../scripts/bench.sh TABLE FLAGS...`.
# The current folder stays the user's, as with the verbs (scripts/run.sh).
# shellcheck shell=bash
set -euo pipefail

export SIMPLE_DQN_HOME=${BASH_SOURCE[0]%/scripts/bench.sh}
export SIMPLE_DQN_PROGRAM=$0

case ${1:-} in
    environments | replay | networks | training | learning | playing | checkpoint | cluster | cluster_plan) ;;
    *)
        echo "usage: $0 TABLE [flags]; each TABLE knows --help"
        echo "  environments   steps a second of the games, against Gymnasium and EnvPool"
        echo "  replay         keeping and drawing experience, and what it weighs"
        echo "  networks       small networks under today's frameworks, and this project's own"
        echo "  learning      how soon a game is learnt: minutes until the latest games are good enough"
        echo "  training       whole training loops: loop, grid, ladder, growth, peers"
        echo "  playing        a frame of play.sh: what it takes, and what of it is work"
        echo "  checkpoint     what checkpoints cost a training"
        echo "  cluster        what actors through Ray cost on one machine (needs the extra: docs/cluster.md)"
        echo "  cluster_plan   how many actors a learner keeps up with, simulated from measured figures"
        [[ -z ${1:-} || $1 == -h || $1 == --help ]] && exit 0
        echo "$0: there is no table $1" >&2
        exit 2
        ;;
esac

"$SIMPLE_DQN_HOME/scripts/setup.sh" requirements.txt

export PYTHONPATH=$SIMPLE_DQN_HOME/src:$SIMPLE_DQN_HOME/benchmarks${PYTHONPATH:+:$PYTHONPATH}
exec "$SIMPLE_DQN_HOME/.venv/bin/python" -P -m "$@"
