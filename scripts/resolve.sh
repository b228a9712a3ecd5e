#!/usr/bin/env bash
# Resolves the project with each of its extras by plain pip in a fresh environment; each must take less than two minutes.
# Needs a package index: resolve.sh [EXTRA...]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
[ $# -gt 0 ] || set -- "" scoring stats inspect export pandas local aws mcp all
for extra in "$@"; do
  started=$SECONDS
  timeout 120 "$folder/venv/bin/pip" install -q --dry-run --disable-pip-version-check ".${extra:+[$extra]}" >"$folder/log" 2>&1 || {
    tail -5 "$folder/log"
    echo "${extra:-core}: not resolved within two minutes" >&2
    exit 1
  }
  echo "${extra:-core}: $((SECONDS - started)) s"
done
