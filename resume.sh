#!/usr/bin/env bash
# Continues a training from a snapshot or a checkpoint: ./resume.sh SNAPSHOT [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" resume "$@"
