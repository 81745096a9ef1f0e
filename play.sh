#!/usr/bin/env bash
# Shows a snapshot playing, and lets you take over; or lets you play alone: ./play.sh SNAPSHOT|ROM [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" play "$@"
