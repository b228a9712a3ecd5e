# All of CI can be run by a newcomer: `make check` and `make test` are all there is.
VENV ?= .venv
BIN := $(VENV)/bin
# Which extras the virtual environment has; scripts/setup.sh writes these files.
DEV := $(VENV)/.with-dev
LOCAL := $(VENV)/.with-local
DOCS := $(VENV)/.with-docs

# Folders whose tests run the whole program, or need parts throughout.
WHOLE_PROGRAM_TESTS := tests/cli/ tests/docs/ tests/e2e/ tests/examples/ tests/redteam/ tests/sandbox/ tests/support/ tests/surface/

.PHONY: help setup lock parts demo test test-all check quick affected resolve first-hour bench docs clean

help:  ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

export VENV PYTHON

$(DEV): pyproject.toml scripts/requirements.txt
	@bash scripts/setup.sh dev,local

$(DOCS): pyproject.toml scripts/requirements.txt
	@bash scripts/setup.sh docs

$(LOCAL): pyproject.toml scripts/requirements.txt
	@bash scripts/setup.sh local

setup: $(DEV)  ## make the virtual environment

lock: $(DEV)  ## pin the newest versions of all libraries
	@bash scripts/lock.sh

parts:  ## install the real parts that tests use (model, sandboxes, browser, trackers)
	@bash scripts/parts.sh

demo: $(LOCAL)  ## a real evaluation on a small embedded model
	@bash scripts/demo.sh

test: parts  ## run every test
	@bash scripts/docker.sh run bash scripts/slurm.sh run bash scripts/test.sh

test-all: parts  ## run every test, those with large parts too (vLLM, NeMo Gym, NAT, OpenClaw: 5 GB)
	@bash scripts/vllm.sh install
	@bash scripts/agents.sh install
	@NEL_TEST_ALL=1 bash scripts/docker.sh run bash scripts/slurm.sh run bash scripts/test.sh

quick: check  ## lint, types, and the unit tests that need no parts: three minutes
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not needs and not slow and not serial and not queued and not large" \
	  $(filter-out $(WHOLE_PROGRAM_TESTS),$(wildcard tests/*/)) tests/test_public_names.py

affected: check  ## lint, types, and the tests of changed packages and of those that import them
	@tests=$$($(BIN)/python scripts/affected.py) && \
	if [ -z "$$tests" ]; then echo "no test is affected"; else bash scripts/test.sh $$tests; fi

check: $(DEV)  ## lint, types, layers
	@bash scripts/javascript.sh check
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/mypy --config-file scripts/mypy_tests.ini tests bench && $(BIN)/lint-imports

docs: $(DOCS)  ## build the documentation as a site, in site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

resolve:  ## resolve every extra with plain pip in a fresh environment (needs a package index)
	@bash scripts/resolve.sh

first-hour: $(DEV)  ## README's first block on a bare Debian, to a first result (needs root, mmdebstrap, a package index)
	@bash scripts/first_hour.sh

bench: $(DEV)  ## speed, memory and disk as ratios, measured in one run
	@$(BIN)/python -m bench

clean:  ## remove what the build made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache build dist site
