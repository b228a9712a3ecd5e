#!/usr/bin/env bash
# Every test, or those of the files and folders given: two at a time where they may run beside each other, then those
# marked `serial`; one line at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=${VENV:-.venv}/bin
parts=${NEL_PARTS_DIR:-$PWD/.parts}
results=$parts/results
rm -rf "$results" && mkdir -p "$results"
bash scripts/images.sh || exit 1
# With COVER=yes: the lines of the package that tests run in their own process; programs that they start are not counted.
# It costs a third more CPU, which tests of time feel.
cover=()
if [ -n "${COVER-}" ] && [ $# = 0 ]; then cover=(--cov=nemo_evaluator --cov-report=); fi
export COVERAGE_FILE=$results/coverage
"$bin/python" -m pytest -q -n 2 --dist loadfile -m "not serial" "${cover[@]}" --junitxml "$results/parallel.xml" "${@:-tests}"
parallel=$?
serial=0
mapfile -t files < <(grep -rlE 'mark\.serial' --include='test_*.py' "${@:-tests}")
if [ ${#files[@]} -gt 0 ]; then
  "$bin/python" -m pytest -q -m serial --junitxml "$results/serial.xml" "${files[@]}"
  serial=$?
fi
code=$((parallel > serial ? parallel : serial))
[ ${#cover[@]} = 0 ] || echo "coverage: $("$bin/coverage" report --format=total)% of lines"
"$bin/python" - "$code" "$results" <<'PY'
import sys
from pathlib import Path
from xml.etree import ElementTree

totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
seconds = 0.0
for path in Path(sys.argv[2]).glob("*.xml"):
    for suite in ElementTree.parse(path).iter("testsuite"):
        seconds += float(suite.get("time", 0))
        totals = {key: value + int(suite.get(key, 0)) for key, value in totals.items()}
bad = totals["failures"] + totals["errors"]
passed = totals["tests"] - bad - totals["skipped"]
verdict = "OK" if sys.argv[1] == "0" else "FAILED"
print(f"{verdict}: {passed} passed, {bad} failed, {totals['skipped']} skipped in {seconds:.0f} s")
PY
exit "$code"
