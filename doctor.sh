#!/usr/bin/env bash
# Checks this machine and estimates the speed of training: ./doctor.sh [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" doctor "$@"
