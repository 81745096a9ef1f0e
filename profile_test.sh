#!/usr/bin/env bash
# Shows where the time goes while an agent is tested: ./profile_test.sh ROM [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" profile_test "$@"
