# `make help` lists the targets. Everything needed is set up in .venv at first use.
PYTHON ?= python3
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
BUILT := relayvm/vm/.built
LIBRARY := relayvm/vm/_runtime.abi3.so
RUNTIME := $(wildcard relayvm/vm/runtime/*.c relayvm/vm/runtime/*.h relayvm/vm/runtime/generated/* relayvm/vm/runtime/python/*)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest -p no:benchmark
PARALLEL := $(PYTEST) -n $(JOBS) --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help demo check test test-long golden generate stress fuzz bench docs lint peers clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo 'Python 3.10 or newer is needed: make PYTHON=/path/to/python3 ...'; exit 1; }
	@command -v cc >/dev/null || { echo 'a C compiler is needed (cc is not found)'; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=23' 'setuptools>=77' wheel 'cffi>=1.16' 'numpy>=2'
	$(PIP) install --no-build-isolation --editable .
	touch $@

$(TOOLS): $(READY)
	$(PIP) install --no-build-isolation --editable '.[test,dev]'
	touch $@

# The C runtime, built beside the package it belongs to.
$(BUILT): $(RUNTIME) relayvm/vm/runtime/build.py | $(READY)
	@test -e $(LIBRARY) && test -z "$$(find $^ -newer $(LIBRARY))" || $(BIN)/python -m relayvm.vm.runtime.build
	touch $@

demo: $(BUILT)  ## run the Tree-LSTM over the bundled trees
	$(BIN)/python examples/tree_lstm/demo.py

lint: $(BUILT) $(TOOLS)  ## style, types, import contract, freshness of generated files
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m relayvm.vm.generate --check
	$(BIN)/python -m relayvm.ops.docs --check

check: lint  ## lint and the quick tests; under two minutes
	$(PYTEST) -m 'not slow' tests/test_tiny.py tests/architecture tests/base tests/cli

test: $(BUILT) $(TOOLS)  ## all tests
	$(PARALLEL)

test-long: $(BUILT) $(TOOLS)  ## all tests with long property and fuzz runs, the machine under stress
	HYPOTHESIS_PROFILE=long $(PARALLEL)
	$(BIN)/python -m relayvm.vm.runtime.build --stress
	RELAYVM_RUNTIME=stress $(PARALLEL)

golden: $(BUILT) $(TOOLS)  ## rewrite golden files; review the diff like code
	$(PYTEST) --update-golden tests/golden tests/errors tests/architecture

generate: $(READY)  ## regenerate committed files from the tables
	$(BIN)/python -m relayvm.vm.generate
	$(BIN)/python -m relayvm.ops.docs

stress: $(BUILT) $(TOOLS)  ## the machine in its torture build: poisoned memory, audited counts
	$(BIN)/python -m relayvm.vm.runtime.build --stress
	RELAYVM_RUNTIME=stress $(PARALLEL) tests/test_tiny.py tests/vm tests/golden tests/property

fuzz: $(BUILT) $(TOOLS)  ## long runs of the fuzzers
	HYPOTHESIS_PROFILE=long $(PYTEST) tests/fuzz

bench: $(BUILT) $(TOOLS)  ## benchmarks; ratios to named peers where these are installed
	$(BIN)/python -m pytest --benchmark-only bench

peers: $(READY)  ## install PyTorch, ONNX Runtime and safetensors to compare with, and a cross compiler for tests of AArch64
	$(PIP) install --no-build-isolation --editable '.[peers,cross]'

docs: generate  ## generated reference pages

clean:  ## remove what was built, not the environment
	rm -rf build $(BUILT) relayvm/vm/*.so .mypy_cache .ruff_cache .pytest_cache
