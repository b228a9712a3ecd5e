"""An image with nel inside, for tests, without a registry: sources are copied in, libraries are this environment's."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(sysconfig.get_paths()["purelib"])
# The base image has Python 3.11: libraries of another one cannot be used in it.
FITS = sys.version_info[:2] == (3, 11)
IMAGE = "nel-test/nel:sources"
_TEXT = """FROM nel-test/python:bookworm
COPY *.so.* /usr/lib/
COPY nemo_evaluator /usr/lib/python3/dist-packages/nemo_evaluator
RUN python3 -m compileall -q /usr/lib/python3/dist-packages/nemo_evaluator
RUN printf '#!/bin/sh\\nexec python3 -m nemo_evaluator.cli.main "$@"\\n' >/usr/bin/nel && chmod 755 /usr/bin/nel
"""


def docker(*words: str, timeout: float = 240) -> str:
    """Run the docker command; returns what it prints."""
    environment = {**os.environ, "DOCKER_BUILDKIT": "0"}
    done = subprocess.run(
        ["docker", *words], env=environment, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    return done.stdout


def system_libraries(folder: Path) -> None:
    """What compiled libraries need beyond the base image."""
    for library in ("libstdc++.so.6", "libgcc_s.so.1"):
        shutil.copy(next(Path("/").glob(f"usr/lib/*-linux-gnu/{library}")), folder / library)


def build_sources(folder: Path) -> str:
    """Build the image in a folder; returns its name."""
    folder.mkdir(parents=True)
    system_libraries(folder)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "nemo_evaluator", folder / "nemo_evaluator", ignore=ignored)
    (folder / "Dockerfile").write_text(_TEXT)
    docker("build", "-q", "-t", IMAGE, str(folder))
    return IMAGE


def cluster(image: str) -> dict[str, Any]:
    """The settings with which a run happens in the image."""
    return {
        "image": image,
        "container_mounts": [f"{SITE}:/deps:ro"],
        "container_env": {"PYTHONPATH": "/deps"},
        "mount_home": False,
    }
