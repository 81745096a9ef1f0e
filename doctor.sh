#!/usr/bin/env bash
# Looks at whether all is well on this machine, and how fast it will be: ./doctor.sh [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" doctor "$@"
