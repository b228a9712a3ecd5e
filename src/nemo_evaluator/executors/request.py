"""The request of ``nel eval run``, and the file that passes it to the worker.

The file contains no secrets: those are passed in an environment variable.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError

from nemo_evaluator.config import LoadedConfig
from nemo_evaluator.core.arguments import masked_arguments
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps, write_atomic
from nemo_evaluator.core.secrets import MASK
from nemo_evaluator.core.values import asdict, dataclass, replace

_CARRIED: Final = "NEL_REQUEST_SECRETS"
_NAMED: Final = re.compile(r"\$\{(\w+)")
# Variables of nel, model hubs, experiment trackers and network proxies.
_USUAL: Final = re.compile(
    r"(NEL|NEMO|HF|MLFLOW|WANDB)_|((https?|all|no)_proxy|SSL_CERT_FILE)$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The flags of ``nel eval run``, and for a worker: where they were given, for which run, in which command."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    config_file: str | None = None
    # The variable that holds the key; null for the provider's own, or the first usual one that is set.
    key_variable: str | None = None
    judge_url: str | None = None
    judge_id: str | None = None
    judge_key_variable: str | None = None
    env_file: str | None = None
    model: str | None = None
    bench: str | None = None
    model_url: str | None = None
    model_id: str | None = None
    repeats: int | None = None
    max_problems: int | None = None
    only: tuple[str, ...] = ()
    concurrency: int | None = None
    system_prompt: str | None = None
    temperature: float = 0.0
    max_tokens: int | None = None
    output_dir: str | None = None
    override: tuple[str, ...] = ()
    resume: bool = False
    fresh: bool = False
    detach_batch: bool = False
    dry_run: bool = False
    background: bool = False
    submit: bool = False
    shard: str | None = None
    # The only shard to resume, if the executor splits the run.
    only_shard: int | None = None
    strict_export: bool = False
    frozen: bool = False
    allow_fallback: bool = False
    as_json: bool = False
    no_progress: bool = False
    verbose: bool = False
    cwd: str | None = None
    run_id: str | None = None
    # The arguments of the command, with secrets masked.
    command: tuple[str, ...] = ()


def write_request(request: RunRequest, run_id: str, folder: Path) -> Path:
    """Write a request where the worker finds it, readable by its owner only.

    Returns:
        The path of the file.
    """
    path = _file(folder, run_id)
    content = replace(_masked(request), run_id=run_id)
    write_atomic(path, dumps(asdict(content), indent=True) + b"\n", mode=0o600)
    return path


def carried_secrets(request: RunRequest) -> dict[str, str]:
    """Return the variables that a worker needs in addition to the request file.

    Empty if the request holds no secret.
    """
    if _masked(request) == request:
        return {}
    fields = {
        "override": request.override,
        "model_url": request.model_url,
        "judge_url": request.judge_url,
    }
    return {_CARRIED: dumps(fields).decode()}


def needed_variables(loaded: LoadedConfig) -> dict[str, str]:
    """Return the environment variables that a run needs elsewhere: those its config refers to, and common ones."""
    config_names = set(_NAMED.findall(dumps(loaded.raw).decode()))
    variables: dict[str, str] = {}
    for name, value in os.environ.items():
        if name in config_names or _USUAL.match(name):
            variables[name] = value
    return variables


def read_request(path: Path) -> RunRequest:
    """Read a request file, and take its secrets out of the environment.

    Raises:
        UsageError: If the file is unreadable, or its secrets are missing.
    """
    try:
        request = TypeAdapter(RunRequest).validate_json(path.read_bytes())
        request = replace(request, **orjson.loads(os.environ.pop(_CARRIED, "{}")))
    except (OSError, ValidationError, orjson.JSONDecodeError, TypeError) as error:
        raise UsageError(
            f"{path} cannot be read as a request", hint="start the run again"
        ) from error
    for text in (*request.override, request.model_url, request.judge_url):
        if text and MASK in text:
            raise UsageError(
                f"{path} lacks its secrets", hint=f"they travel in the environment, as {_CARRIED}"
            )
    return replace(request, override=tuple(request.override))


def remove_requests(folder: Path, *, but: Callable[[str], bool]) -> None:
    """Remove the request files in a folder.

    Args:
        folder: The folder.
        but: Returns True for a run id whose file is kept.
    """
    for path in folder.glob(_file(folder, "*").name):
        if not but(path.stem.removeprefix("nel_request-")):
            path.unlink(missing_ok=True)


def worker_command(file: Path) -> list[str]:
    """Return the arguments of a Python interpreter that executes a request file."""
    return ["-m", "nemo_evaluator.cli.main", "eval", "run", "--request", str(file)]


def _file(folder: Path, run_id: str) -> Path:
    return folder / f"nel_request-{run_id}.json"


def _masked(request: RunRequest) -> RunRequest:
    """Return the request without its secrets."""
    arguments: list[str] = []
    for override in request.override:
        arguments += ["-O", override]
    masked = masked_arguments(arguments)
    return replace(
        request,
        override=tuple(masked[1::2]),
        model_url=_masked_url(request.model_url),
        judge_url=_masked_url(request.judge_url),
    )


def _masked_url(url: str | None) -> str | None:
    if not url:
        return url
    return masked_arguments([url])[0]
