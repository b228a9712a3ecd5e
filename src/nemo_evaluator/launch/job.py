"""Turn a request into a job: its config, its shard, and the run for the registry."""

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
from nemo_evaluator.core.types import JsonDict
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
    """Build the job for a request: load its config, select its shard, name the run.

    The process changes to the folder that the request names.

    Raises:
        ConfigError: If the config has problems; the error lists all of them.
        UsageError: If flags contradict each other.
    """
    if request.resume and request.fresh:
        raise UsageError("--resume and --fresh exclude each other", hint="give one of them")
    if request.cwd:
        os.chdir(request.cwd)
    request, config_dir = _as_in_snapshot(request)
    env_folder = config_dir or Path()
    _load_env_file(env_folder, request.env_file)
    try:
        loaded = load_request(request, config_dir)
    except ConfigError as error:
        raise error.with_rest(find_problems) from None
    shard = shard_of(request)
    whole_run_id: str | None = None
    shard_text: str | None = None
    if shard is not None:
        # In the request, because the environment of another machine may not name the shard.
        shard_text = f"{shard.index}/{shard.total}"
        if request.shard is None:
            # The environment names the shard: an executor started it as a part of the listed run.
            whole_run_id = request.run_id
    request = replace(request, cwd=str(Path.cwd()), shard=shard_text)
    output_dir = _shard_dir(Path(loaded.config.output.dir), shard)
    run = _new_run(request, loaded, output_dir, config_dir=env_folder)
    if whole_run_id is not None and shard is not None:
        details = run.details | {"part_of": whole_run_id}
        run = replace(run, run_id=f"{whole_run_id}_{shard.index}", details=details)
    return Job(request, loaded, run)


def _load_env_file(folder: Path, env_file: str | None) -> None:
    """Read the variables of the .env file, and list their names on stderr."""
    variable_names = use_env_file(folder, env_file)
    if variable_names:
        source = env_file or folder / ".env"
        print(f"variables from {source}: {', '.join(variable_names)}", file=sys.stderr)


def _new_run(
    request: RunRequest, loaded: LoadedConfig, output_dir: Path, config_dir: Path
) -> RunMeta:
    """Build the entry of a run for the registry; a resumed run keeps its id."""
    config = loaded.config
    run_id = request.run_id
    if not run_id and request.resume:
        earlier_run = load_run(output_dir)
        if earlier_run is not None:
            run_id = earlier_run.run_id
    models: list[str] = []
    for benchmark in config.benchmarks:
        service = benchmark.solver.model_service
        if service is not None and service in config.model_services():
            models.append(config.model_id(service))
    details: JsonDict = {**places(output_dir, cwd=Path.cwd(), config_dir=config_dir)}
    if request.shard:
        details["shard"] = request.shard
    details["model"] = ", ".join(dict.fromkeys(models))
    details["benchmarks"] = [benchmark.key for benchmark in config.benchmarks]
    return RunMeta(
        run_id=run_id or new_run_id(),
        executor=config.cluster.type,
        output_dir=str(output_dir.resolve()),
        started_at=datetime.now(UTC).isoformat(),
        config_summary=summary_of([benchmark.name for benchmark in config.benchmarks]),
        details=details,
    )


def resume_request(
    run: RunMeta, *, background: bool, as_json: bool, command: tuple[str, ...] = ()
) -> RunRequest:
    """Build the request that continues a run with its own config, in its own folder.

    Args:
        run: The run.
        background: Run it in the background.
        as_json: Print JSON lines.
        command: The command line, for the record, without secrets.

    Raises:
        UsageError: If the snapshot of the config is missing, or was changed after the run wrote it.
    """
    folder = Path(run.output_dir)
    ensure_free(folder)
    # The snapshot of a run on another host is kept in the registry.
    snapshot_dir = registry_dir() / run.run_id if run.remote else folder
    snapshot = snapshot_dir / SNAPSHOT
    if not snapshot.is_file():
        hint = "run the original command with --resume instead"
        raise UsageError(f"{snapshot} is gone", hint=hint)
    if altered(snapshot):
        hint = f"if the change was meant: nel eval run {snapshot} --resume"
        raise UsageError(f"{snapshot} is damaged, or was changed since the run", hint=hint)
    return RunRequest(
        str(snapshot),
        resume=True,
        background=background,
        as_json=as_json,
        command=command,
        run_id=run.run_id if run.remote else None,
    )


def _as_in_snapshot(request: RunRequest) -> tuple[RunRequest, Path | None]:
    """Adapt a request for the snapshot of an earlier run to the place of that run.

    The process changes to the working folder of that run, so that its relative paths keep their meaning. A request for
    any other config stays as it is.

    Returns:
        The request, and the folder of the config with which the run was started.
    """
    if request.config_file is None:
        return request, None
    file = Path(request.config_file)
    run = run_in(file.parent) if file.name == SNAPSHOT else None
    if run is None:
        return request, file.parent
    output_dir = run.output_dir
    if request.output_dir:
        output_dir = str(Path(request.output_dir).resolve())
    request = replace(
        request,
        config_file=str(file.resolve()),
        output_dir=output_dir,
        shard=request.shard or run.details.get("shard"),
    )
    working_dir = run.place("cwd")
    if working_dir is not None:
        os.chdir(working_dir)
    return request, run.place("config_dir")


def load_request(request: RunRequest, folder: Path | None = None) -> LoadedConfig:
    """Load the config of a request, from its file or from the flags of quick mode, with flags as overrides.

    Args:
        request: The request.
        folder: Folder of the original config, if the file is elsewhere.

    Raises:
        ConfigError: If the config has problems; the error lists all of them.
    """
    suite_settings = {
        "output.strict_export": request.strict_export or None,
        "datasets.frozen": request.frozen or None,
    }
    benchmark_settings = {
        "max_problems": request.max_problems,
        "only": _chosen_problems(request),
        "max_concurrent": request.concurrency,
        "scoring.allow_fallback": request.allow_fallback or None,
    }
    overrides = [*request.override, *_settings(suite_settings)]
    loaded = _load(request, overrides, folder)
    # The number of benchmarks is known only now.
    benchmark_overrides: list[str] = []
    for index in range(len(loaded.config.benchmarks)):
        for setting in _settings(benchmark_settings):
            benchmark_overrides.append(f"benchmarks.{index}.{setting}")
    if not benchmark_overrides:
        return loaded
    return _load(request, [*overrides, *benchmark_overrides], folder)


def _chosen_problems(request: RunRequest) -> list[int | str] | None:
    """Return the problems that ``--only`` names, by index or hash; None: all."""
    if not request.only:
        return None
    chosen: list[int | str] = []
    for text in request.only:
        for problem in text.split(","):
            if problem:
                chosen.append(int(problem) if problem.isdecimal() else problem)
    return chosen


def _settings(flags: Mapping[str, object]) -> list[str]:
    """Write flags as overrides; flags that are None are left out."""
    return [f"{key}={json.dumps(value)}" for key, value in flags.items() if value is not None]


def _load(request: RunRequest, overrides: list[str], folder: Path | None) -> LoadedConfig:
    """Load the config file of a request, or build the config of quick mode."""
    if request.config_file is not None:
        return load_config(
            request.config_file, overrides, output_dir=request.output_dir, folder=folder
        )
    return load_mapping(quick_config(request), overrides, output_dir=request.output_dir)


def shard_of(request: RunRequest) -> Shard | None:
    """Return the shard to run, from the request or from the environment; None: the whole run.

    Raises:
        UsageError: If the shard is not written as I/N.
    """
    if request.shard is not None:
        flag_index, _, flag_total = request.shard.partition("/")
        return _shard(flag_index, flag_total, f"--shard {request.shard}")
    for index_name, total_name in _SHARD_VARIABLES.items():
        index = os.environ.get(index_name)
        total = os.environ.get(total_name)
        if index is not None and total is not None:
            return _shard(index, total, f"{index_name}={index}, {total_name}={total}")
    return None


def _shard_dir(output_dir: Path, shard: Shard | None) -> Path:
    """Return the output folder of a shard; shards write side by side, so that `nel eval merge` finds them."""
    if shard is None or output_dir.name == f"shard_{shard.index}":
        return output_dir
    return output_dir / f"shard_{shard.index}"


def _shard(index: str, total: str, source: str) -> Shard:
    """Parse a shard; the error names its source."""
    try:
        return Shard(int(index), int(total))
    except ValueError as error:
        raise UsageError(
            f"{source} is not a shard", hint="write it as I/N, counting from 0: --shard 0/4"
        ) from error
