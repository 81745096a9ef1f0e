# The checks, the figures and the lock files; `make` alone lists them.
SHELL := bash
MAKEFLAGS += --no-print-directory
python := .venv/bin/python

.PHONY: help test lint bench soak lock dev

help:
	@echo "make test   every check: lint, then the tests"
	@echo "make lint   style, format and types alone"
	@echo "make bench  the tables of speed, one after the other"
	@echo "make soak   the long trials of what docs/reliability.md promises"
	@echo "make lock   renew requirements.txt and requirements-dev.txt from pyproject.toml"

test: lint
	$(python) -m pytest

lint: dev
	$(python) -m ruff check
	$(python) -m ruff format --check
	$(python) -m mypy

bench:
	@set -e; for table in environments replay networks training; do ./bench.sh $$table; done

soak: dev
	PYTHONPATH=src $(python) tests/soak/fuzz_snapshots.py
	PYTHONPATH=src $(python) tests/soak/kill_trainings.py
	PYTHONPATH=src $(python) tests/soak/fail_system.py
	PYTHONPATH=src $(python) tests/soak/memory_growth.py
	PYTHONPATH=src:. $(python) tests/soak/kill_nodes.py

lock:
	scripts/lock.sh

# What the checks need: the packages of the scripts, and the checkers.
dev:
	@scripts/setup.sh requirements.txt requirements-dev.txt
