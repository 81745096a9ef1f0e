#!/usr/bin/env bash
# Profiles a test: ./profile_test.sh GAME [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" profile_test "$@"
