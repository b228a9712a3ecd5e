"""``nel eval merge``: merge the shards of a run."""

from __future__ import annotations

from pathlib import Path

import click

from nemo_evaluator.cli.eval._select import run_selectors
from nemo_evaluator.core.files import dumps
from nemo_evaluator.engine.merge import merge_shards
from nemo_evaluator.executors.summary import headline
from nemo_evaluator.store.runs import find_run


@click.command()
@click.argument("folder", required=False, type=click.Path(file_okay=False))
@run_selectors
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def merge(folder: str | None, run_id: str | None, output_dir: str | None, as_json: bool) -> None:
    """Merge the shard_*/ folders of FOLDER into what one run would have written. The shards are not changed."""
    root = Path(folder or output_dir or (find_run(run_id).output_dir if run_id else "eval_results"))
    merged = merge_shards(root)
    if as_json:
        click.echo(dumps(merged).decode())
        return
    for bundle in merged:
        found = headline(bundle)
        name = bundle["benchmark"]["name"]
        score = f"{found[0]}={found[1]['value']:.4f}" if found else "nothing scored"
        click.echo(f"{name}: {score} ({bundle['validity']['status']}, {bundle['config']['n_shards']} shards)")
        for reason in bundle["validity"]["reasons"]:
            click.echo(f"  {reason}")
