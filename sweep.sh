#!/usr/bin/env bash
# Trains games with several seeds, and compares settings: ./sweep.sh GAMES... --seeds N [--compare "a=" "b=FLAGS"]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" sweep "$@"
