#!/usr/bin/env bash
# Records a film, with sound, of a snapshot playing: ./record.sh SNAPSHOT [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" record "$@"
