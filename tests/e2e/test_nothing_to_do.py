"""A resume that has nothing to do: the files stay as they are, and what was changed or lost is written again."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from nel_support import NEL, Nel, Serve, Sums, api, bench

# Libraries, and rooms of ours, that a run needs only for what it has to do.
_HEAVY = (
    *(
        "numpy",
        "scipy",
        "jinja2",
        "rich",
        "aiohttp",
        "starlette",
        "datasets",
        "tarfile",
        "urllib.request",
    ),
    *(
        "nemo_evaluator.sandbox.manager",
        "nemo_evaluator.sandbox._backend",
        "nemo_evaluator.datasets.hub",
    ),
    *(
        "nemo_evaluator.adapters.proxy",
        "nemo_evaluator.statistics",
        "nemo_evaluator.reports.documents",
    ),
    *("nemo_evaluator.services.servers", "nemo_evaluator.servers.life"),
    *("nemo_evaluator.config.managed_service", "nemo_evaluator.config.user_settings_schema"),
    *("nemo_evaluator.runs.index", "nemo_evaluator.engine.batch", "nemo_evaluator.engine.loop"),
    *("nemo_evaluator.adapters.interceptors.caching", "encodings.idna"),
)


def _files(folder: Path) -> dict[Path, bytes]:
    views = (
        "results.jsonl",
        "trajectories.jsonl",
        "journal.jsonl",
        "report.md",
        "runtime_stats.json",
    )
    found = [path for name in (*views, "eval-*.json") for path in folder.rglob(name)]
    return {path: path.read_bytes() for path in found}


def _ran(nel: Nel, serve: Serve, sums: Sums, **more: object) -> str:
    parts = {"services": {"model": api(serve("6").url)}, "output": {"dir": "o"}}
    config = nel.config("c.yaml", **parts, benchmarks=[bench(sums(4), **more)])
    nel("eval", "run", config)
    return config


def test_files_stay_and_statistics_are_not_loaded(nel: Nel, serve: Serve, sums: Sums) -> None:
    config = _ran(nel, serve, sums)
    before = _files(nel.folder / "o")
    said = nel("eval", "run", config, "--resume")
    assert "VALID" in said.stdout and "report.md" in said.stdout
    assert _files(nel.folder / "o") == before
    # Not by importtime, which does not see what is loaded by name.
    code = f"""
import atexit, runpy, sys
atexit.register(lambda: print(*sys.modules, sep="\\n"))
sys.argv = ["nel", "eval", "run", {config!r}, "--resume", "--no-progress"]
runpy.run_path({str(NEL)!r}, run_name="__main__")
"""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=nel.folder,
        env=nel.env,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = set(ran.stdout.split())
    assert "nemo_evaluator.engine.evaluation" in modules
    assert not modules.intersection(_HEAVY)


def _edited(folder: Path) -> None:
    path = folder / "sums" / "results.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"reward":', b'"rewarb":', 1))


def _longer_journal(folder: Path) -> None:
    path = folder / "sums" / "journal.jsonl"
    with path.open("ab") as file:
        file.write(b'{"kind":"run"}\n')


@pytest.mark.parametrize(
    "change",
    [
        _edited,
        lambda folder: (folder / "sums" / "trajectories.jsonl").unlink(),
        lambda folder: (folder / "sums" / "SHA256SUMS").unlink(),
        _longer_journal,
    ],
)
def test_a_benchmark_whose_files_changed_is_written_again(
    nel: Nel, serve: Serve, sums: Sums, change: Callable[[Path], None]
) -> None:
    config = _ran(nel, serve, sums)
    folder = nel.folder / "o"
    results = (folder / "sums" / "results.jsonl").read_bytes()
    (old,) = (folder / "sums").glob("eval-*.json")
    before = old.stat().st_mtime_ns
    change(folder)
    nel("eval", "run", config, "--resume")
    assert (folder / "sums" / "results.jsonl").read_bytes() == results
    assert (folder / "sums" / "trajectories.jsonl").is_file()
    (new,) = (folder / "sums").glob("eval-*.json")
    assert new.stat().st_mtime_ns > before
    assert nel("check", "o").returncode == 0


def test_a_changed_setting_makes_a_new_bundle(nel: Nel, serve: Serve, sums: Sums) -> None:
    config = _ran(nel, serve, sums)
    nel("eval", "run", config, "--resume", "-O", "benchmarks.0.min_coverage=0.5")
    (bundle,) = (nel.folder / "o" / "sums").glob("eval-*.json")
    assert '"min_coverage": 0.5' in bundle.read_text()


@pytest.mark.parametrize("lost", ["report.md", "SHA256SUMS"])
def test_a_report_that_is_missing_or_unrecorded_is_written_again(
    nel: Nel, serve: Serve, sums: Sums, lost: str
) -> None:
    config = _ran(nel, serve, sums)
    report = nel.folder / "o" / "report.md"
    text = report.read_text()
    (nel.folder / "o" / lost).unlink()
    if lost != "report.md":
        report.write_text("changed")
    nel("eval", "run", config, "--resume")
    assert report.read_text() == text


def test_a_report_in_another_format_and_of_other_bundles_is_written(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    config = _ran(nel, serve, sums)
    folder = nel.folder / "o"
    nel("eval", "run", config, "--resume", "-O", "output.report=[csv]")
    assert (folder / "report.csv").is_file()
    shutil.copytree(folder / "sums", folder / "other")
    nel("eval", "run", config, "--resume", "-O", "output.report=[csv]")
    assert len((folder / "report.csv").read_text().splitlines()) > 2
