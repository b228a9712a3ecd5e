#!/usr/bin/env bash
# Resolves the project with each of its extras by plain pip in a fresh environment; each must take less than two minutes
# on a machine that does nothing else. Where it is busy, the seconds of CPU beside it tell. Needs a package index:
# resolve.sh [EXTRA...]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
if [ $# = 0 ]; then
  # All that users install; what only developers need is installed from the pins.
  mapfile -t extras < <("$folder/venv/bin/python" -c '
import tomllib
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
print("", *(name for name in extras if name not in ("parts", "docs", "dev")), sep="\n")')
  set -- "${extras[@]}"
fi
slow=0
for extra in "$@"; do
  TIMEFORMAT='%R %U'
  if ! took=$({ time timeout 900 "$folder/venv/bin/pip" install -q --dry-run --disable-pip-version-check ".${extra:+[$extra]}" >"$folder/log" 2>&1; } 2>&1); then
    tail -5 "$folder/log"
    echo "${extra:-core}: cannot be resolved" >&2
    exit 1
  fi
  read -r wall cpu <<<"$took"
  echo "${extra:-core}: ${wall%.*} s, of them ${cpu%.*} s of CPU"
  [ "${wall%.*}" -lt 120 ] || slow=1
done
[ "$slow" = 0 ] || { echo "more than two minutes: was the machine busy? if not, bound what pip tries" >&2; exit 1; }
