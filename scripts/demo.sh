#!/usr/bin/env bash
# A real evaluation on a small model of this machine: run it at two settings, report, compare, decide.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/${VENV:-.venv}/bin:$PATH

show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

show nel models pull smollm2-135m
show nel eval run examples/configs/00_quickstart.yaml
show nel eval report eval_results/quickstart
