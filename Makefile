# Everything a clone needs: Python 3.11+ and make. Every target prepares .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo
BENCH_STAMP := $(VENV)/.installed-bench
# nothing is left outside of this folder, so there is no cache in the home folder either
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-cache-dir -c constraints.txt
# much of a test is waiting, so four processes serve two cores: 6:43 where three took 7:55; others: make test WORKERS=8
WORKERS ?= 4
FAST := not slow and not compat and not differential
PYTEST := $(BIN)/python -m pytest
# make test tries the same examples of Hypothesis each time; test-all looks for new ones
NEW_EXAMPLES := --hypothesis-profile=fresh
# Counting lines doubles the CPU time of the tests, so only test-all does it.
COVERAGE := --cov --cov-report=term:skip-covered

# Tests start some hundred processes. Without bytecode on disk each of them would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: venv demo demo-crash demo-cluster test test-all lint typecheck bench chaos docs clean

venv: $(STAMP)

demo: $(DEMO_STAMP)
	@$(BIN)/streamactors demo --into out/demo

demo-crash: $(DEMO_STAMP)
	@$(BIN)/streamactors demo --crash --into out/demo-crash

demo-cluster: $(DEMO_STAMP)
	@$(BIN)/streamactors demo --cluster --into out/demo-cluster

$(DEMO_STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; assert sys.version_info >= (3, 11), "streamactors needs Python 3.11 or newer, this is " + sys.version'
	@echo "installing streamactors with PySpark, a Java for it, pandas, matplotlib and the flights into $(VENV) (about 800 MB)"
	@$(PIP_INSTALL) -e '.[demo]'
	@touch $@

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; assert sys.version_info >= (3, 11), "streamactors needs Python 3.11 or newer, this is " + sys.version'
	@echo "installing streamactors, its development tools and what the demo needs into $(VENV) (about 900 MB)"
	@$(PIP_INSTALL) -e '.[dev,demo]'
	@touch $@

$(BENCH_STAMP): $(STAMP)
	@echo "installing the peers that the benchmarks run beside"
	@$(PIP_INSTALL) -e '.[dev,demo,bench]'
	@touch $@

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache

typecheck: $(STAMP)
	$(BIN)/mypy

test: lint typecheck
	$(PYTEST) -m "$(FAST)" -n $(WORKERS) --dist loadfile

test-all: lint typecheck
	$(PYTEST) $(NEW_EXAMPLES) $(COVERAGE) -m "$(FAST)" -n $(WORKERS) --dist loadfile
	$(PYTEST) $(NEW_EXAMPLES) $(COVERAGE) --cov-append -m "not ($(FAST))"
	$(BIN)/python tools/newest_python.py

bench: $(BENCH_STAMP)
	$(BIN)/python -m benchmarks

# half an hour of three brokers under load and trouble, judged by a history checker; others: make chaos MINUTES=5
MINUTES ?= 30

chaos: $(STAMP)
	$(BIN)/python -m tests.faults.chaos --minutes $(MINUTES)

# what is made of the source: stubs, the list of public names, and the pages of operators
docs: $(STAMP)
	$(BIN)/python tools/operator_stubs.py
	$(BIN)/python tools/public_api.py
	$(BIN)/python -m docs.generate

clean:
	rm -rf $(VENV) .venv-newest .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
	find benchmarks docs examples streamactors tests tools -name __pycache__ -prune -exec rm -rf {} +
