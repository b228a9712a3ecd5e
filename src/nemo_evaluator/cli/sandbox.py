"""``nel sandbox``: sandboxes on this machine."""

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
    found = asyncio.run(find_sandboxes())
    if as_json:
        for one in found:
            facts = {name: value for name, value in asdict(one).items() if name != "handle"}
            click.echo(dumps(facts | {"age_s": round(one.age_s, 1)}))
        return
    states = {True: "orphan", False: "in use"}
    rows: list[tuple[str, str, str, str, str, str]] = []
    for one in found:
        rows.append(
            (one.kind, one.name, one.run_id, one.owner, f"{one.age_s:.0f} s", states[one.orphan])
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
    found = [one for one in asyncio.run(find_sandboxes()) if everything or one.orphan]
    removed = asyncio.run(remove_sandboxes(found))
    traces = sweep()
    if traces:
        others = f" and {counted(traces, 'trace')} of others"
    else:
        others = ""
    click.echo(f"removed {len(removed)} of {len(found)} sandboxes{others}")
    if len(removed) < len(found):
        raise SystemExit(2)
