"""``nel recipe`` and ``nel inspect-model``: how benchmarks are usually run, and how to serve a checkpoint."""

from dataclasses import asdict, fields
from pathlib import Path

import click

from nemo_evaluator.assistant.checkpoint import find_checkpoint, read_checkpoint
from nemo_evaluator.assistant.recipes import find_recipe, recipes, render
from nemo_evaluator.assistant.serving import advise, apply_advice
from nemo_evaluator.cli._options import option, show_table
from nemo_evaluator.core.files import dumps, write_atomic
from nemo_evaluator.core.terminal import harmless


@click.command()
@click.argument("name", required=False)
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def recipe(name: str | None, as_json: bool) -> None:
    """Show a benchmark's usual repeats, limits and needs, as a config entry; without NAME, list all recipes."""
    if name:
        chosen_recipes = [find_recipe(name)]
    else:
        chosen_recipes = list(recipes().values())
    if as_json:
        data = [
            {**asdict(chosen_recipe), "benchmark": chosen_recipe.benchmark}
            for chosen_recipe in chosen_recipes
        ]
        click.echo(dumps(data[0] if name else data, indent=True))
        return
    if not name:
        rows: list[tuple[str, str, str, str, str]] = []
        for chosen_recipe in chosen_recipes:
            rows.append(
                (
                    chosen_recipe.name,
                    str(chosen_recipe.repeats),
                    chosen_recipe.damage,
                    ", ".join(chosen_recipe.needs) or "-",
                    chosen_recipe.title,
                )
            )
        header = ("RECIPE", "REPEATS", "SHOWS QUANTIZATION DAMAGE", "NEEDS", "WHAT")
        show_table([header, *rows], narrow=(3, 4))
        return
    click.echo(render("recipe.txt.j2", **asdict(chosen_recipes[0])))


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
    if not Path(model).expanduser().exists():
        model_name: str | None = model
    else:
        model_name = None
    advice = advise(read_checkpoint(folder, model_name), gpus, gpu_memory)
    changed: list[str] = []
    if config is not None:
        path = Path(config)
        served_model = model_name or str(folder.resolve())
        text, changed = apply_advice(path.read_text(encoding="utf-8"), advice, served_model)
        write_atomic(path, text.encode())
    if as_json:
        click.echo(dumps(asdict(advice) | {"changed": changed}, indent=True))
    else:
        benchmark_lines: list[str] = []
        for name in advice.benchmarks:
            benchmark_lines.append(
                f"{name} ({recipes()[name].damage})" if name in recipes() else name
            )
        facts = {field.name: getattr(advice, field.name) for field in fields(advice)} | {
            "benchmarks": benchmark_lines
        }
        click.echo(harmless(render("inspect.txt.j2", **facts, changed=changed, config=config)))
