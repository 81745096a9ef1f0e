#!/usr/bin/env bash
# Runs a verb with a change of your own: ./modified.sh FILE.py VERB ..., such as train, resume or test
source "$(dirname -- "$(readlink -f -- "$0")")/scripts/run.sh" modified "$@"
