"""``nel cache-sqsh``: import a container image on a cluster once, so that jobs need not pull it."""

import re
from typing import Final

import click

from nemo_evaluator.core.errors import UsageError

_VARIANTS: Final = ("base", "harbor", "lm-eval", "skills", "gym", "full")
_HERE: Final = ("localhost", "local", "-")


@click.command("cache-sqsh")
@click.argument("target")
@click.argument("host")
@click.argument("output_path")
@click.option("--registry", "-r", help=f"Where the variants ({', '.join(_VARIANTS)}) are pushed: REGISTRY/IMAGE.")
@click.option("--tag", "-t", default="local", show_default=True, help="Tag of a variant: REGISTRY:TAG-VARIANT.")
@click.option("--filename", "-f", help="Name of the file (default: after the image).")
@click.option("--dry-run", is_flag=True, help="Only print the command that would run on HOST.")
def cache_sqsh(
    target: str, host: str, output_path: str, registry: str | None, tag: str, filename: str | None, dry_run: bool
) -> None:
    """Import TARGET (an image, or a variant of nel's own) on HOST into the folder OUTPUT_PATH with enroot.

    HOST is a login node that ssh knows, or `localhost` for this machine. The file's path can then stand in a config
    wherever an image can: `eval_image`, `image` of a service or a sandbox.
    """
    from nemo_evaluator.executors.slurm_jobs.host import import_image  # noqa: PLC0415 - only for this command

    image = _image(target, registry, tag)
    name = filename or (f"nel-{target}.sqsh" if target in _VARIANTS else f"{re.sub('[/:#]', '-', image)}.sqsh")
    path = f"{output_path.rstrip('/')}/{name}"
    said = import_image(image, path, None if host in _HERE else host, dry_run=dry_run)
    click.echo(said if dry_run else f"{said.strip()}\nimage: {path}")


def _image(target: str, registry: str | None, tag: str) -> str:
    if target not in _VARIANTS:
        return re.sub(r"^(docker|dockerd)://", "", target)
    if registry is None:
        hint = f"push it somewhere first, then name that: nel cache-sqsh {target} HOST PATH -r registry.example.com/nel"
        raise UsageError(f"{target!r} is a variant of nel's image, and --registry is not given", hint=hint)
    return f"{registry}:{tag}-{target}"
