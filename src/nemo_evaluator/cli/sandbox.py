"""``nel sandbox``: list and clean up the sandboxes on this machine."""

import asyncio
from dataclasses import asdict

import click

from nemo_evaluator.cli._options import option, show_table
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.wording import counted
from nemo_evaluator.sandbox.inventory import find_sandboxes, remove_sandboxes, sweep


@click.group()
def sandbox() -> None:
    """List and clean up the sandboxes on this machine."""


@sandbox.command("ls")
@option("--json", "as_json", is_flag=True, help="Output one JSON object per line.")
def list_sandboxes(as_json: bool) -> None:
    """List sandboxes of every type, with the run and process that own them."""
    sandboxes = asyncio.run(find_sandboxes())
    if as_json:
        for entry in sandboxes:
            facts = {name: value for name, value in asdict(entry).items() if name != "handle"}
            click.echo(dumps(facts | {"age_s": round(entry.age_s, 1)}))
        return
    states = {True: "orphan", False: "in use"}
    rows: list[tuple[str, str, str, str, str, str]] = []
    for entry in sandboxes:
        rows.append(
            (
                entry.kind,
                entry.name,
                entry.run_id,
                entry.owner,
                f"{entry.age_s:.0f} s",
                states[entry.orphan],
            )
        )
    if not rows:
        click.echo("no sandboxes")
        return
    show_table([("KIND", "NAME", "RUN", "OWNER", "AGE", "STATE"), *rows], narrow=(1,))


@sandbox.command("gc")
@option(
    "--all", "everything", is_flag=True, help="Also remove sandboxes whose run is still active."
)
def gc(everything: bool) -> None:
    """Remove sandboxes whose run has ended."""
    removable = [entry for entry in asyncio.run(find_sandboxes()) if everything or entry.orphan]
    removed = asyncio.run(remove_sandboxes(removable))
    traces = sweep()
    if traces:
        traces_text = f" and {counted(traces, 'trace')} of others"
    else:
        traces_text = ""
    click.echo(f"removed {len(removed)} of {len(removable)} sandboxes{traces_text}")
    if len(removed) < len(removable):
        raise SystemExit(2)
