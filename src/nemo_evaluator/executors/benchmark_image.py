"""Builds an image that contains a custom benchmark."""

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nemo_evaluator._version import __version__
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.executors.docker import docker
from nemo_evaluator.executors.image_content import (
    ImageContent,
    check_file,
    check_requirements,
    folder_content,
)

_BUILD: Final = 3600.0
# The user in the container owns the files, so that it can read those with mode 0600.
_USER: Final = "1000:1000"
_INSTALL: Final = "python3 -m pip install --no-cache-dir --break-system-packages"


@dataclass(frozen=True, slots=True)
class BenchmarkImage:
    """The contents of an image.

    Attributes:
        module: The benchmark's Python file or folder.
        base: The base image.
        requirements: A file that lists libraries to install.
        include: Patterns of files to copy although they look like secrets.
    """

    module: Path
    base: str
    requirements: Path | None = None
    include: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise UsageError if the module or the requirements do not exist."""
        is_python_file = self.module.suffix == ".py" and self.module.is_file()
        if not is_python_file and not self.module.is_dir():
            hint = "name the file that has @benchmark in it, or its folder"
            raise UsageError(f"{self.module} is neither a Python file nor a folder", hint=hint)
        if self.requirements is not None and not self.requirements.is_file():
            raise UsageError(
                f"{self.requirements} does not exist", hint="name a file with one library per line"
            )

    def dockerfile(self) -> str:
        """Return the text of the Dockerfile."""
        name = self.module.name
        lines = [f"FROM {self.base}", "USER root"]
        lines.append(f'RUN command -v nel >/dev/null || {_INSTALL} "nemo-evaluator=={__version__}"')
        if self.requirements is not None:
            copied = json.dumps([self.requirements.name, "/opt/requirements.txt"])
            lines.append(f"COPY {copied}")
            lines.append(f"RUN {_INSTALL} -r /opt/requirements.txt")
        copied = json.dumps([name, f"/app/{name}"])
        lines.append(f"COPY --chown={_USER} {copied}")
        lines.append("ENV PYTHONPATH=/app${PYTHONPATH:+:$PYTHONPATH} HOME=/tmp")
        # Not root. `docker run --user` overrides it, so that result files belong to the person who starts the run.
        lines.append(f"USER {_USER}")
        lines.append("WORKDIR /app")
        lines.append('ENTRYPOINT ["nel"]')
        return "\n".join(lines) + "\n"

    def content(self) -> ImageContent:
        """Return the files to copy.

        Raises:
            UsageError: If a link leads out of the folder, or a file given by name is a secret.
        """
        if self.requirements is not None:
            check_requirements(self.requirements)
        if self.module.is_dir():
            return folder_content(self.module, self.include)
        check_file(self.module, self.include)
        return ImageContent(self.module.parent, files=[Path(self.module.name)])

    def ignored(self) -> str:
        """Return the text of a ``.dockerignore``, for builds from the Dockerfile alone."""
        prefix = ""
        if self.module.is_dir():
            prefix = f"{self.module.name}/"
        lines = [f"{prefix}{path}\n" for path in sorted(self.content().left_out)]
        return "".join(lines)

    def write_context(self, folder: Path) -> None:
        """Write the build context: the Dockerfile and copies of the files."""
        (folder / "Dockerfile").write_text(self.dockerfile(), encoding="utf-8")
        target = folder
        if self.module.is_dir():
            target = folder / self.module.name
        self.content().copy_to(target)
        if self.requirements is not None:
            shutil.copy(self.requirements, folder / self.requirements.name)

    def build(self, tag: str, *, push: bool = False, say: Callable[[str], None] = print) -> None:
        """List the contents, build the image, and push it if requested."""
        say(self.content().listing())
        with tempfile.TemporaryDirectory(prefix="nel-package-") as folder:
            self.write_context(Path(folder))
            docker("build", "-t", tag, folder, timeout=_BUILD)
        if push:
            docker("push", tag, timeout=_BUILD)
