#!/usr/bin/env bash
# Every test, or those of the files and folders given: two at a time where they may run beside each other, those that
# queue for a part beside them, then those marked `serial`; one line at the end.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
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

# lane NAME MARKS WORDS [OPTION...]: the tests with these marks, which are in files with these words. Having found none
# is no failure.
lane() {
  local files
  mapfile -t files < <(grep -rlE "$3" --include='test_*.py' "${tests[@]}" | sort)
  [ ${#files[@]} = 0 ] || "$bin/python" -m pytest -q -m "$2" --junitxml "$results/$1.xml" "${@:4}" "${files[@]}" || [ $? = 5 ]
}

tests=("${@:-tests}") code=0
lane queued "queued and not serial" 'mark\.queued|"slurm"' >"$results/queued.log" 2>&1 &
queued=$!
lane parallel "not serial and not queued" . -n 2 --dist loadfile "${cover[@]}" || code=1
wait $queued || code=1
cat "$results/queued.log"
lane serial serial 'mark\.serial' || code=1
[ ${#cover[@]} = 0 ] || echo "coverage: $("$bin/coverage" report --format=total)% of lines"
"$bin/python" - "$code" "$results" "$SECONDS" <<'PY'
import sys
from pathlib import Path
from xml.etree import ElementTree

totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
for path in Path(sys.argv[2]).glob("*.xml"):
    for suite in ElementTree.parse(path).iter("testsuite"):
        totals = {key: value + int(suite.get(key, 0)) for key, value in totals.items()}
bad = totals["failures"] + totals["errors"]
passed = totals["tests"] - bad - totals["skipped"]
verdict = "OK" if sys.argv[1] == "0" else "FAILED"
print(f"{verdict}: {passed} passed, {bad} failed, {totals['skipped']} skipped in {sys.argv[3]} s")
PY
exit "$code"
