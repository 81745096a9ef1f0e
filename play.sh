#!/usr/bin/env bash
# Watches a snapshot play, and plays beside it; or plays alone: ./play.sh SNAPSHOT|ROM [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" play "$@"
