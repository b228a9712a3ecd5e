"""The end of `make test`: a test that failed once and passed when repeated is shown with its traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "test_report.py"
FINE = '<testcase classname="tests.test_it" name="test_fine"/>'
PASSED = '<testcase classname="tests.test_it" name="test_flaky"/>'
SKIPPED = (
    '<testcase classname="tests.test_it" name="test_part"><skipped message="no part"/></testcase>'
)
# As pytest writes them.
FLAKY = """<testcase classname="tests.test_it" name="test_flaky"><failure message="ValueError: no">query = 1

&gt;       raise ValueError("rows were appended between counting and reading")
E       ValueError: rows were appended between counting and reading

query.py:157: ValueError</failure></testcase>"""
ERROR = '<testcase classname="tests.test_it" name="test_flaky"><error message="the fixture fell over"/></testcase>'
BROKEN = '<testcase classname="tests.test_it" name="test_broken"><failure>ValueError: always</failure></testcase>'


def lane(folder: Path, name: str, *cases: str) -> None:
    """The results of a lane."""
    suite = f'<testsuite name="pytest">{"".join(cases)}</testsuite>'
    (folder / f"{name}.xml").write_text(
        f"<?xml version='1.0' encoding='utf-8'?><testsuites>{suite}</testsuites>"
    )


def ended(folder: Path, code: str = "0", limit: str = "6") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), code, str(folder), "12", limit]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_traceback_of_an_unsteady_test_is_printed(tmp_path: Path) -> None:
    lane(tmp_path, "parallel", FINE, FLAKY, SKIPPED)
    lane(tmp_path, "parallel-again", PASSED)
    done = ended(tmp_path)
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert (
        lines[0]
        == "=== unsteady (failed beside others, passed by itself): tests.test_it::test_flaky"
    )
    assert '>       raise ValueError("rows were appended between counting and reading")' in lines
    assert "query.py:157: ValueError" in lines
    assert (
        lines[-2] == "unsteady (failed beside others, passed by itself): tests.test_it::test_flaky"
    )
    assert lines[-1] == "OK: 2 passed, 0 failed, 1 skipped in 12 s; 1 unsteady, 6 allowed"
    assert ended(tmp_path, limit="0").returncode == 1


def test_the_first_traceback_counts_and_that_of_a_fixture_too(tmp_path: Path) -> None:
    lane(tmp_path, "queued", ERROR)
    lane(tmp_path, "queued-again", FLAKY)
    lane(tmp_path, "queued-again-again", PASSED)
    done = ended(tmp_path)
    assert done.returncode == 0
    assert "the fixture fell over" in done.stdout and "query.py" not in done.stdout


def test_what_fails_again_is_a_failure(tmp_path: Path) -> None:
    lane(tmp_path, "parallel", FINE, BROKEN)
    lane(tmp_path, "parallel-again", BROKEN)
    done = ended(tmp_path)
    assert (done.returncode, done.stdout) == (1, "FAILED: 1 passed, 1 failed, 0 skipped in 12 s\n")


@pytest.mark.parametrize(("code", "end"), [("0", 0), ("1", 1)])
def test_a_lane_that_did_not_run_is_a_failure(tmp_path: Path, code: str, end: int) -> None:
    lane(tmp_path, "parallel", FINE)
    assert ended(tmp_path, code).returncode == end


def test_the_script_ends_with_the_report() -> None:
    text = SCRIPT.with_name("test.sh").read_text()
    assert text.splitlines()[-1].startswith(
        '"$bin/python" scripts/test_report.py "$code" "$results"'
    )
