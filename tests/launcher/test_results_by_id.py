"""Ids in the place of folders: export, check and compare of finished runs."""

from __future__ import annotations

import json
import re

from nel_support import Nel, Serve, api, bench


def test_ids_name_runs_and_jobs(nel: Nel, serve: Serve) -> None:
    nel.env |= {"XDG_DATA_HOME": str(nel.folder / "data")}
    config = nel.config(
        "c.yaml",
        services={"model": api(serve("6").url)},
        benchmarks=[bench("quickstart", max_problems=3)],
    )
    ids: list[str] = []
    for folder in ("jobs/first", "jobs/second"):
        nel("eval", "run", config, "-o", folder, code=None)
        listed = json.loads(nel("eval", "runs", "--json").stdout)
        ids.append(listed[0]["run_id"])
    first, second = ids
    folder = str(nel.folder / "jobs" / "first")
    by_path = json.loads(nel("check", folder, "--json", code=None).stdout)
    assert json.loads(nel("check", first, "--json", code=None).stdout) == by_path
    job = json.loads(nel("status", first, "--json").stdout)[0]["job_id"]
    assert json.loads(nel("check", job, "--json", code=None).stdout) == by_path
    compared = json.loads(nel("compare", first, second, "--json", "--no-report", code=None).stdout)
    again = json.loads(
        nel("compare", "jobs/first", "jobs/second", "--json", "--no-report", code=None).stdout
    )
    assert compared.keys() == again.keys() and compared["verdict"] == again["verdict"]
    written = nel("export", first, "--log-metrics", "coverage", "--copy-logs").stdout.splitlines()
    assert written[0].startswith("nemo-evaluator-launcher-results/")
    document = json.loads((nel.folder / written[0]).read_text())
    assert list(document["benchmarks"][0]["metrics"]) == ["coverage"]
    assert list(nel.folder.glob("nemo-evaluator-launcher-results/**/nel_eval.log"))


def test_runs_that_the_machine_has_no_record_of_are_found_in_a_folder(
    nel: Nel, serve: Serve
) -> None:
    nel.env |= {"XDG_DATA_HOME": str(nel.folder / "data")}
    config = nel.config(
        "c.yaml",
        services={"model": api(serve("6").url)},
        benchmarks=[bench("quickstart", max_problems=2)],
    )
    nel("eval", "run", config, "-o", "jobs/20261119_120000-0123abcd", code=None)
    nel.env |= {"XDG_DATA_HOME": str(nel.folder / "elsewhere")}
    words = ["export", "0123abcd", "--format", "csv", "-fname", "x.csv", "--output-dir", "out"]
    error = nel(*words, code=1).stderr
    assert "0123abcd" in error
    written = nel(*words, "--job-dirs", "jobs").stdout.splitlines()
    assert re.fullmatch(r"out/\S+/quickstart/x\.csv", written[0])
