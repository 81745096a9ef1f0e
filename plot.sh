#!/usr/bin/env bash
# Draws the learning curves of one or several runs: ./plot.sh CSV... [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" plot "$@"
