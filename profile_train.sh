#!/usr/bin/env bash
# Shows where the time goes while an agent trains: ./profile_train.sh ROM [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" profile_train "$@"
