#!/usr/bin/env bash
# Checks this machine: ./doctor.sh
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" doctor "$@"
