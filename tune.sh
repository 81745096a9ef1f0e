#!/usr/bin/env bash
# Searches learning rate, network and schedule of a game with Optuna: ./tune.sh GAME --trials N [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" tune "$@"
