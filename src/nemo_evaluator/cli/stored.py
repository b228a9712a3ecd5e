"""``nel eval merge`` and ``nel eval rescore``: new runs from stored answers."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nemo_evaluator.cli._options import option, run_ids, say
from nemo_evaluator.cli.runs import run_options
from nemo_evaluator.config import SNAPSHOT, LoadedConfig, load_config, write_snapshot
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import harmless, one_line, terminal_width
from nemo_evaluator.preflight import find_problems
from nemo_evaluator.store.lock import folder_lock
from nemo_evaluator.store.run_registry import (
    RunMeta,
    find_run,
    new_run_id,
    places,
    run_in,
    summary_of,
)
from nemo_evaluator.suite.console import Console
from nemo_evaluator.suite.merge import merge_run
from nemo_evaluator.suite.rescore import rescore as rescore_run
from nemo_evaluator.suite.results import SuiteOptions
from nemo_evaluator.suite.summary import headline, summary_json, summary_text

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import BundleDocument


@click.command()
@click.argument("folder", required=False, type=click.Path(file_okay=False))
@run_options
@option(
    "--repeats",
    "-n",
    type=int,
    help="Expected number of repeats; nel refuses shards with another number.",
)
@option("--json", "as_json", is_flag=True, help="Output JSON.")
@click.pass_context
def merge(
    ctx: click.Context,
    folder: str | None,
    run_id: str | None,
    output_dir: str | None,
    repeats: int | None,
    as_json: bool,
) -> None:
    """Merge the shard_*/ folders of FOLDER into the output of one run. The shards stay unchanged.

    nel then writes the reports and exports of the shards' config. Exit codes: 0 done, 2 a strict export failed,
    3 a merged benchmark is INVALID (shards are missing, or too few rows are scored).
    """
    root = Path(folder or output_dir or "eval_results")
    if run_id and not folder and not output_dir:
        # If the run id names a shard, the folder above it is merged.
        run_folder = Path(find_run(run_id).output_dir)
        if run_folder.name.startswith("shard_"):
            root = run_folder.parent
        else:
            root = run_folder
    merged = merge_run(root, repeats=repeats, say=say)
    bundles = [benchmark.bundle for benchmark in merged.benchmarks if benchmark.bundle is not None]
    if as_json:
        click.echo(dumps(bundles).decode())
    else:
        for bundle in bundles:
            _tell(bundle)
    ctx.exit(merged.exit_code)


def _tell(bundle: BundleDocument) -> None:
    """Print the merged score of one benchmark, its status and the reasons."""
    score_text = "nothing scored"
    score = headline(bundle)
    if score is not None:
        score_text = f"{score.name}={score.value:.4f}"
    validity = bundle["validity"]
    click.echo(
        f"{bundle['benchmark']['name']}: {score_text} ({validity['status']}, {bundle['config']['n_shards']} shards)"
    )
    for reason in validity["reasons"]:
        click.echo(f"  {one_line(reason)}")
    unmerged_scores = bundle.get("scores_not_merged")
    if unmerged_scores:
        click.echo(f"  not computed over all shards: {', '.join(unmerged_scores)}")


@click.command()
@click.argument("run", metavar="RUN", shell_complete=run_ids)
@option(
    "--override",
    "-O",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a value of the run's config; repeatable.",
)
@option(
    "--output-dir",
    "-o",
    help="Folder for the new verdicts [default: RUN-rescored, next to the run].",
)
@option("--json", "as_json", is_flag=True, help="Output JSON.")
@option("--no-progress", is_flag=True, help="Print no progress lines.")
@click.pass_context
def rescore(
    ctx: click.Context,
    run: str,
    override: tuple[str, ...],
    output_dir: str | None,
    as_json: bool,
    no_progress: bool,
) -> None:
    """Score the answers of RUN (a run id or output folder) again, without calling the model.

    Only `scoring:` (and the benchmark's own scorer) may differ from the run. The old run stays unchanged; each new
    bundle names the old one.
    """
    source, old_run = _stored_run(run)
    target = Path(output_dir).resolve() if output_dir else _beside(source)
    old_run_id = ""
    config_dir = None
    if old_run is not None:
        old_run_id = old_run.run_id
        config_dir = old_run.place("config_dir")
        cwd = old_run.place("cwd")
        if cwd is not None:
            os.chdir(cwd)
    loaded = load_config(source / SNAPSHOT, list(override), output_dir=target, folder=config_dir)
    loaded.refuse(find_problems(loaded, file_only=True))
    new_run = RunMeta(
        run_id=new_run_id(),
        executor="local",
        output_dir=str(target),
        started_at=datetime.now(UTC).isoformat(),
        config_summary=summary_of([bench.name for bench in loaded.config.benchmarks]),
        details=places(target, cwd=Path.cwd(), config_dir=config_dir or Path.cwd()),
    )
    with folder_lock(target, run_id=new_run.run_id):
        exit_code = _rescore(
            loaded,
            new_run,
            source,
            earlier=old_run_id,
            as_json=as_json,
            no_progress=no_progress,
        )
    ctx.exit(exit_code)


def _stored_run(run: str) -> tuple[Path, RunMeta | None]:
    """Return the folder of a run, and its registry entry if it has one.

    Args:
        run: A run id or the output folder of a run.

    Raises:
        UsageError: If there is no such run, or its folder has no snapshot of its config.
    """
    path = Path(run)
    if path.is_dir():
        meta = run_in(path)
        source = path.resolve()
    else:
        meta = find_run(run)
        source = Path(meta.output_dir).resolve()
    if not (source / SNAPSHOT).is_file():
        raise UsageError(
            f"{source} has no {SNAPSHOT}", hint="RUN is a run id or the output folder of a run"
        )
    return source, meta


def _rescore(
    loaded: LoadedConfig,
    meta: RunMeta,
    source: Path,
    earlier: str,
    *,
    as_json: bool,
    no_progress: bool,
) -> int:
    """Score the stored answers again into a new run folder; returns the exit code."""
    target = Path(meta.output_dir)
    interval = loaded.config.output.progress_interval
    write_snapshot(loaded, target, run_id=meta.run_id, command=["nel", *sys.argv[1:]])
    meta.save()
    console = Console(target, as_json=as_json, quiet=no_progress, interval=interval, append=False)
    options = SuiteOptions(
        target, meta.run_id, resume=True, progress=console.progress, say=console.say
    )
    result = asyncio.run(rescore_run(loaded.config, options, source, source_run_id=earlier))
    text = harmless(summary_text(result, target, width=terminal_width()))
    click.echo(dumps(summary_json(result, target)).decode() if as_json else text)
    console.close()
    return result.exit_code


def _beside(folder: Path) -> Path:
    """Return a free folder name for a rescored run, next to the run."""
    target = folder.with_name(f"{folder.name}-rescored")
    number = 1
    while target.exists():
        number += 1
        target = folder.with_name(f"{folder.name}-rescored-{number}")
    return target
