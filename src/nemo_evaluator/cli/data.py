"""``nel data``: dataset mirrors for machines without a network, and the dataset lock."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from nemo_evaluator.cli._options import JSON, PATH, option
from nemo_evaluator.core.errors import EXIT_FAILED, EXIT_OK, UsageError
from nemo_evaluator.core.wording import counted
from nemo_evaluator.datasets import Opened, recording
from nemo_evaluator.datasets.lock import forget, read_lock
from nemo_evaluator.datasets.mirror import Mirror, fill
from nemo_evaluator.datasets.settings import lock_file
from nemo_evaluator.environments.registry import environment_class, get_environment


@click.group()
def data() -> None:
    """Fill and check a dataset mirror; show and update the dataset lock."""


@data.command("mirror")
@click.argument("benchmarks", nargs=-1, required=True)
@option("--to", "folder", type=PATH, required=True, help="Folder of the mirror.")
@JSON
def mirror(benchmarks: tuple[str, ...], folder: Path, as_json: bool) -> None:
    """Fetch the datasets of BENCHMARKS into a folder.

    On a machine without a network, point NEL_DATA_MIRROR (or `datasets.mirror` of a config) at that folder.
    """
    opened: list[Opened] = []
    for name in benchmarks:
        opened.extend(_datasets_of(name))
    if not opened:
        names = ", ".join(benchmarks)
        raise UsageError(f"{names}: nothing to mirror, the rows are on this machine already")
    entries = fill(folder, opened)
    if as_json:
        click.echo(json.dumps([asdict(entry) for entry in entries], indent=2))
        return
    for entry in entries:
        config = f" config={entry.config}" if entry.config else ""
        dataset = f"{entry.dataset}{config} split={entry.split}"
        click.echo(f"{dataset}: {entry.rows:,} rows -> {entry.file}")
    click.echo(f"\nUse it with: export NEL_DATA_MIRROR={folder.absolute()}")


def _datasets_of(name: str) -> list[Opened]:
    """Return the datasets that a benchmark opens, including its few-shot split."""
    definition = getattr(environment_class(name), "definition", None)
    with recording() as datasets:
        get_environment(name, num_fewshot=0 if definition and definition.fewshot else None)
    if definition and (definition.fewshot_split or definition.fewshot_dataset):
        with recording() as examples:
            try:
                get_environment(name, num_fewshot=1)
            except UsageError as error:
                # The test split is essential; few-shot examples are optional.
                click.echo(f"{name}: without few-shot examples: {error.message}", err=True)
        datasets += examples
    return datasets


@data.command("verify")
@click.argument("folder", type=PATH)
@JSON
@click.pass_context
def verify(ctx: click.Context, folder: Path, as_json: bool) -> None:
    """Check every file of a mirror against its index: present, intact, and with the right number of rows.

    Exit codes: 0 all files match, 2 some do not.
    """
    mirrored = Mirror.read(folder)
    problems = mirrored.verify()
    file_count = len(mirrored.entries)
    if as_json:
        click.echo(json.dumps({"files": file_count, "problems": problems}, indent=2))
    else:
        for problem in problems:
            click.echo(problem, err=True)
        intact_count = file_count - len(problems)
        click.echo(f"{intact_count} of {counted(file_count, 'file')} match the index")
    ctx.exit(EXIT_FAILED if problems else EXIT_OK)


@data.command("lock")
@JSON
def lock(as_json: bool) -> None:
    """Print the lock in force: each dataset's revision and content hash at first use."""
    entries = read_lock()
    if as_json:
        click.echo(json.dumps({key: asdict(entry) for key, entry in entries.items()}, indent=2))
        return
    click.echo(lock_file())
    for key, entry in entries.items():
        revision = f"revision {entry.revision or '-'}"
        click.echo(f"  {key}  {entry.rows:,} rows  {entry.sha256[:12]}  {revision}")


@data.command("update")
@click.argument("datasets", nargs=-1, required=True)
@JSON
def update(datasets: tuple[str, ...], as_json: bool) -> None:
    """Remove DATASETS (keys of `nel data lock`, or the start of one) from the lock; the next use locks the newest."""
    key_starts = tuple(dataset.removeprefix("hf://") for dataset in datasets)
    keys = {key for key in read_lock() if key.removeprefix("hf://").startswith(key_starts)}
    if not keys:
        hint = "`nel data lock` shows the keys"
        raise UsageError(f"nothing in the lock begins with {', '.join(datasets)}", hint=hint)
    dropped = forget(keys)
    if as_json:
        click.echo(json.dumps(dropped))
    else:
        for key in dropped:
            click.echo(f"dropped {key}")
