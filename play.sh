#!/usr/bin/env bash
# Shows a snapshot that plays, and lets you take over; or lets you play a game alone: ./play.sh SNAPSHOT|GAME [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" play "$@"
