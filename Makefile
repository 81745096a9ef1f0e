# The checks, the figures and the lock files; `make` alone lists them.
SHELL := bash
MAKEFLAGS += --no-print-directory
python := .venv/bin/python

.PHONY: help test lint docs anchors bench soak tables coverage wheel lock dev

help:
	@echo "make test      every check: lint, then the tests"
	@echo "make lint      style, format and types alone"
	@echo "make docs      the documentation site, into build/site; every link and anchor is checked"
	@echo "make anchors   renew the line numbers of code in docs/, and the list of files to read"
	@echo "make bench     the tables of speed, one after the other"
	@echo "make soak      the long trials of what docs/reliability.md promises"
	@echo "make tables    write the figures of docs/data/*.csv into README.md and docs/*.md"
	@echo "make coverage  which lines of src/ and nvis/ the tests run, in half an hour or so; not part of make test"
	@echo "make wheel     the wheel and the source distribution, into dist/"
	@echo "make lock      renew requirements.txt and requirements-dev.txt from pyproject.toml"

# Ray's workers step back for every other process: their tests have the machine to themselves.
test: lint docs
	$(python) -m pytest tests/cluster
	$(python) -m pytest --numprocesses logical --dist worksteal --ignore tests/cluster

lint: dev
	$(python) -m ruff check
	$(python) -m ruff format --check
	$(python) -m mypy

docs: dev
	$(python) scripts/site.py

anchors:
	@$(python) scripts/anchors.py
	@PYTHONPATH=src:. $(python) scripts/reading_list.py

bench:
	@set -e; for table in environments replay networks training; do ./bench.sh $$table; done

soak: dev
	PYTHONPATH=src $(python) tests/soak/fuzz_snapshots.py
	PYTHONPATH=src $(python) tests/soak/kill_trainings.py
	PYTHONPATH=src $(python) tests/soak/fail_system.py
	PYTHONPATH=src $(python) tests/soak/memory_growth.py
	PYTHONPATH=src:. $(python) tests/soak/kill_nodes.py
	tests/soak/three_hosts.sh
	PYTHONPATH=src:. $(python) tests/soak/run_documents.py

tables: dev
	$(python) scripts/tables.py

# Coverage has an environment of its own, which sees the packages of .venv: who does not ask for it needs none.
# Two trials of failing disks complain of coverage itself, which writes there too.
site := import sysconfig; print(sysconfig.get_path("purelib"))
coverage: dev
	@[[ -e .venv-coverage/bin/coverage ]] || { $(python) -m venv --without-pip .venv-coverage && \
		$(python) -c '$(site)' >"$$(.venv-coverage/bin/python -c '$(site)')/packages.pth" && \
		$(python) -m pip --python .venv-coverage/bin/python install --quiet pytest-cov; }
	-.venv-coverage/bin/python -m pytest --cov --cov-report= -o timeout=3600 tests/cluster
	.venv-coverage/bin/python -m pytest --cov --cov-append --cov-report=term-missing:skip-covered \
		-o timeout=3600 --numprocesses logical --dist worksteal --ignore tests/cluster

# What an earlier build left in build/ would get into the wheel. No network is needed.
wheel: dev
	rm -rf build
	$(python) -m pip wheel --no-deps --no-build-isolation --wheel-dir dist .
	$(python) -c "from setuptools import build_meta; print(build_meta.build_sdist('dist'))"
	rm -rf build

lock:
	scripts/lock.sh

# What the checks need: the packages of the scripts, and the checkers.
dev:
	@scripts/setup.sh requirements.txt requirements-dev.txt
