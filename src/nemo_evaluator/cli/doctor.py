"""``nel doctor``: check what works on this machine, and print fixes. Keys are named, never shown."""

import asyncio
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import click

from nemo_evaluator._version import __version__
from nemo_evaluator.cli._options import option
from nemo_evaluator.config.groups import SANDBOXES
from nemo_evaluator.config.kinds import default_kind
from nemo_evaluator.config.quick import providers
from nemo_evaluator.core.errors import EXIT_FAILED, EXIT_OK, NelError, install_line
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.terminal import terminal_width
from nemo_evaluator.core.wording import wrapped
from nemo_evaluator.datasets.settings import cache_dir, is_offline, mirror_dir

_KEYS: Final = (
    "NEMO_API_KEY",
    "HF_TOKEN",
    "WANDB_API_KEY",
    "MLFLOW_TRACKING_URI",
    "AWS_ACCESS_KEY_ID",
)
_PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
_TRIED: Final = ("local", "docker", "apptainer")
_SCARCE: Final = 2 * 1024**3
_EXTRA: Final = re.compile(r"extra == ['\"]([\w-]+)['\"]")


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One line of the report; ``ok`` is None for a fact that is neither good nor bad."""

    about: str
    ok: bool | None
    text: str
    fix: str = ""


@click.command()
@option("--json", "as_json", is_flag=True, help="Output JSON.")
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Report what works on this machine: Python, extras, sandboxes, GPU, SLURM, disk, proxies, keys, datasets.

    Exits with 2 when something that every run needs does not work.
    """
    checks = list(examine())
    if as_json:
        click.echo(dumps([asdict(check) for check in checks]).decode())
    else:
        width = terminal_width()
        for check in checks:
            mark = f"{ {True: 'ok', False: 'no', None: '--'}[check.ok] }  {check.about:<20} "
            lines = wrapped(scrub(check.text), "", width=width, mark=mark)
            if check.fix:
                lines += wrapped(check.fix, "      ", width=width, mark="fix: ")
            click.echo("\n".join(lines))
    essential = ("python", "disk", "datasets")
    ctx.exit(
        EXIT_FAILED
        if any(check.ok is False and check.about in essential for check in checks)
        else EXIT_OK
    )


def examine() -> Iterator[DoctorCheck]:
    """Yield all checks, in the order of the report."""
    yield DoctorCheck(
        "python", True, f"{platform.python_version()} on {platform.machine()}, nel {__version__}"
    )
    yield from _extras()
    for sandbox_type in _TRIED:
        yield asyncio.run(_sandbox(sandbox_type))
    yield _command(
        "gpu", ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], "no NVIDIA driver found"
    )
    yield _command("slurm", ["sinfo", "--version"], "no SLURM commands found")
    free_bytes = shutil.disk_usage(Path.cwd()).free
    if free_bytes < _SCARCE:
        fix = "free some, or write elsewhere: -o FOLDER"
    else:
        fix = ""
    yield DoctorCheck(
        "disk", free_bytes >= _SCARCE, f"{free_bytes / 1024**3:.1f} GB free in this folder", fix=fix
    )
    for name in _PROXIES:
        value = os.environ.get(name) or os.environ.get(name.lower())
        if value:
            yield DoctorCheck(f"proxy {name}", None, re.sub(r"//[^@/]*@", "//***@", value))
    variables = [*_KEYS, *(provider.key for provider in providers().values() if provider.key)]
    set_variables = [name for name in variables if os.environ.get(name)]
    yield DoctorCheck("keys", None, f"set: {', '.join(set_variables) or 'none'}")
    yield _datasets()


def _extras() -> Iterator[DoctorCheck]:
    """Yield one check per extra: whether its packages are installed."""
    packages_by_extra: dict[str, list[str]] = {}
    for requirement in importlib.metadata.requires("nemo-evaluator") or ():
        extra_match = _EXTRA.search(requirement)
        package_match = re.match(r"[\w.-]+", requirement)
        if extra_match and package_match and extra_match[1] not in ("all", "dev", "parts"):
            packages_by_extra.setdefault(extra_match[1], []).append(package_match[0])
    for extra_name, packages in sorted(packages_by_extra.items()):
        missing_packages = ", ".join(package for package in packages if not _installed(package))
        missing_check = DoctorCheck(
            f"extra {extra_name}",
            None,
            f"not installed: {missing_packages}",
            fix=install_line(extra_name),
        )
        yield (
            missing_check
            if missing_packages
            else DoctorCheck(f"extra {extra_name}", True, "installed")
        )


def _installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


async def _sandbox(word: str) -> DoctorCheck:
    """Check whether a type of sandbox works."""
    label = f"sandbox {word}"
    try:
        provider = SANDBOXES.build(word, default_kind(SANDBOXES, word)(), "doctor")
        try:
            await provider.check()
        finally:
            await provider.close()
    except NelError as error:
        return DoctorCheck(label, None, error.message, fix=error.hint or "")
    return DoctorCheck(label, True, "works here")


def _command(about: str, words: list[str], absent: str) -> DoctorCheck:
    """Check a program by its output; the program may be absent."""
    if shutil.which(words[0]) is None:
        return DoctorCheck(about, None, absent)
    try:
        result = subprocess.run(words, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return DoctorCheck(about, None, f"{words[0]} does not answer: {error}")
    if result.returncode:
        return DoctorCheck(
            about, None, f"{words[0]} fails: {result.stderr.strip().partition(chr(10))[0]}"
        )
    return DoctorCheck(about, True, ", ".join(result.stdout.split("\n")).strip(", "))


def _datasets() -> DoctorCheck:
    """Report where datasets come from, and where they are cached."""
    try:
        mirror = mirror_dir()
        cache = cache_dir()
    except NelError as error:
        return DoctorCheck("datasets", False, error.message, fix=error.hint or "")
    if mirror:
        row_source = f"mirror {mirror}"
    else:
        row_source = "no mirror: rows come from the hub"
    return DoctorCheck(
        "datasets", True, f"{row_source}; cache {cache}{'; offline' if is_offline() else ''}"
    )
