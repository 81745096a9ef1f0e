#!/usr/bin/env bash
# Shows where the time goes in random play: ./profile_random.sh ROM [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" profile_random "$@"
