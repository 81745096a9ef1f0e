# Tests, documentation, benchmarks and lock files; `make` without a target lists them.
SHELL := bash
MAKEFLAGS += --no-print-directory
python := .venv/bin/python

.PHONY: help test nightly extras lint docs bench soak tables coverage wheel lock dev

help:
	@echo "make test      all checks: lint, documentation, tests"
	@echo "make nightly   the long checks: benchmarks, distribution, commands of the documentation"
	@echo "make extras    the tests of ONNX files and of a tracker"
	@echo "make lint      style, format, types and the size of the code only"
	@echo "make docs      build the documentation in build/site, and check all links"
	@echo "make bench     run the main benchmarks"
	@echo "make soak      run the long tests of docs/reliability.md"
	@echo "make tables    write the figures in docs/data/*.csv into README.md and docs/*.md"
	@echo "make coverage  report the lines of src/ and nvis/ that the tests run; takes half an hour"
	@echo "make wheel     build the wheel and the source distribution in dist/"
	@echo "make lock      update requirements.txt and requirements-dev.txt from pyproject.toml"

# Ray's workers have a low priority, so their tests run before the others and not beside them.
test: lint docs
	$(python) -m pytest tests/cluster
	$(python) -m pytest --numprocesses logical --dist worksteal --ignore tests/cluster

nightly: dev
	$(python) -m pytest --numprocesses logical --dist worksteal -m nightly

lint: dev
	$(python) -m ruff check
	$(python) -m ruff format --check
	$(python) -m mypy
	$(python) -m mypy --platform darwin --cache-dir .mypy_cache/darwin src
	$(python) scripts/size.py

docs: dev
	$(python) scripts/site.py

bench:
	@set -e; for table in environments replay networks training; do ./bench.sh $$table; done

soak: dev
	PYTHONPATH=src:. $(python) tests/soak/fuzz_snapshots.py
	PYTHONPATH=src:. $(python) tests/soak/trainings.py --kills 100 --faults 60 --minutes 60
	PYTHONPATH=src:. $(python) tests/soak/kill_nodes.py
	tests/soak/three_hosts.sh
	PYTHONPATH=src:. $(python) tests/soak/run_documents.py

tables: dev
	$(python) scripts/tables.py

# Two environments of their own include the packages of .venv: that of the extras' tests, and that of coverage.
site := import sysconfig; print(sysconfig.get_path("purelib"))
define environment
@[[ -e $(1)/bin/python ]] || { $(python) -m venv --without-pip $(1) && \
	$(python) -c '$(site)' >"$$($(1)/bin/python -c '$(site)')/packages.pth"; }
$(python) -m pip --python $(1)/bin/python install --quiet $(2)
endef

packages := ".[onnx,trackio]"
extras: dev
	$(call environment,.venv-extras,$(packages))
	.venv-extras/bin/python -m pytest tests/test_verbs.py tests/statistics

# Two tests of failing disks report errors of coverage itself, which also writes to these disks.
coverage: dev
	$(call environment,.venv-coverage,pytest-cov)
	-.venv-coverage/bin/python -m pytest --cov --cov-report= -o timeout=3600 tests/cluster
	.venv-coverage/bin/python -m pytest --cov --cov-append --cov-report=term-missing:skip-covered \
		-o timeout=3600 --numprocesses logical --dist worksteal --ignore tests/cluster

# Files left in build/ by an earlier build would get into the wheel. This needs no network.
wheel: dev
	rm -rf build
	$(python) -m pip wheel --no-deps --no-build-isolation --wheel-dir dist .
	$(python) -c "from setuptools import build_meta; print(build_meta.build_sdist('dist'))"
	rm -rf build

lock:
	scripts/lock.sh

# Installs the packages of the project and those of the checks.
dev:
	@scripts/setup.sh requirements.txt requirements-dev.txt
