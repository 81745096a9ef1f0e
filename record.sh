#!/usr/bin/env bash
# Films a snapshot while it plays, with sound: ./record.sh SNAPSHOT [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" record "$@"
