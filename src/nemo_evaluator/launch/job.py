"""From a request to a job: its config, the shard it is for, and the run as it will be listed."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from nemo_evaluator.config import SNAPSHOT, LoadedConfig, load_config, load_mapping
from nemo_evaluator.config.env_file import use_env_file
from nemo_evaluator.core.errors import ConfigError, UsageError
from nemo_evaluator.engine.plan import Shard
from nemo_evaluator.executors.base import Job
from nemo_evaluator.executors.request import RunRequest
from nemo_evaluator.launch.quick import quick_config
from nemo_evaluator.preflight import find_problems
from nemo_evaluator.store.lock import ensure_free
from nemo_evaluator.store.run_registry import (
    RunMeta,
    load_run,
    new_run_id,
    places,
    registry_dir,
    run_in,
    summary_of,
)
from nemo_evaluator.store.sums import altered

_SHARD_VARIABLES: Final = {
    "NEL_SHARD_IDX": "NEL_TOTAL_SHARDS",
    "SLURM_ARRAY_TASK_ID": "SLURM_ARRAY_TASK_COUNT",
}


def job_of(request: RunRequest) -> Job:
    """The job that a request asks for. Raises ConfigError with all that keeps its config from running."""
    if request.resume and request.fresh:
        raise UsageError("--resume and --fresh exclude each other", hint="give one of them")
    if request.cwd:
        os.chdir(request.cwd)
    request, config_dir = at_home(request)
    place = config_dir or Path()
    names = use_env_file(place, request.env_file)
    if names:
        print(
            f"variables from {request.env_file or place / '.env'}: {', '.join(names)}",
            file=sys.stderr,
        )
    try:
        loaded = load_request(request, config_dir)
    except ConfigError as error:
        raise error.with_rest(find_problems) from None
    shard = shard_of(request)
    if shard is not None and request.shard is None:
        whole = request.run_id
    else:
        whole = None
    # Elsewhere, the environment may not say it.
    request = replace(
        request, cwd=str(Path.cwd()), shard=f"{shard.index}/{shard.total}" if shard else None
    )
    output_dir = shard_dir(Path(loaded.config.output.dir), shard)
    run = _run(request, loaded, output_dir, config_dir=place)
    if whole is not None and shard is not None:
        # A shard that an executor started: it is part of the run that is listed.
        run = replace(
            run, run_id=f"{whole}_{shard.index}", details=run.details | {"part_of": whole}
        )
    return Job(request, loaded, run)


def _run(request: RunRequest, loaded: LoadedConfig, output_dir: Path, config_dir: Path) -> RunMeta:
    if request.resume:
        old = load_run(output_dir)
    else:
        old = None
    config = loaded.config
    asked = [bench.solver.model_service for bench in config.benchmarks]
    models = dict.fromkeys(
        config.model_id(name) for name in asked if name in config.model_services()
    )
    return RunMeta(
        run_id=request.run_id or (old.run_id if old else new_run_id()),
        executor=config.cluster.type,
        output_dir=str(output_dir.resolve()),
        started_at=datetime.now(UTC).isoformat(),
        config_summary=summary_of([bench.name for bench in config.benchmarks]),
        details=places(output_dir, cwd=Path.cwd(), config_dir=config_dir)
        | ({"shard": request.shard} if request.shard else {})
        | {"model": ", ".join(models), "benchmarks": [bench.key for bench in config.benchmarks]},
    )


def resume_request(
    run: RunMeta, *, background: bool, as_json: bool, command: tuple[str, ...] = ()
) -> RunRequest:
    """The request that continues a run: its own config again, in its own folder."""
    folder = Path(run.output_dir)
    ensure_free(folder)
    # Of a run elsewhere it is kept here.
    snapshot = (registry_dir() / run.run_id if run.remote else folder) / SNAPSHOT
    if not snapshot.is_file():
        raise UsageError(
            f"{snapshot} is gone", hint="run the original command with --resume instead"
        )
    if altered(snapshot):
        hint = f"if the change was meant: nel eval run {snapshot} --resume"
        raise UsageError(f"{snapshot} is damaged, or was changed since the run", hint=hint)
    kept = run.run_id if run.remote else None
    return RunRequest(
        str(snapshot),
        resume=True,
        background=background,
        as_json=as_json,
        command=command,
        run_id=kept,
    )


def at_home(request: RunRequest) -> tuple[RunRequest, Path | None]:
    """A request for the snapshot of an earlier run, as it was meant then; and where that run's config was. Its relative
    paths mean what they meant in the run, and it runs in the folder in which it stands."""
    if request.config_file is not None:
        file: Path | None = Path(request.config_file)
    else:
        file = None
    if file is not None and file.name == SNAPSHOT:
        run = run_in(file.parent)
    else:
        run = None
    if file is None or run is None:
        return request, file.parent if file is not None else None
    if request.output_dir:
        output_dir = str(Path(request.output_dir).resolve())
    else:
        output_dir = run.output_dir
    shard = request.shard or run.details.get("shard")
    request = replace(request, config_file=str(file.resolve()), output_dir=output_dir, shard=shard)
    home = run.place("cwd")
    if home is not None:
        os.chdir(home)
    return request, run.place("config_dir")


def load_request(request: RunRequest, folder: Path | None = None) -> LoadedConfig:
    """The config of a request: the file's, or the one that quick mode stands for; ``folder`` is where it was."""
    only: list[str] = []
    for text in request.only:
        for word in text.split(","):
            if word:
                only.append(word)
    whole = {
        "output.strict_export": request.strict_export or None,
        "datasets.frozen": request.frozen or None,
    }
    each = {
        "max_problems": request.max_problems,
        "only": [int(word) if word.isdecimal() else word for word in only]
        if request.only
        else None,
        "max_concurrent": request.concurrency,
        "scoring.allow_fallback": request.allow_fallback or None,
    }
    overrides = [*request.override, *_settings(whole)]
    loaded = _load(request, overrides, folder)
    every = range(len(loaded.config.benchmarks))
    each_of: list[str] = []
    for at in every:
        for setting in _settings(each):
            each_of.append(f"benchmarks.{at}.{setting}")
    if each_of:
        return _load(request, [*overrides, *each_of], folder)
    return loaded


def _settings(flags: Mapping[str, object]) -> list[str]:
    """What flags set, as overrides; None: nothing."""
    return [f"{key}={json.dumps(value)}" for key, value in flags.items() if value is not None]


def _load(request: RunRequest, overrides: list[str], folder: Path | None) -> LoadedConfig:
    if request.config_file is not None:
        return load_config(
            request.config_file, overrides, output_dir=request.output_dir, folder=folder
        )
    return load_mapping(quick_config(request), overrides, output_dir=request.output_dir)


def shard_of(request: RunRequest) -> Shard | None:
    """The shard to run: the flag's, or the environment's."""
    if request.shard is not None:
        index, _, total = request.shard.partition("/")
        return _shard(index, total, f"--shard {request.shard}")
    for index_name, total_name in _SHARD_VARIABLES.items():
        found = os.environ.get(index_name)
        count = os.environ.get(total_name)
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
        raise UsageError(
            f"{source} is not a shard", hint="write it as I/N, counting from 0: --shard 0/4"
        ) from error
