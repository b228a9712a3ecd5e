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
# What every run needs.
_ESSENTIAL: Final = ("python", "disk", "datasets")
_MARKS: Final = {True: "ok", False: "no", None: "--"}
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
        for check in checks:
            click.echo("\n".join(_lines(check)))
    essential_failed = any(check.ok is False and check.about in _ESSENTIAL for check in checks)
    ctx.exit(EXIT_FAILED if essential_failed else EXIT_OK)


def _lines(check: DoctorCheck) -> list[str]:
    """Render a check: its mark, what it is about, the result, and the fix."""
    width = terminal_width()
    mark = f"{_MARKS[check.ok]}  {check.about:<20} "
    lines = wrapped(scrub(check.text), "", width=width, mark=mark)
    if check.fix:
        lines += wrapped(check.fix, "      ", width=width, mark="fix: ")
    return lines


def examine() -> Iterator[DoctorCheck]:
    """Yield all checks, in the order of the report."""
    python_text = f"{platform.python_version()} on {platform.machine()}, nel {__version__}"
    yield DoctorCheck("python", True, python_text)
    yield from _extras()
    for sandbox_type in _TRIED:
        yield asyncio.run(_sandbox(sandbox_type))
    gpu_query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    yield _command("gpu", gpu_query, "no NVIDIA driver found")
    yield _command("slurm", ["sinfo", "--version"], "no SLURM commands found")
    yield _disk()
    for name in _PROXIES:
        value = os.environ.get(name) or os.environ.get(name.lower())
        if value:
            yield DoctorCheck(f"proxy {name}", None, re.sub(r"//[^@/]*@", "//***@", value))
    yield _keys()
    yield _datasets()


def _disk() -> DoctorCheck:
    """Check the free space of the current folder."""
    free_bytes = shutil.disk_usage(Path.cwd()).free
    text = f"{free_bytes / 1024**3:.1f} GB free in this folder"
    if free_bytes < _SCARCE:
        return DoctorCheck("disk", False, text, fix="free some, or write elsewhere: -o FOLDER")
    return DoctorCheck("disk", True, text)


def _keys() -> DoctorCheck:
    """Name the variables with keys that are set."""
    variables = list(_KEYS)
    for provider in providers().values():
        if provider.key:
            variables.append(provider.key)
    set_variables = [name for name in variables if os.environ.get(name)]
    return DoctorCheck("keys", None, f"set: {', '.join(set_variables) or 'none'}")


def _extras() -> Iterator[DoctorCheck]:
    """Yield one check per extra: whether its packages are installed."""
    for extra, packages in sorted(_packages_of_extras().items()):
        about = f"extra {extra}"
        missing = [package for package in packages if not _installed(package)]
        if missing:
            text = f"not installed: {', '.join(missing)}"
            yield DoctorCheck(about, None, text, fix=install_line(extra))
        else:
            yield DoctorCheck(about, True, "installed")


def _packages_of_extras() -> dict[str, list[str]]:
    """Return the packages of each extra that users install."""
    packages_of_extra: dict[str, list[str]] = {}
    for requirement in importlib.metadata.requires("nemo-evaluator") or ():
        extra_match = _EXTRA.search(requirement)
        package_match = re.match(r"[\w.-]+", requirement)
        if extra_match is None or package_match is None:
            continue
        if extra_match[1] not in ("all", "dev", "parts"):
            packages_of_extra.setdefault(extra_match[1], []).append(package_match[0])
    return packages_of_extra


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
    program = words[0]
    if shutil.which(program) is None:
        return DoctorCheck(about, None, absent)
    try:
        result = subprocess.run(words, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return DoctorCheck(about, None, f"{program} does not answer: {error}")
    if result.returncode:
        first_line = result.stderr.strip().partition("\n")[0]
        return DoctorCheck(about, None, f"{program} fails: {first_line}")
    return DoctorCheck(about, True, ", ".join(result.stdout.split("\n")).strip(", "))


def _datasets() -> DoctorCheck:
    """Report where datasets come from, and where they are cached."""
    try:
        mirror = mirror_dir()
        cache = cache_dir()
    except NelError as error:
        return DoctorCheck("datasets", False, error.message, fix=error.hint or "")
    text = f"mirror {mirror}" if mirror else "no mirror: rows come from the hub"
    text += f"; cache {cache}"
    if is_offline():
        text += "; offline"
    return DoctorCheck("datasets", True, text)
