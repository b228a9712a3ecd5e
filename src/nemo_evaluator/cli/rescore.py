"""``nel eval rescore``: other scorers or judges on stored answers."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from nemo_evaluator.cli._complete import run_ids
from nemo_evaluator.config import LoadedConfig, check_runtime, load_config, write_snapshot
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import harmless, terminal_width
from nemo_evaluator.store.lock import folder_lock
from nemo_evaluator.store.runs import RunMeta, find_run, new_run_id, places, run_in, summary_of
from nemo_evaluator.suite.console import Console
from nemo_evaluator.suite.names import check_names
from nemo_evaluator.suite.rescore import RescoreOptions
from nemo_evaluator.suite.rescore import rescore as rescore_run
from nemo_evaluator.suite.summary import summary_json, summary_text


@click.command()
@click.argument("run", metavar="RUN", shell_complete=run_ids)
@click.option(
    "--override", "-O", multiple=True, metavar="KEY=VALUE", help="Set a value of the run's config; repeatable."
)
@click.option("--output-dir", "-o", help="Where the new verdicts go (default: beside the run, RUN-rescored).")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on stdout.")
@click.option("--no-progress", is_flag=True, help="No progress lines.")
@click.pass_context
def rescore(
    ctx: click.Context, run: str, override: tuple[str, ...], output_dir: str | None, as_json: bool, no_progress: bool
) -> None:
    """Score the answers of RUN (a run id, or its output folder) again, without asking the model.

    Only `scoring:` (and what a benchmark's own scorer does) may differ from the run; everything else must be the same.
    The old run stays as it is; each new bundle names the old one.
    """
    source = _find(run)
    target = Path(output_dir).resolve() if output_dir else _beside(source.folder)
    if source.cwd is not None:
        os.chdir(source.cwd)
    loaded = load_config(
        source.folder / "full_config.yaml", list(override), output_dir=target, folder=source.config_dir
    )
    check_runtime(loaded.config, document=loaded.document)
    check_names(loaded.config, document=loaded.document)
    meta = _meta(loaded, target, source)
    with folder_lock(target, run_id=meta.run_id):
        ctx.exit(_rescore(loaded, source, target, meta, as_json=as_json, no_progress=no_progress))


def _rescore(
    loaded: LoadedConfig, source: _Source, target: Path, meta: RunMeta, *, as_json: bool, no_progress: bool
) -> int:
    write_snapshot(loaded, target, run_id=meta.run_id, command=["nel", *sys.argv[1:]])
    meta.save()
    interval = loaded.config.output.progress_interval
    console = Console(target, as_json=as_json, quiet=no_progress, interval=interval, append=False)
    options = RescoreOptions(
        source=source.folder,
        output_dir=target,
        run_id=meta.run_id,
        source_run_id=source.run_id,
        progress=console.progress(),
        say=console.say,
    )
    result = asyncio.run(rescore_run(loaded.config, options))
    text = harmless(summary_text(result, target, width=terminal_width()))
    click.echo(dumps(summary_json(result, target)).decode() if as_json else text)
    console.close()
    return result.exit_code


class _Source:
    """The run whose answers are scored again."""

    def __init__(self, folder: Path, meta: RunMeta | None) -> None:
        self.folder = folder.resolve()
        self.run_id = meta.run_id if meta else ""
        self.cwd, self.config_dir = (meta.place("cwd"), meta.place("config_dir")) if meta else (None, None)


def _find(run: str) -> _Source:
    folder = Path(run)
    if folder.is_dir():
        source = _Source(folder, run_in(folder))
    else:
        meta = find_run(run)
        source = _Source(Path(meta.output_dir), meta)
    if not (source.folder / "full_config.yaml").is_file():
        raise UsageError(
            f"{source.folder} has no full_config.yaml", hint="RUN is a run id or the output folder of a run"
        )
    return source


def _beside(folder: Path) -> Path:
    target, number = folder.with_name(f"{folder.name}-rescored"), 1
    while target.exists():
        number += 1
        target = folder.with_name(f"{folder.name}-rescored-{number}")
    return target


def _meta(loaded: LoadedConfig, target: Path, source: _Source) -> RunMeta:
    names = [bench.name for bench in loaded.config.benchmarks]
    return RunMeta(
        run_id=new_run_id(),
        executor="local",
        output_dir=str(target),
        started_at=datetime.now(UTC).isoformat(),
        config_summary=summary_of(names),
        details=places(target, cwd=Path.cwd(), config_dir=source.config_dir or Path.cwd()),
    )
