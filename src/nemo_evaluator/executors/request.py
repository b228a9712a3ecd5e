"""What ``nel eval run`` was asked to do, and the config that follows from it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from nemo_evaluator.config import SNAPSHOT, LoadedConfig, load_config, load_mapping
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.engine.plan import Shard
from nemo_evaluator.store.runs import run_in

_ENDINGS: Final = ("/chat/completions", "/completions", "/responses")
_SHARD_VARIABLES: Final = (
    ("NEL_SHARD_IDX", "NEL_TOTAL_SHARDS"),
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT"),
)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The flags of ``nel eval run``."""

    config_file: str | None = None
    api_key: str | None = None
    bench: str | None = None
    model_url: str | None = None
    model_id: str | None = None
    repeats: int = 1
    max_problems: int | None = None
    system_prompt: str | None = None
    temperature: float = 0.0
    max_tokens: int | None = None
    output_dir: str | None = None
    override: tuple[str, ...] = ()
    resume: bool = False
    fresh: bool = False
    dry_run: bool = False
    background: bool = False
    submit: bool = False
    shard: str | None = None
    strict_export: bool = False
    frozen: bool = False
    allow_fallback: bool = False
    as_json: bool = False
    no_progress: bool = False
    verbose: bool = False
    # The command that does the same in the background, where it is not the one that was given.
    words: tuple[str, ...] = ()


def at_home(request: RunRequest) -> tuple[RunRequest, Path | None]:
    """A request for the snapshot of an earlier run, as it was meant then; and where that run's config was.

    Relative paths of a snapshot mean what they meant in the run, and it runs in the folder in which it stands.
    """
    file = Path(request.config_file) if request.config_file is not None else None
    run = run_in(file.parent) if file is not None and file.name == SNAPSHOT else None
    if file is None or run is None:
        return request, file.parent if file is not None else None
    output_dir = str(Path(request.output_dir).resolve()) if request.output_dir else run.output_dir
    home = run.place("cwd")
    request = replace(
        request,
        config_file=str(file.resolve()),
        output_dir=output_dir,
        shard=request.shard or run.details.get("shard"),
    )
    if home is not None:
        os.chdir(home)
    return request, run.place("config_dir")


def load_request(request: RunRequest) -> LoadedConfig:
    """The config of a request: the file's, or the one that quick mode stands for."""
    overrides = list(request.override)
    if request.strict_export:
        overrides.append("output.strict_export=true")
    if request.frozen:
        overrides.append("datasets.frozen=true")
    loaded = _load(request, overrides)
    if not request.allow_fallback:
        return loaded
    every = range(len(loaded.config.benchmarks))
    return _load(request, [*overrides, *(f"benchmarks.{at}.scoring.allow_fallback=true" for at in every)])


def _load(request: RunRequest, overrides: list[str]) -> LoadedConfig:
    if request.config_file is not None:
        return load_config(request.config_file, overrides, output_dir=request.output_dir)
    return load_mapping(_quick(request), overrides, output_dir=request.output_dir)


def _quick(request: RunRequest) -> JsonDict:
    if not request.model_url or not request.model_id:
        hint = "give --model-url and --model-id, or set NEMO_MODEL_URL and NEMO_MODEL_ID"
        raise UsageError("quick mode needs the model's URL and id", hint=hint)
    url = request.model_url.rstrip("/")
    if not url.endswith(_ENDINGS):
        url += "/chat/completions"
    protocol = {"/completions": "completions", "/responses": "responses"}
    ending = next((end for end in _ENDINGS if url.endswith(end)), "")
    generation: JsonDict = {"temperature": request.temperature}
    if request.max_tokens is not None:
        generation["max_tokens"] = request.max_tokens
    service: JsonDict = {
        "type": "api",
        "url": url,
        "protocol": protocol.get(ending, "chat_completions"),
        "model": request.model_id,
        "generation": generation,
    }
    if request.api_key:
        # By reference: the key itself must not reach the snapshot of the config.
        service["api_key"] = "${NEMO_API_KEY}" if os.environ.get("NEMO_API_KEY") else "${NVIDIA_API_KEY}"
    solver: JsonDict = {"type": "simple", "service": "model"}
    if request.system_prompt is not None:
        solver["system_prompt"] = request.system_prompt
    bench: JsonDict = {"name": request.bench, "repeats": request.repeats, "solver": solver}
    if request.max_problems is not None:
        bench["max_problems"] = request.max_problems
    return {"services": {"model": service}, "benchmarks": [bench]}


def shard_of(request: RunRequest) -> Shard | None:
    """The shard to run: the flag's, or the environment's."""
    if request.shard is not None:
        index, _, total = request.shard.partition("/")
        return _shard(index, total, f"--shard {request.shard}")
    for index_name, total_name in _SHARD_VARIABLES:
        found, count = os.environ.get(index_name), os.environ.get(total_name)
        if found is not None and count is not None:
            return _shard(found, count, f"{index_name}={found}, {total_name}={count}")
    return None


def shard_dir(output_dir: Path, shard: Shard | None) -> Path:
    """Shards write side by side, so that `nel eval merge` finds them."""
    if shard is None or output_dir.name == f"shard_{shard.index}":
        return output_dir
    return output_dir / f"shard_{shard.index}"


def _shard(index: str, total: str, source: str) -> Shard:
    try:
        return Shard(int(index), int(total))
    except ValueError as error:
        raise UsageError(f"{source} is not a shard", hint="write it as I/N, counting from 0: --shard 0/4") from error
