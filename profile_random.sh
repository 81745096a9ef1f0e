#!/usr/bin/env bash
# Profiles random play: ./profile_random.sh GAME [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" profile_random "$@"
