"""``python -m bench [NAME …]``: run the measurements, print a table, keep it as JSON to compare two commits."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

MODULES = (
    *("start", "spine", "traffic", "compare", "sandbox", "lm_eval"),
    *("calibration", "clusters", "judges", "batches", "scaling", "view", "million"),
)
SLOW = ("calibration", "clusters", "judges", "scaling", "million")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        help=f"some of: {', '.join(MODULES)} (default: all but {', '.join(SLOW)})",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("bench/results"), help="folder for the JSON file"
    )
    parser.add_argument(
        "--against", type=Path, help="a JSON file of an earlier run to compare with"
    )
    arguments = parser.parse_args()
    names = arguments.names or [name for name in MODULES if name not in SLOW]
    rows: list[dict[str, object]] = []
    for name in names:
        rows += importlib.import_module(f"bench.{name}").rows()
    old = _old(arguments.against)
    width = max(len(str(row["name"])) for row in rows)
    print(f"{'what':{width}}  {'value':>10}  {'limit':>8}  unit" + ("    before" if old else ""))
    for row in rows:
        limit = "" if row.get("limit") is None else f"{row['limit']:g}"
        before = f"  {old[row['name']]:>8.3g}" if row["name"] in old else ""
        verdict = "" if _holds(row) else "  OVER THE LIMIT"
        print(
            f"{row['name']:{width}}  {row['value']:>10.3f}  {limit:>8}  {row['unit']}{before}{verdict}"
        )
    _keep(rows, arguments.out)
    return 0 if all(_holds(row) for row in rows) else 1


def _holds(row: dict[str, object]) -> bool:
    limit, value = row.get("limit"), row["value"]
    if limit is None:
        return True
    return value >= limit if row.get("at_least") else value <= limit  # type: ignore[operator]


def _old(path: Path | None) -> dict[object, float]:
    return (
        {row["name"]: row["value"] for row in json.loads(path.read_text())["rows"]} if path else {}
    )


def _keep(rows: list[dict[str, object]], folder: Path) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"bench-{time.strftime('%Y%m%dT%H%M%S')}-{commit or 'nogit'}.json"
    facts = {"commit": commit, "python": platform.python_version(), "machine": platform.machine()}
    path.write_text(json.dumps({**facts, "rows": rows}, indent=2) + "\n")
    print(f"kept in {path}")


if __name__ == "__main__":
    sys.exit(main())
