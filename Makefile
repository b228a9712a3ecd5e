# All of CI can be run by a newcomer: `make check` and `make test` are all there is.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup parts demo test check bench clean

help:  ## show this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev,local]'
	@touch $@

setup: $(STAMP)  ## make the virtual environment

parts: $(STAMP)  ## install the real parts that tests use (model, sandbox, browser, trackers)
	@bash scripts/parts.sh

demo: $(STAMP)  ## a real evaluation on a small embedded model
	@bash scripts/demo.sh

test: $(STAMP) parts  ## run every test
	@$(BIN)/python -m pytest

check: $(STAMP)  ## lint, types, layers
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

bench: $(STAMP)  ## speed, memory and disk as ratios, measured in one run
	@$(BIN)/python -m bench

clean:  ## remove what the build made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache build dist
