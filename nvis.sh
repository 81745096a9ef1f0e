#!/usr/bin/env bash
# Draws what the filters of a snapshot's network respond to, as an HTML page: ./nvis.sh SNAPSHOT [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" nvis "$@"
