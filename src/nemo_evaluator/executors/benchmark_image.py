"""An image with a benchmark of one's own inside: its Dockerfile, and building it."""

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nemo_evaluator._version import __version__
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.executors.docker import docker

_BUILD: Final = 3600.0
_IGNORED: Final = ("__pycache__", ".git", ".venv", "eval_results")
_INSTALL: Final = "python3 -m pip install --no-cache-dir --break-system-packages"


@dataclass(frozen=True, slots=True)
class BenchmarkImage:
    """What goes into the image: a Python file or a folder, and perhaps a list of libraries."""

    module: Path
    base: str
    requirements: Path | None = None

    def __post_init__(self) -> None:
        if not (self.module.is_dir() or (self.module.suffix == ".py" and self.module.is_file())):
            hint = "name the file that has @benchmark in it, or its folder"
            raise UsageError(f"{self.module} is no Python file and no folder", hint=hint)
        if self.requirements is not None and not self.requirements.is_file():
            raise UsageError(f"{self.requirements} does not exist", hint="name a file with one library per line")

    def dockerfile(self) -> str:
        """The text of the Dockerfile."""
        name = self.module.name
        lines = [f"FROM {self.base}", "USER root"]
        lines += [f'RUN command -v nel >/dev/null || {_INSTALL} "nemo-evaluator=={__version__}"']
        if self.requirements is not None:
            lines += [f"COPY {json.dumps([self.requirements.name, '/opt/requirements.txt'])}"]
            lines += [f"RUN {_INSTALL} -r /opt/requirements.txt"]
        lines += [
            f"COPY {json.dumps([name, f'/app/{name}'])}",
            "ENV PYTHONPATH=/app${PYTHONPATH:+:$PYTHONPATH} HOME=/tmp",
        ]
        # Not root; --user takes the place of this, so that files of the run belong to whoever mounts the folder.
        return "\n".join([*lines, "USER 1000:1000", "WORKDIR /app", 'ENTRYPOINT ["nel"]', ""])

    def build(self, tag: str, *, push: bool = False) -> None:
        """Build it, and push it if asked to."""
        with tempfile.TemporaryDirectory(prefix="nel-package-") as folder:
            place = Path(folder)
            (place / "Dockerfile").write_text(self.dockerfile(), encoding="utf-8")
            for source in filter(None, (self.module, self.requirements)):
                target = place / source.name
                if source.is_dir():
                    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*_IGNORED))
                else:
                    shutil.copy(source, target)
                # Whatever mode the files have here, the image's user reads them.
                for path in (target, *target.rglob("*")):
                    path.chmod(0o755 if path.is_dir() else 0o644)
            docker("build", "-t", tag, folder, timeout=_BUILD)
        if push:
            docker("push", tag, timeout=_BUILD)
