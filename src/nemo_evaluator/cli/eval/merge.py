"""``nel eval merge``: merge the shards of a run."""

from pathlib import Path

import click

from nemo_evaluator.cli.eval._select import run_options
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import one_line
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.store.runs import find_run
from nemo_evaluator.suite.merge import merge_run
from nemo_evaluator.suite.summary import headline


@click.command()
@click.argument("folder", required=False, type=click.Path(file_okay=False))
@run_options
@click.option("--repeats", "-n", type=int, help="How many repeats the shards have: refuses them when they do not.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_context
def merge(
    ctx: click.Context,
    folder: str | None,
    run_id: str | None,
    output_dir: str | None,
    repeats: int | None,
    as_json: bool,
) -> None:
    """Merge the shard_*/ folders of FOLDER into what one run would have written. The shards are not changed.

    Reports and exports of the shards' config are done for the whole. Exits with 3 when a merged benchmark is INVALID
    (shards are missing, or too few rows are scored), with 2 when a strict export failed.
    """
    root = Path(folder or output_dir or (_root_of(run_id) if run_id else "eval_results"))
    merged = merge_run(root, repeats=repeats, say=lambda line: click.echo(line, err=True))
    if as_json:
        click.echo(dumps(merged.bundles).decode())
    else:
        for bundle in merged.bundles:
            _tell(bundle)
    ctx.exit(merged.exit_code)


def _root_of(run_id: str) -> Path:
    """The folder above the shard that a run id names."""
    folder = Path(find_run(run_id).output_dir)
    return folder.parent if folder.name.startswith("shard_") else folder


def _tell(bundle: JsonDict) -> None:
    found = headline(bundle)
    score = f"{found[0]}={found[1]['value']:.4f}" if found else "nothing scored"
    validity = bundle["validity"]
    click.echo(f"{bundle['benchmark']['name']}: {score} ({validity['status']}, {bundle['config']['n_shards']} shards)")
    for reason in validity["reasons"]:
        click.echo(f"  {one_line(reason)}")
    if lost := bundle.get("scores_not_merged"):
        click.echo(f"  not computed over all shards: {', '.join(lost)}")
