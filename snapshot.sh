#!/usr/bin/env bash
# Shows what is in a snapshot, or converts one of Neon's: ./snapshot.sh show FILE, ./snapshot.sh convert IN OUT
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" snapshot "$@"
