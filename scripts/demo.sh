#!/usr/bin/env bash
# A real evaluation on a small model of this machine, at two settings: run, report, compare, decide.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$(realpath -s "${VENV:-.venv}/bin"):$PATH

show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

show nel models pull smollm2-135m
show nel eval run examples/configs/00_quickstart.yaml
show nel eval run examples/configs/00_quickstart_hot.yaml
show nel eval report eval_results/quickstart
# Without --no-strict the verdict is the exit code: that is for CI, not for a demo.
show nel compare eval_results/quickstart eval_results/quickstart_hot --no-strict
show nel gate eval_results/quickstart eval_results/quickstart_hot --policy examples/policies/quickstart.yaml --no-strict
