"""The docker command."""

import subprocess
from typing import Final

from nemo_evaluator.core.errors import UsageError

_ABSENT: Final = ("No such container", "no such container", "is already in progress")
_TIMEOUT: Final = 120.0


def docker(*words: str, absent: bool = False, timeout: float = _TIMEOUT) -> str | None:
    """What a docker command prints; with ``absent`` None when it says that there is no such container."""
    try:
        done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=timeout)
    except FileNotFoundError as error:
        raise UsageError(
            "the docker command is not installed", hint="install Docker, or use cluster.type: local"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"docker {words[0]} did not answer", hint="check `docker version`") from error
    if done.returncode == 0:
        return done.stdout.strip()
    if absent and any(told in done.stderr for told in _ABSENT):
        return None
    raise UsageError(f"docker {words[0]} failed: {done.stderr.strip()}", hint="check `docker version` and the image")
