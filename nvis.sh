#!/usr/bin/env bash
# Draws what the network of a snapshot sees, as a page for the browser: ./nvis.sh SNAPSHOT [flags]
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" nvis "$@"
