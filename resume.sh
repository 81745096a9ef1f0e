#!/usr/bin/env bash
# Goes on with the training that a snapshot was taken from: ./resume.sh SNAPSHOT [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" resume "$@"
