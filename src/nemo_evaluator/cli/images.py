"""``nel package`` and ``nel cache-sqsh``: images with the user's benchmark, and images for clusters."""

import re
from pathlib import Path
from typing import Final

import click

from nemo_evaluator.cli._options import PATH, option
from nemo_evaluator.core.errors import UsageError


@click.command("package")
@option(
    "--module",
    "-m",
    required=True,
    type=PATH,
    help="Benchmark to package: a Python file, or a folder that contains one.",
)
@option("--tag", "-t", help="Name of the image [default: nel-NAME:latest].")
@option("--base-image", default="python:3.12-slim", help="Base image; needs Python 3.11 or newer.")
@option("--requirements", type=PATH, help="pip requirements file of the benchmark.")
@option(
    "--include",
    multiple=True,
    metavar="GLOB",
    help="Copy this file although it looks like a secret; repeatable.",
)
@option("--push", is_flag=True, help="Push the image after the build.")
@option("--output", "-o", type=PATH, help="Write the Dockerfile to this file; build nothing.")
def package(
    module: Path,
    tag: str | None,
    base_image: str,
    requirements: Path | None,
    include: tuple[str, ...],
    push: bool,
    output: Path | None,
) -> None:
    """Build a container image with nel and a benchmark inside.

    If the benchmark reads other files, give the folder that contains them. nel is installed unless the base
    image has it. Files that look like secrets stay out, and links that leave the folder are refused. Run it with
    `docker run IMAGE eval run --bench FILE ...`.
    """
    from nemo_evaluator.executors.benchmark_image import BenchmarkImage  # noqa: PLC0415 - only for this command

    image = BenchmarkImage(module.resolve(), base_image, requirements, include=include)
    if output is not None:
        if push:
            reason = "--push needs an image, and --output writes a Dockerfile only"
            raise UsageError(reason, hint="leave one of them out")
        # Docker prefers this file to `.dockerignore`.
        ignore_file = output.with_name(f"{output.name}.dockerignore")
        ignore_file.write_text(image.ignored(), encoding="utf-8")
        output.write_text(image.dockerfile(), encoding="utf-8")
        click.echo(image.content().listing())
        click.echo(
            f"{output} (with {ignore_file.name}): build it in the folder that holds {image.module.name}"
        )
        return
    tag = tag or f"nel-{image.module.stem.lower().replace('_', '-')}:latest"
    image.build(tag, push=push, say=click.echo)
    benchmark_path = image.module.name + ("/FILE.py" if image.module.is_dir() else "")
    run_command = f"eval run --bench {benchmark_path} --model PROVIDER/MODEL -o /data/results"
    click.echo(f"{'pushed' if push else 'built'} {tag}; to run it:")
    click.echo(f'  docker run --rm -v "$PWD:/data" {tag} {run_command}')


_VARIANTS: Final = ("base", "harbor", "lm-eval", "skills", "gym", "full")
_HERE: Final = ("localhost", "local", "-")


@click.command("cache-sqsh")
@click.argument("target")
@click.argument("host")
@click.argument("output_path")
@option(
    "--registry",
    "-r",
    help=f"Registry of the variants ({', '.join(_VARIANTS)}): REGISTRY/IMAGE.",
)
@option("--tag", "-t", default="local", help="Tag of a variant: REGISTRY:TAG-VARIANT.")
@option("--filename", "-f", help="Name of the .sqsh file [default: from the image name].")
@option("--dry-run", is_flag=True, help="Print the command for HOST; run nothing.")
def cache_sqsh(
    target: str,
    host: str,
    output_path: str,
    registry: str | None,
    tag: str,
    filename: str | None,
    dry_run: bool,
) -> None:
    """Import TARGET (an image, or a variant of nel's own) on HOST into the folder OUTPUT_PATH with enroot.

    HOST is a login node that ssh knows, or `localhost` for this machine. Use the path of the file in a config
    wherever an image is expected: `eval_image`, `image` of a service or a sandbox.
    """
    from nemo_evaluator.executors.slurm_jobs.host import import_image  # noqa: PLC0415 - only for this command

    if target not in _VARIANTS:
        image = re.sub(r"^(docker|dockerd)://", "", target)
        default_name = f"{re.sub('[/:#]', '-', image)}.sqsh"
    elif registry is None:
        hint = f"push it somewhere first, then name that: nel cache-sqsh {target} HOST PATH -r registry.example.com/nel"
        raise UsageError(
            f"{target!r} is a variant of nel's image, and --registry is not given", hint=hint
        )
    else:
        image = f"{registry}:{tag}-{target}"
        default_name = f"nel-{target}.sqsh"
    path = f"{output_path.rstrip('/')}/{filename or default_name}"
    ssh_host = None if host in _HERE else host
    output = import_image(image, path, ssh_host, dry_run=dry_run)
    if dry_run:
        click.echo(output)
    else:
        click.echo(f"{output.strip()}\nimage: {path}")
