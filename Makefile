# Needs python3 (with venv and pip) and make; everything else goes into one virtual environment,
# made on first use and brought up to date when the dependencies change.

PYTHON ?= python3
VENV ?= .venv
OUT ?= out/demo

# Nothing that is run from here reports its use to anyone.
export RAY_USAGE_STATS_ENABLED ?= 0

BIN := $(VENV)/bin
READY := $(VENV)/.raysched-ready
TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)
# Examples are type-checked as files: they belong to no package.
TYPED := raysched policies loaning serve_inference tests benchmarks $(wildcard examples/*.py)

.PHONY: help setup demo test test-real test-all mutants check format bench clean

help:
	@echo 'make demo       a cluster on this machine: six jobs, one service, loans (5 minutes)'
	@echo 'make test       pure tests and a handful on real Ray'
	@echo 'make test-real  whole-cluster and failure tests on real Ray'
	@echo 'make test-all   every test, with 20 times as many generated examples'
	@echo 'make mutants    whether the tests can fail: named faults, each of which must be caught'
	@echo 'make check      ruff, mypy --strict, import contracts'
	@echo 'make format     what ruff can mend by itself'
	@echo 'make bench      how fast the five systems decide, beside their naive forms (3 minutes)'
	@echo 'make setup      the virtual environment alone'
	@echo 'make clean      remove what all of these leave behind'
	@echo 'VENV=DIR reuses another virtual environment, OUT=DIR moves what the demo writes.'

setup: $(READY)

# torch first and exact: asked for by a range, pip may look at several builds of gigabytes each.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --constraint constraints.txt torch==$(TORCH)
	$(BIN)/pip install --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/raysched demo --out $(OUT)

test: $(READY)
	$(BIN)/pytest -m 'not attack and not long'

test-real: $(READY)
	$(BIN)/pytest -m 'attack and not long'

test-all: $(READY)
	HYPOTHESIS_PROFILE=all $(BIN)/pytest

mutants: $(READY)
	$(BIN)/python -m tests.mutants

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python -m benchmarks.decide

# The default environment only: one that VENV names may serve others too.
clean:
	rm -rf .venv out dist .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
