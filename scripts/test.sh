#!/usr/bin/env bash
# Every test: two at a time where they may run beside each other, then those marked `serial`; one line at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=${VENV:-.venv}/bin
parts=${NEL_PARTS_DIR:-$PWD/.parts}
results=$parts/results
mkdir -p "$results"
bash scripts/images.sh || exit 1
"$bin/python" -m pytest -q -n 2 --dist loadfile -m "not serial" --junitxml "$results/parallel.xml" "$@"
parallel=$?
"$bin/python" -m pytest -q -m serial --junitxml "$results/serial.xml" "$@"
serial=$?
# 5 means that nothing was selected.
[ $serial = 5 ] && serial=0
"$bin/python" - "$results/parallel.xml" "$results/serial.xml" <<'PY'
import sys
from pathlib import Path
from xml.etree import ElementTree

totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
seconds = 0.0
for path in filter(Path.exists, map(Path, sys.argv[1:])):
    for suite in ElementTree.parse(path).iter("testsuite"):
        seconds += float(suite.get("time", 0))
        totals = {key: value + int(suite.get(key, 0)) for key, value in totals.items()}
bad = totals["failures"] + totals["errors"]
passed = totals["tests"] - bad - totals["skipped"]
print(f"{'FAILED' if bad else 'OK'}: {passed} passed, {bad} failed, {totals['skipped']} skipped in {seconds:.0f} s")
PY
exit $((parallel > serial ? parallel : serial))
