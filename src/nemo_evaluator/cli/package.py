"""``nel package``: a container image with a benchmark of one's own inside."""

from pathlib import Path

import click

from nemo_evaluator.core.errors import UsageError

_PATH = click.Path(path_type=Path)


@click.command("package")
@click.option("--module", "-m", required=True, type=_PATH, help="The benchmark: a Python file, or a folder with it.")
@click.option("--tag", "-t", help="Name of the image (default: nel-NAME:latest).")
@click.option("--base-image", default="python:3.12-slim", show_default=True, help="Image with Python 3.11 or newer.")
@click.option("--requirements", type=_PATH, help="File with the libraries of the benchmark, for pip.")
@click.option("--push", is_flag=True, help="Push the image once it is built.")
@click.option("--output", "-o", type=_PATH, help="Only write the Dockerfile, to this file.")
def package(
    module: Path, tag: str | None, base_image: str, requirements: Path | None, push: bool, output: Path | None
) -> None:
    """Build a container image with nel and a benchmark inside.

    Files that the benchmark reads must lie in its folder: give the folder then. nel is installed unless the base
    image has it. Run it with `docker run IMAGE eval run --bench FILE ...`.
    """
    from nemo_evaluator.executors.benchmark_image import BenchmarkImage  # noqa: PLC0415 - only for this command

    image = BenchmarkImage(module.resolve(), base_image, requirements)
    if output is not None:
        if push:
            raise UsageError(
                "--push needs an image, and --output writes a Dockerfile only", hint="leave one of them out"
            )
        output.write_text(image.dockerfile(), encoding="utf-8")
        click.echo(f"{output}: build it in the folder that holds {image.module.name}")
        return
    tag = tag or f"nel-{image.module.stem.lower().replace('_', '-')}:latest"
    image.build(tag, push=push)
    bench = image.module.name + ("/FILE.py" if image.module.is_dir() else "")
    click.echo(f"{'pushed' if push else 'built'} {tag}; to run it:")
    click.echo(
        f'  docker run --rm -v "$PWD:/data" {tag} eval run --bench {bench} --model PROVIDER/MODEL -o /data/results'
    )
