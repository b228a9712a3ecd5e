"""``nel recipe`` and ``nel inspect-model``: how benchmarks are usually run, and how to serve a checkpoint."""

from dataclasses import asdict, fields
from pathlib import Path

import click

from nemo_evaluator.assistant.checkpoint import find_checkpoint, read_checkpoint
from nemo_evaluator.assistant.recipes import Recipe, find_recipe, recipes, render
from nemo_evaluator.assistant.serving import advise, apply_advice
from nemo_evaluator.cli._options import option, show_table
from nemo_evaluator.core.files import dumps, write_atomic
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.core.types import JsonDict


@click.command()
@click.argument("name", required=False)
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def recipe(name: str | None, as_json: bool) -> None:
    """Show a benchmark's usual repeats, limits and needs, as a config entry; without NAME, list all recipes."""
    if name:
        chosen_recipe = find_recipe(name)
        if as_json:
            click.echo(dumps(_document(chosen_recipe), indent=True))
        else:
            click.echo(render("recipe.txt.j2", **asdict(chosen_recipe)))
        return
    if as_json:
        click.echo(dumps([_document(recipe) for recipe in recipes().values()], indent=True))
        return
    rows = [("RECIPE", "REPEATS", "SHOWS QUANTIZATION DAMAGE", "NEEDS", "WHAT")]
    for listed_recipe in recipes().values():
        row = (
            listed_recipe.name,
            str(listed_recipe.repeats),
            listed_recipe.damage,
            ", ".join(listed_recipe.needs) or "-",
            listed_recipe.title,
        )
        rows.append(row)
    show_table(rows, narrow=(3, 4))


def _document(recipe: Recipe) -> JsonDict:
    """Return a recipe as JSON data."""
    return asdict(recipe) | {"benchmark": recipe.benchmark}


@click.command(name="inspect-model")
@click.argument("model", metavar="PATH|HANDLE")
@option("--gpus", type=click.IntRange(1), default=1, help="Number of GPUs that the server may use.")
@option("--gpu-memory", type=click.FloatRange(1), default=80.0, help="Memory of one GPU, in GB.")
@option("--json", "as_json", is_flag=True, help="Output JSON.")
@option(
    "--apply",
    "config",
    type=click.Path(dir_okay=False, exists=True),
    help="Write the findings into this config.",
)
def inspect_model(
    model: str, gpus: int, gpu_memory: float, as_json: bool, config: str | None
) -> None:
    """Show a checkpoint's quantization, context, sizes, parsers, flags and benchmarks, from its files alone.

    nel executes no code of the checkpoint, and looks for a hub name (ORG/NAME) only in the local Hugging Face cache.
    """
    folder = find_checkpoint(model)
    is_hub_name = not Path(model).expanduser().exists()
    hub_name = model if is_hub_name else None
    advice = advise(read_checkpoint(folder, hub_name), gpus, gpu_memory)
    changed: list[str] = []
    if config is not None:
        path = Path(config)
        served_model = hub_name or str(folder.resolve())
        text, changed = apply_advice(path.read_text(encoding="utf-8"), advice, served_model)
        write_atomic(path, text.encode())
    if as_json:
        click.echo(dumps(asdict(advice) | {"changed": changed}, indent=True))
        return
    # Not ``asdict``: the template uses properties of the parts.
    values: JsonDict = {field.name: getattr(advice, field.name) for field in fields(advice)}
    values["benchmarks"] = [_with_damage(name) for name in advice.benchmarks]
    values["changed"] = changed
    values["config"] = config
    click.echo(harmless(render("inspect.txt.j2", **values)))


def _with_damage(benchmark: str) -> str:
    """Name a benchmark, with how well it shows quantization damage if a recipe says so."""
    if benchmark in recipes():
        return f"{benchmark} ({recipes()[benchmark].damage})"
    return benchmark
