#!/usr/bin/env bash
# Trains an agent on a game: ./train.sh GAME [label] [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" train "$@"
