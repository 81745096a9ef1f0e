#!/usr/bin/env bash
# Shows a snapshot, converts one of Neon's, or averages the weights of several snapshots of a run:
# ./snapshot.sh show FILE, ./snapshot.sh convert IN OUT, ./snapshot.sh average IN... OUT
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" snapshot "$@"
