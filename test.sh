#!/usr/bin/env bash
# Tests a snapshot without training: ./test.sh SNAPSHOT [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" test "$@"
