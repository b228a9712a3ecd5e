#!/usr/bin/env bash
# Writes scripts/requirements.txt again: the newest versions of what `make setup` and `make parts` install, for every
# Python and machine that we support, with the checksums of their files. No address of an index gets into it.
set -euo pipefail
cd "$(dirname "$0")/.."
printf 'hatchling\nuv\n' | "${VENV:-.venv}/bin/uv" pip compile --quiet --universal --upgrade --python-version 3.11 --generate-hashes \
  --no-annotate --no-emit-index-url --custom-compile-command 'make lock' --extra dev --extra local --extra parts --extra docs \
  --output-file scripts/requirements.txt pyproject.toml -
