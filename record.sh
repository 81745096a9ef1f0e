#!/usr/bin/env bash
# Records a video, with sound, of a snapshot that plays: ./record.sh SNAPSHOT [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" record "$@"
