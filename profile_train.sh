#!/usr/bin/env bash
# Profiles training: ./profile_train.sh GAME [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" profile_train "$@"
