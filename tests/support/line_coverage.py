"""Which lines of the package the tests run in their own processes; programs that they start are not counted.

slipcover takes its marks out of a line once it was run, so that this costs a percent and not a third.
``python tests/support/line_coverage.py FOLDER FLOOR`` sums up and fails below the floor.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "nemo_evaluator"
FOLDER = os.environ.get("NEL_TEST_COVERAGE")
# In the processes that run tests, not in the one that hands them out.
MEASURED = FOLDER is not None and "PYTEST_XDIST_WORKER" in os.environ

if MEASURED:
    import slipcover

    lines = slipcover.Slipcover(source=[str(PACKAGE)])
    slipcover.ImportManager(lines, slipcover.FileMatcher(sources=[str(PACKAGE)])).__enter__()


def pytest_sessionfinish() -> None:
    """Leave what was run and what was not, by file."""
    if MEASURED:
        files = lines.get_coverage()["files"]
        found = {
            name: [file["executed_lines"], file["missing_lines"]] for name, file in files.items()
        }
        folder = Path(FOLDER)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{os.environ['PYTEST_XDIST_WORKER']}.json").write_text(json.dumps(found))


def summed_up(folder: Path) -> dict[str, tuple[set[int], set[int]]]:
    """The lines of each file, and those of them that some process ran."""
    files: dict[str, tuple[set[int], set[int]]] = {}
    for path in sorted(folder.glob("*.json")):
        for name, (run, missed) in json.loads(path.read_text()).items():
            every, seen = files.setdefault(name, (set(), set()))
            every.update(run, missed)
            seen.update(run)
    # Nothing imports modules that only hold types when a program runs.
    return {name: lines for name, lines in files.items() if lines[1] or _has_functions(Path(name))}


def _has_functions(path: Path) -> bool:
    """Whether a module has anything that could run, besides the declaration of types."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    module = ast.parse((PACKAGE.parents[1] / path).read_text(encoding="utf-8"))
    return any(isinstance(node, functions) for node in ast.walk(module))


def main(folder: str, floor: str) -> int:
    """Print the share, and the files that miss most."""
    files = summed_up(Path(folder)).items()
    every, seen = (sum(len(lines[at]) for _, lines in files) for at in (0, 1))
    if not every:
        print("coverage: nothing was measured")
        return 1
    share = 100 * seen / every
    worst = sorted(files, key=lambda file: len(file[1][1]) - len(file[1][0]))[:5]
    told = ", ".join(f"{Path(name).name} {len(lines) - len(run)}" for name, (lines, run) in worst)
    print(
        f"coverage: {share:.1f}% of {every} lines, at least {floor}% wanted; most lines are missed in {told}"
    )
    return int(share < float(floor))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
