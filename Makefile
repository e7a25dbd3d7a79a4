# `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUNTIME := $(wildcard relayvm/vm/runtime/*.c relayvm/vm/runtime/*.h relayvm/vm/runtime/generated/*)
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help demo check test test-long golden generate stress fuzz bench docs lint clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip setuptools wheel cffi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[test,dev]'
	touch $@

# The C runtime, built beside the package it belongs to.
relayvm/vm/.built: $(READY) $(RUNTIME) relayvm/vm/runtime/build.py
	$(BIN)/python -m relayvm.vm.runtime.build
	touch $@

demo: relayvm/vm/.built  ## run the Tree-LSTM over the bundled trees
	$(BIN)/python examples/tree_lstm/demo.py

lint: relayvm/vm/.built  ## style, types, import contract, freshness of generated files
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m relayvm.vm.generate --check

check: lint  ## lint and the quick tests; under two minutes
	$(PYTEST) tests/test_tiny.py tests/architecture tests/base

test: relayvm/vm/.built  ## all tests
	$(PYTEST)

test-long: relayvm/vm/.built  ## all tests with long property and fuzz runs
	RELAYVM_TEST_PROFILE=long $(PYTEST)

golden: relayvm/vm/.built  ## rewrite golden files; review the diff like code
	$(PYTEST) tests/golden tests/errors --update-golden

generate: $(READY)  ## regenerate committed files from the tables
	$(BIN)/python -m relayvm.vm.generate
	$(BIN)/python -m relayvm.ops.docs

stress: relayvm/vm/.built  ## the machine under its torture build and with sanitizers
	$(PYTEST) tests/stress tests/fuzz

fuzz: relayvm/vm/.built  ## long runs of the fuzzers
	RELAYVM_TEST_PROFILE=long $(PYTEST) tests/fuzz

bench: relayvm/vm/.built  ## benchmarks; ratios to named peers where these are installed
	$(PYTEST) bench --benchmark-only

docs: $(READY)  ## generated reference pages
	$(BIN)/python -m relayvm.vm.generate
	$(BIN)/python -m relayvm.ops.docs

clean:  ## remove what was built, not the environment
	rm -rf build relayvm/vm/.built relayvm/vm/*.so .mypy_cache .ruff_cache .pytest_cache
