#!/usr/bin/env bash
# Measures speed and prints a table: ./bench.sh TABLE [flags]; without arguments it lists the tables.
# The user's current folder stays the current folder, as with the verbs (scripts/run.sh).
set -euo pipefail

SIMPLE_DQN_HOME=$(dirname -- "$(readlink -f -- "$0")")
export SIMPLE_DQN_HOME SIMPLE_DQN_PROGRAM=$0

case ${1:-} in
    environments | emulator | replay | networks | training | learning | playing | checkpoint | cluster | cluster_plan | step_limit) ;;
    *)
        echo "usage: $0 TABLE [flags]; $0 TABLE --help lists the flags"
        echo "  training      steps/s of training; compared with Stable-Baselines3, Tianshou and CleanRL"
        echo "  learning      minutes until the mean score of the latest games reaches a goal"
        echo "  environments  steps/s of the environments, compared with Gymnasium and EnvPool"
        echo "  emulator      steps/s of --emulator warp, compared with ALE and EnvPool, on one core"
        echo "  replay        speed and memory use of the replay memory"
        echo "  networks      speed of Nature's network in ten frameworks"
        echo "  playing       time per frame in play.sh"
        echo "  checkpoint    cost of checkpoints during training"
        echo "  cluster       overhead of Ray on one machine (needs the extra 'cluster': docs/cluster.md)"
        echo "  cluster_plan  simulation: how many actors one learner can use"
        echo "  step_limit    simulation: bias of the mean score in a test limited by steps"
        [[ -z ${1:-} || $1 == -h || $1 == --help ]] && exit 0
        echo "$0: unknown table $1" >&2
        exit 2
        ;;
esac

"$SIMPLE_DQN_HOME/scripts/setup.sh" requirements.txt

export PYTHONPATH=$SIMPLE_DQN_HOME/src:$SIMPLE_DQN_HOME/benchmarks${PYTHONPATH:+:$PYTHONPATH}
exec "$SIMPLE_DQN_HOME/.venv/bin/python" -P -m "$@"
