"""``nel doctor``: what works on this machine, and how to get what does not. Keys are named, never shown."""

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
    """One line: ``ok`` None is a fact, neither good nor bad."""

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
    found = list(examine())
    if as_json:
        click.echo(dumps([asdict(one) for one in found]).decode())
    else:
        width = terminal_width()
        for one in found:
            mark = f"{ {True: 'ok', False: 'no', None: '--'}[one.ok] }  {one.about:<20} "
            lines = wrapped(scrub(one.text), "", width=width, mark=mark)
            if one.fix:
                lines += wrapped(one.fix, "      ", width=width, mark="fix: ")
            click.echo("\n".join(lines))
    needed = ("python", "disk", "datasets")
    ctx.exit(
        EXIT_FAILED if any(one.ok is False and one.about in needed for one in found) else EXIT_OK
    )


def examine() -> Iterator[DoctorCheck]:
    """Everything that is looked at, in the order of the page."""
    yield DoctorCheck(
        "python", True, f"{platform.python_version()} on {platform.machine()}, nel {__version__}"
    )
    yield from _extras()
    for word in _TRIED:
        yield asyncio.run(_sandbox(word))
    yield _command(
        "gpu", ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], "no NVIDIA driver found"
    )
    yield _command("slurm", ["sinfo", "--version"], "no SLURM commands found")
    free = shutil.disk_usage(Path.cwd()).free
    if free < _SCARCE:
        fix = "free some, or write elsewhere: -o FOLDER"
    else:
        fix = ""
    yield DoctorCheck(
        "disk", free >= _SCARCE, f"{free / 1024**3:.1f} GB free in this folder", fix=fix
    )
    for name in _PROXIES:
        value = os.environ.get(name) or os.environ.get(name.lower())
        if value:
            yield DoctorCheck(f"proxy {name}", None, re.sub(r"//[^@/]*@", "//***@", value))
    names = [*_KEYS, *(one.key for one in providers().values() if one.key)]
    present = [name for name in names if os.environ.get(name)]
    yield DoctorCheck("keys", None, f"set: {', '.join(present) or 'none'}")
    yield _datasets()


def _extras() -> Iterator[DoctorCheck]:
    wanted: dict[str, list[str]] = {}
    for line in importlib.metadata.requires("nemo-evaluator") or ():
        extra = _EXTRA.search(line)
        first = re.match(r"[\w.-]+", line)
        if extra and first and extra[1] not in ("all", "dev", "parts"):
            wanted.setdefault(extra[1], []).append(first[0])
    for word, packages in sorted(wanted.items()):
        absent = ", ".join(package for package in packages if not _installed(package))
        lacking = DoctorCheck(
            f"extra {word}", None, f"not installed: {absent}", fix=install_line(word)
        )
        yield lacking if absent else DoctorCheck(f"extra {word}", True, "installed")


def _installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


async def _sandbox(word: str) -> DoctorCheck:
    about = f"sandbox {word}"
    try:
        provider = SANDBOXES.build(word, default_kind(SANDBOXES, word)(), "doctor")
        try:
            await provider.check()
        finally:
            await provider.close()
    except NelError as error:
        return DoctorCheck(about, None, error.message, fix=error.hint or "")
    return DoctorCheck(about, True, "works here")


def _command(about: str, words: list[str], absent: str) -> DoctorCheck:
    if shutil.which(words[0]) is None:
        return DoctorCheck(about, None, absent)
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return DoctorCheck(about, None, f"{words[0]} does not answer: {error}")
    if done.returncode:
        return DoctorCheck(
            about, None, f"{words[0]} fails: {done.stderr.strip().partition(chr(10))[0]}"
        )
    return DoctorCheck(about, True, ", ".join(done.stdout.split("\n")).strip(", "))


def _datasets() -> DoctorCheck:
    try:
        mirror = mirror_dir()
        cache = cache_dir()
    except NelError as error:
        return DoctorCheck("datasets", False, error.message, fix=error.hint or "")
    if mirror:
        where = f"mirror {mirror}"
    else:
        where = "no mirror: rows come from the hub"
    return DoctorCheck(
        "datasets", True, f"{where}; cache {cache}{'; offline' if is_offline() else ''}"
    )
