#!/usr/bin/env bash
# Prints a table of speed: ./bench.sh environments|replay|networks|training [flags]; alone it says what they are
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/bench.sh" "$@"
