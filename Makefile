# Everything a developer does here, one target a task. `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# LangGraph's own server, which a test runs, has an environment of its own.
LANGGRAPH_DEV := .venv-langgraph
# LangGraph's JavaScript SDK, which drives the server in the tests, run by the Node of the environment.
JAVASCRIPT := tests/javascript
CODE := $(wildcard src tests benchmarks examples)
# Python compiles what it imports; most of what is installed it never does.
PIP := --quiet --disable-pip-version-check --no-compile
# Further arguments for pytest, the demo or the benchmarks: make test ARGS="-k filter"
ARGS ?=

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help setup langgraph-dev javascript demo test check bench format upstream lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Create .venv with the locked development set and this package

langgraph-dev: $(LANGGRAPH_DEV)/.ready ## Create .venv-langgraph with LangGraph's own server

javascript: $(JAVASCRIPT)/node_modules/.ready ## Install LangGraph's JavaScript SDK for the tests

demo: $(READY) ## Remember things over a crash, then serve an agent over one
	@$(BIN)/python examples/remember.py $(ARGS)
	@$(BIN)/python examples/serve.py

test: $(READY) $(LANGGRAPH_DEV)/.ready $(JAVASCRIPT)/node_modules/.ready ## Run every test
	@$(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist worksteal $(ARGS)

check: $(READY) ## Check format, lint, types, layers and the project's own rules, under 30 s
	@$(BIN)/ruff format --check --quiet $(CODE) || { echo "Run 'make format'."; exit 1; }
	@$(BIN)/ruff check --quiet $(CODE)
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > $(VENV)/layers.txt || { cat $(VENV)/layers.txt; exit 1; }
	@$(BIN)/python -m pytest -q tests/tidy

bench: $(READY) ## Measure: print figures and what they mean
	@$(BIN)/python -m benchmarks $(ARGS)

upstream: $(READY) ## Run others' tests on ours: make upstream LANGGRAPH=path DEEPAGENTS=path, or one
	@test -n "$(LANGGRAPH)$(DEEPAGENTS)" || { echo "make upstream LANGGRAPH=path/to/langgraph DEEPAGENTS=path/to/deepagents"; exit 1; }
	@test -z "$(LANGGRAPH)" || $(BIN)/python -m tests.upstream.swap $(LANGGRAPH) $(ARGS)
	@test -z "$(DEEPAGENTS)" || $(BIN)/python -m tests.upstream.deep_agents $(DEEPAGENTS) $(ARGS)

format: $(READY) ## Format the code and mend what the linter can mend
	@$(BIN)/ruff check --quiet --fix $(CODE) || true
	@$(BIN)/ruff format --quiet $(CODE)

lock: $(READY) ## Resolve requirements-dev.lock anew (needs uv on the path)
	@uv pip compile --quiet --universal --upgrade --python-version 3.11 --group dev --all-extras \
		--no-header --no-annotate --no-emit-package stateroom pyproject.toml > $(VENV)/lock.txt
	@cp $(VENV)/lock.txt requirements-dev.lock

clean: ## Remove .venv and everything that tools left behind
	@rm -rf $(VENV) $(LANGGRAPH_DEV) $(JAVASCRIPT)/node_modules .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist htmlcov
	@find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Stateroom needs Python 3.11 or later: make PYTHON=python3.12"; exit 1; }
	@echo "Setting up $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install $(PIP) -r requirements-dev.lock
	@$(BIN)/python -m pip install $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(LANGGRAPH_DEV)/.ready: requirements-langgraph-dev.lock pyproject.toml $(READY)
	@echo "Setting up $(LANGGRAPH_DEV) ..."
	@test -x $(LANGGRAPH_DEV)/bin/python || $(PYTHON) -m venv $(LANGGRAPH_DEV)
	@$(LANGGRAPH_DEV)/bin/python -m pip install $(PIP) --no-deps -r requirements-langgraph-dev.lock
	@$(LANGGRAPH_DEV)/bin/python -m pip install $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(JAVASCRIPT)/node_modules/.ready: $(JAVASCRIPT)/package-lock.json $(READY)
	@echo "Setting up $(JAVASCRIPT)/node_modules ..."
	@$(BIN)/npm ci --prefix $(JAVASCRIPT) --no-audit --no-fund --loglevel=error > /dev/null
	@touch $@
