#!/usr/bin/env bash
# Every test, or those of the files and folders given: two at a time where they may run beside each other, those that
# queue for a part beside them, then those marked `serial`; one line at the end. What failed is run again, at most twice,
# with nothing beside it: a test that passes only then is named with its traceback, and more than $unsteady_limit of them
# are a failure.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
unsteady_limit=6
# Where this is set, each of the thousands of programs that tests start would compile its libraries anew.
unset PYTHONDONTWRITEBYTECODE
bin=${VENV:-.venv}/bin
parts=${NEL_PARTS_DIR:-$PWD/.parts}
results=$parts/results
rm -rf "$results" && mkdir -p "$results"
bash scripts/images.sh || exit 1
# Of the whole package, when every test is run: the lines that tests run in their own process, in per cent.
coverage_floor=85
# lane NAME MARKS WORDS [OPTION...]: the tests with these marks, which are in files with these words. Having found none
# is no failure.
lane() {
  local files
  mapfile -t files < <(grep -rlE "$3" --include='test_*.py' --exclude-dir=exploits "${tests[@]}" | sort)
  [ ${#files[@]} = 0 ] || "$bin/python" -m pytest -q -m "$2" --junitxml "$results/$1.xml" -o cache_dir="$results/cache-$1" \
    "${@:4}" "${files[@]}" || { local end=$?; [ $end = 5 ] || return $end; }
}

# ended NAME CODE: what the end of a lane means. 1 is that tests failed, which it then names; any other, that not all of
# them were run.
ended() { if [ "$2" = 1 ] && [ -s "$results/cache-$1/v/cache/lastfailed" ]; then red+=("$1"); else code=1; fi; }

# again CACHE NAME: the tests that failed when this cache was written, once more and one after another.
again() {
  local failed
  mapfile -t failed < <("$bin/python" - "$results/cache-$1/v/cache/lastfailed" <<'PY'
import json, sys
from pathlib import Path

print(*json.loads(Path(sys.argv[1]).read_text()), sep="\n")
PY
  )
  [ -n "${failed[*]}" ] && "$bin/python" -m pytest -q --junitxml "$results/$2.xml" -o cache_dir="$results/cache-$2" "${failed[@]}"
}

tests=("${@:-tests}") red=() code=0
lane queued "queued and not serial" 'mark\.queued|"slurm"' >"$results/queued.log" 2>&1 &
queued=$!
[ $# != 0 ] || export NEL_TEST_COVERAGE=$results/lines
lane parallel "not serial and not queued" . -n 2 --dist loadfile || ended parallel $?
wait $queued || ended queued $?
cat "$results/queued.log"
lane serial serial 'mark\.serial|"chromium"' || ended serial $?
[ -z "${NEL_TEST_COVERAGE-}" ] || "$bin/python" tests/support/line_coverage.py "$NEL_TEST_COVERAGE" $coverage_floor || code=1
for name in "${red[@]}"; do
  echo "what failed in the lane '$name' is run again"
  # Whether they passed stands in the results: a failed test may also leave a process that spoils the last exit code.
  again "$name" "$name-again" || again "$name-again" "$name-again-again" || [ $? = 1 ] || code=1
done
"$bin/python" scripts/test_report.py "$code" "$results" "$SECONDS" "$unsteady_limit"
