#!/usr/bin/env bash
# Trains agents on many games, with several seeds each: ./sweep.sh GAMES... --seeds N --cluster local [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" sweep "$@"
