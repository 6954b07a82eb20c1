# Everything a clone needs: Python 3.11+ and make. Every target prepares .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo
BENCH_STAMP := $(VENV)/.installed-bench
# what streams, windows and broker need: no Spark, no Java
CORE_VENV := .venv-core
CORE_BIN := $(CORE_VENV)/bin
CORE_STAMP := $(CORE_VENV)/.installed
# nothing is left outside of this folder, so there is no cache in the home folder either
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-cache-dir -c constraints.txt
# much of a test is waiting, so six processes serve two cores: four left them idle for a third of the time; others: make test WORKERS=8
WORKERS ?= 6
FAST := not slow and not compat and not differential
PYTEST := $(BIN)/python -m pytest
# make test tries the same examples of Hypothesis each time; test-all looks for new ones
NEW_EXAMPLES := --hypothesis-profile=fresh
# Counting lines doubles the CPU time of the tests, so only test-all does it.
COVERAGE := --cov --cov-report=term:skip-covered

# Tests start some hundred processes. Without bytecode on disk each of them would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: venv core demo demo-crash demo-cluster test test-all lint typecheck bench chaos docs dist clean

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
	@echo "installing streamactors with PySpark, a Java for it, pandas, matplotlib and the flights into $(VENV) (about 1.2 GB)"
	@$(PIP_INSTALL) -e '.[demo]'
	@touch $@

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; assert sys.version_info >= (3, 11), "streamactors needs Python 3.11 or newer, this is " + sys.version'
	@echo "installing streamactors, its development tools and what the demo needs into $(VENV) (about 2 GB)"
	@$(PIP_INSTALL) -e '.[dev,demo]'
	@touch $@

# the installer is not needed any more when it has installed
$(CORE_STAMP): pyproject.toml constraints.txt
	@rm -rf $(CORE_VENV) && $(PYTHON) -m venv $(CORE_VENV)
	@$(CORE_BIN)/python -c 'import sys; assert sys.version_info >= (3, 11), "streamactors needs Python 3.11 or newer, this is " + sys.version'
	@echo "installing what streams, windows and the broker need into $(CORE_VENV) (about 150 MB)"
	@$(CORE_BIN)/python -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile -c constraints.txt -e '.[core]'
	@$(CORE_BIN)/python -m pip uninstall --quiet --yes setuptools pip
	@touch $@

$(BENCH_STAMP): $(STAMP)
	@echo "installing the peers that the benchmarks run beside"
	@$(PIP_INSTALL) -e '.[dev,demo,bench]'
	@touch $@

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/lint-imports --no-cache --config .importlinter-rooms

typecheck: $(STAMP)
	$(BIN)/mypy

# the first contribution: in a minute and a half without Spark; tests/not_core.txt says what it leaves out
core: $(CORE_STAMP)
	$(CORE_BIN)/ruff format --check .
	$(CORE_BIN)/ruff check .
	$(CORE_BIN)/lint-imports --no-cache
	$(CORE_BIN)/mypy --follow-imports=silent --exclude '^streamactors/(spark|demo)/'
	$(CORE_BIN)/python -m pytest --core -m "$(FAST)" -n 2 --dist loadfile

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

# what is made of the source: stubs, the list of public names, pages, and site/, which is the documentation as a web site
docs: $(STAMP)
	$(BIN)/python tools/operator_stubs.py
	$(BIN)/python tools/public_api.py
	$(BIN)/python -m docs.generate
	$(BIN)/python -m docs.programs
	$(BIN)/python -m tools.site.build

# a release: packages, bill of materials, statement of the build, checksums
dist: $(STAMP)
	$(BIN)/python -m tools.dist

clean:
	rm -rf $(VENV) $(CORE_VENV) .venv-newest .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build site
	find benchmarks docs examples streamactors tests tools -name __pycache__ -prune -exec rm -rf {} +
