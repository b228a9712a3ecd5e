"""``nel recipe``: how named benchmarks are usually run."""

from dataclasses import asdict

import click

from nemo_evaluator.assistant.recipes import find_recipe, recipes, render
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import table, terminal_width


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def recipe(name: str | None, as_json: bool) -> None:
    """Show a benchmark's usual repeats, limits and needs, as a config entry; without NAME, list all recipes."""
    chosen = [find_recipe(name)] if name else list(recipes().values())
    if as_json:
        data = [{**asdict(one), "benchmark": one.benchmark} for one in chosen]
        click.echo(dumps(data[0] if name else data, indent=True))
        return
    if not name:
        rows = [(one.name, str(one.repeats), one.damage, ", ".join(one.needs) or "-", one.title) for one in chosen]
        head = ("RECIPE", "REPEATS", "SHOWS QUANTIZATION DAMAGE", "NEEDS", "WHAT")
        click.echo("\n".join(table([head, *rows], terminal_width(), narrow=(3, 4))))
        return
    click.echo(render("recipe.txt.j2", **asdict(chosen[0])))
