# make demo and make test do everything from a bare checkout: Python 3.11+, make and a package index.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
USER_STAMP := $(VENV)/.user
STAMP := $(VENV)/.installed
LINTED := src tests benchmarks examples docs/make

.PHONY: setup demo test long fuzz lint bench docs clean
.DEFAULT_GOAL := help

.PHONY: help
help:
	@echo "make demo    the whole journey on the built-in recovery chain"
	@echo "make test    lint, types, import layers and every test"
	@echo "make long    every test at full size, for an hour or so"
	@echo "make fuzz    damaged files (SECONDS=300 for each kind), races and kills"
	@echo "make lint    lint, types and import layers only"
	@echo "make bench   speed and memory, against their bars"
	@echo "make docs    the documentation as a site, in site/: open site/index.html"
	@echo "make setup   .venv with the package and all that its tests need"

setup: $(STAMP)

# What a user needs.
$(USER_STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "privalue needs Python 3.11 or newer; none was found"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "privalue needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	@# As pip does for what it copies; commands start sooner.
	@$(BIN)/python -m compileall -q src/privalue
	@touch $(USER_STAMP)

# What the tests, the benchmarks and the documentation need besides.
$(STAMP): $(USER_STAMP)
	$(PIP) --editable '.[dev]'
	@# ICU-Sepsis pulls in an old gym that nothing here imports: its data file is all we need.
	$(PIP) --no-deps 'icu-sepsis>=2.0.1'
	@touch $(STAMP)

lint: $(STAMP)
	$(BIN)/ruff check $(LINTED)
	$(BIN)/ruff format --check $(LINTED)
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	@# Hundreds of tests start Python: none of them should compile what another has compiled.
	@$(BIN)/python -m compileall -q src/privalue
	@# Two workers on two cores: linear algebra with threads of its own would only wait for itself.
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist worksteal

# Everything, with what make test leaves out: full products, many races and kills, fuzzing, Spark,
# browsers, the site, other libraries, the reproduction.
LONG := PRIVALUE_LONG=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2
SECONDS := 300

long: $(STAMP)
	PRIVALUE_FUZZ_SECONDS=60 $(LONG) --dist worksteal

# Damaged files and ledgers, SECONDS each; then races, kills and attacks on ledgers.
fuzz: $(STAMP)
	PRIVALUE_FUZZ_SECONDS=$(SECONDS) PRIVALUE_FUZZ_SEED=$(or $(SEED),$(shell date +%Y%m%d)) \
		$(LONG) -rP tests/fuzz
	$(LONG) tests/ledger tests/conformance/test_ledger_stores.py \
		tests/conformance/test_ledger_roles.py tests/conformance/test_databases_read_only.py

demo: $(USER_STAMP)
	$(BIN)/privalue demo

bench: $(STAMP)
	$(BIN)/python -m benchmarks

docs: $(STAMP)
	@# Material says at each build that it will be succeeded.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Open site/index.html in a browser; it needs no network."

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis demo demo-* site
