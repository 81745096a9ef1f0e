#!/usr/bin/env bash
# Measures speed and prints a table: ./bench.sh TABLE [flags]; without arguments it lists the tables.
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/bench.sh" "$@"
