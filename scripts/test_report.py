"""The end of ``make test``: what failed, the traceback of every test that passed only when repeated, and one line.

``python scripts/test_report.py CODE RESULTS SECONDS LIMIT``: the exit code so far, the folder with pytest's XML files,
how long it took, and how many unsteady tests are allowed.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

AGAIN = "-again"


@dataclass
class Results:
    """What the XML files say, by the names of tests."""

    names: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    # What was wrong the first time a test failed.
    tracebacks: dict[str, str] = field(default_factory=dict)
    # Tests whose last run failed.
    failed: set[str] = field(default_factory=set)

    @property
    def unsteady(self) -> list[str]:
        """Tests that failed once and passed when they were repeated."""
        return sorted(self.tracebacks.keys() - self.failed)


def read_results(folder: Path) -> Results:
    """Read the XML files of a test run; those of repetitions count after the ones they repeat."""
    results = Results()
    for path in sorted(folder.glob("*.xml"), key=lambda path: path.stem.count(AGAIN)):
        for case in ElementTree.parse(path).iter("testcase"):  # noqa: S314 - pytest wrote it just now
            read_case(case, results)
    return results


def read_case(case: ElementTree.Element, results: Results) -> None:
    """Take in one test."""
    name = f"{case.get('classname')}::{case.get('name')}"
    results.names.add(name)
    if case.find("skipped") is not None:
        results.skipped.add(name)
    broken = [part for part in case if part.tag in ("failure", "error")]
    if broken:
        results.failed.add(name)
        results.tracebacks.setdefault(name, "\n".join(problem_text(part) for part in broken))
    else:
        results.failed.discard(name)


def problem_text(part: ElementTree.Element) -> str:
    """The traceback of a failure, or its message where there is none."""
    return (part.text or part.get("message") or "no traceback").strip()


def report(
    results: Results, *, lanes_ran: bool, seconds: str, limit: int
) -> tuple[list[str], bool]:
    """The lines to print, and whether the test run is a success."""
    lines = []
    for name in results.unsteady:
        lines.append(f"=== unsteady (failed beside others, passed by itself): {name}")
        lines.append(results.tracebacks[name])
        lines.append("")
    lines += [
        f"unsteady (failed beside others, passed by itself): {name}" for name in results.unsteady
    ]
    failed = len(results.failed)
    unsteady = len(results.unsteady)
    fine = lanes_ran and not failed and unsteady <= limit
    passed = len(results.names) - failed - len(results.skipped)
    counts = f"{passed} passed, {failed} failed, {len(results.skipped)} skipped in {seconds} s"
    more = f"; {unsteady} unsteady, {limit} allowed" if unsteady else ""
    lines.append(f"{'OK' if fine else 'FAILED'}: {counts}{more}")
    return lines, fine


def main() -> None:
    """Print the report; the exit code is 0 for a success."""
    code, folder, seconds, limit = sys.argv[1:5]
    lines, fine = report(
        read_results(Path(folder)), lanes_ran=code == "0", seconds=seconds, limit=int(limit)
    )
    print("\n".join(lines))
    sys.exit(not fine)


if __name__ == "__main__":
    main()
