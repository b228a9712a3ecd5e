"""``nel recipe`` and ``nel inspect-model``: how benchmarks are usually run, and how to serve a checkpoint."""

from dataclasses import asdict, fields
from pathlib import Path

import click

from nemo_evaluator.assistant.apply_advice import apply_advice
from nemo_evaluator.assistant.checkpoint import find_checkpoint, read_checkpoint
from nemo_evaluator.assistant.recipes import Recipe, find_recipe, recipes, render
from nemo_evaluator.assistant.serving import Advice, advise
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
        _show_recipe(find_recipe(name), as_json=as_json)
    else:
        _show_recipes(as_json=as_json)


def _show_recipe(recipe: Recipe, *, as_json: bool) -> None:
    """Print one recipe."""
    if as_json:
        click.echo(dumps(_document(recipe), indent=True))
    else:
        click.echo(render("recipe.txt.j2", **asdict(recipe)))


def _show_recipes(*, as_json: bool) -> None:
    """Print all recipes, as a table or as JSON."""
    if as_json:
        documents = [_document(recipe) for recipe in recipes().values()]
        click.echo(dumps(documents, indent=True))
        return
    rows = [("RECIPE", "REPEATS", "SHOWS QUANTIZATION DAMAGE", "NEEDS", "WHAT")]
    for recipe in recipes().values():
        needs = ", ".join(recipe.needs) or "-"
        rows.append((recipe.name, str(recipe.repeats), recipe.damage, needs, recipe.title))
    needs_column = 3
    title_column = 4
    show_table(rows, narrow=(needs_column, title_column))


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
    checkpoint = read_checkpoint(folder, hub_name)
    advice = advise(checkpoint, gpus, gpu_memory)
    changed: list[str] = []
    if config is not None:
        served_model = hub_name or str(folder.resolve())
        changed = _change_config(Path(config), advice, served_model)
    if as_json:
        click.echo(dumps(asdict(advice) | {"changed": changed}, indent=True))
    else:
        click.echo(harmless(_advice_text(advice, changed, config)))


def _change_config(file: Path, advice: Advice, served_model: str) -> list[str]:
    """Write the advice into a config file.

    Args:
        file: The config.
        advice: The advice.
        served_model: The model to serve, if the config does not name one.

    Returns:
        One line for each changed value.
    """
    text = file.read_text(encoding="utf-8")
    changed_text, changed = apply_advice(text, advice, served_model)
    write_atomic(file, changed_text.encode())
    return changed


def _advice_text(advice: Advice, changed: list[str], config: str | None) -> str:
    """Render the advice for a person.

    Args:
        advice: The advice.
        changed: One line for each value that was changed in the config.
        config: The config that was changed, if any.
    """
    # Not ``asdict``: the template uses properties of the parts.
    values: JsonDict = {field.name: getattr(advice, field.name) for field in fields(advice)}
    values["benchmarks"] = [_with_damage(name) for name in advice.benchmarks]
    values["changed"] = changed
    values["config"] = config
    return render("inspect.txt.j2", **values)


def _with_damage(benchmark: str) -> str:
    """Name a benchmark, with how well it shows quantization damage if a recipe says so."""
    recipe = recipes().get(benchmark)
    if recipe is None:
        return benchmark
    return f"{benchmark} ({recipe.damage})"
