"""``run_evaluation``: the Python API of the engine. It uses the same parts as ``nel eval run``."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import replace
from nemo_evaluator.engine.evaluation import evaluate
from nemo_evaluator.engine.halt import HaltKind
from nemo_evaluator.engine.job import Evaluation
from nemo_evaluator.engine.plan import DEFAULT_SHUFFLE_SEED, Shard
from nemo_evaluator.engine.progress import LineProgress, Progress, SilentProgress
from nemo_evaluator.engine.template import load_template
from nemo_evaluator.engine.verify import Verifier
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.models.client import Client
from nemo_evaluator.runs.row_file import read_rows
from nemo_evaluator.solvers.base import bind_solver

if TYPE_CHECKING:
    from nemo_evaluator.adapters.model_client import ModelClient
    from nemo_evaluator.sandbox.manager import SandboxManager
    from nemo_evaluator.store.bundle_document import EvaluatedBundle
    from nemo_evaluator.store.result_row import ResultRow


async def run_evaluation(
    env: EvalEnvironment,
    solver: object,
    n_repeats: int = 1,
    max_problems: int | None = None,
    config: JsonDict | None = None,
    progress: Progress | bool | None = None,
    problem_range: tuple[int, int] | None = None,
    max_concurrent: int = 32,
    judge_client: Client | ModelClient | None = None,
    sandbox_manager: SandboxManager | None = None,
    model_url: str | None = None,
    step_log_dir: str | Path | None = None,
    resume: bool = False,
    skip_failed: bool = False,
    max_system_retries: int = 3,
    shard_info: tuple[int, int] | None = None,
    instruction_template: str | None = None,
    shuffle_seed: int | None = DEFAULT_SHUFFLE_SEED,
    min_coverage: float = 0.95,
    allow_fallback: bool = False,
) -> EvaluatedBundle:
    """Evaluate a solver on an environment and return the bundle.

    The environment is closed at the end, and the solver if it can be closed.

    Args:
        env: The benchmark.
        solver: Answers its problems.
        n_repeats: Answers per problem.
        max_problems: The maximum number of problems.
        config: Further facts for the bundle's config.
        progress: Displays the progress; True shows a line that is updated, in notebooks too.
        problem_range: The first problem, and the one after the last.
        max_concurrent: The maximum number of problems that run at once.
        judge_client: The judge, for benchmarks that need one.
        sandbox_manager: Provides sandboxes.
        model_url: The URL to record for the model.
        step_log_dir: The folder for journal, views and bundle; None for a temporary one.
        resume: Reuse the answers in that folder.
        skip_failed: Record rows whose solver raised as failed, and continue.
        max_system_retries: Attempts per problem if the harness fails.
        shard_info: Index and number of the shard to run.
        instruction_template: A template that is put around every problem: a path or the name of a packaged one.
        shuffle_seed: Shuffle the problems with this seed; None keeps the order of the dataset. The default is that of
            configs, so that ``max_problems`` selects the same problems.
        min_coverage: The share of scored rows below which the run is INVALID.
        allow_fallback: Let a benchmark that needs a judge run without one.

    Returns:
        The bundle, with two private keys: ``_results`` (the rows) and ``_artifacts`` (the folder).

    Raises:
        NelError: The error that stopped the benchmark, if any.
    """
    # First, because a missing judge is to be reported before anything else is prepared.
    verifier = _verifier(env, judge_client, allow_fallback=allow_fallback)
    evaluation = replace(
        _evaluation(env, solver, step_log_dir, config=config, model_url=model_url),
        verifier=verifier,
        repeats=n_repeats,
        max_problems=max_problems,
        shuffle_seed=shuffle_seed,
        shard=Shard(*shard_info) if shard_info else None,
        problem_range=problem_range,
        max_concurrent=max_concurrent,
        max_system_retries=max_system_retries,
        min_coverage=min_coverage,
        skip_failed=skip_failed,
        template=load_template(instruction_template),
        sandboxes=sandbox_manager,
        resume=resume,
        progress=_progress(progress),
    )
    return await _finished_bundle(evaluation)


def _evaluation(
    env: EvalEnvironment,
    solver: object,
    step_log_dir: str | Path | None,
    *,
    config: JsonDict | None,
    model_url: str | None,
) -> Evaluation:
    """Describe the evaluation of a solver on an environment, with default limits.

    Args:
        env: The benchmark.
        solver: Answers its problems.
        step_log_dir: The folder for the results; None for a temporary one.
        config: Further facts for the bundle's config.
        model_url: The URL to record for the model; None for the client's.
    """
    client = _client_of(solver)
    solver_settings = bind_solver(solver).settings
    recorded_config: JsonDict = {}
    if client is not None:
        own_generation = solver_settings.get("generation") or {}
        recorded_config = {
            "model": client.endpoint.model,
            "base_url": client.endpoint.url,
            "generation": client.endpoint.generation | own_generation,
        }
    recorded_config |= config or {}
    if model_url is not None:
        recorded_config["base_url"] = model_url
    return Evaluation(
        environment=env,
        solver=solver,
        task_dir=_task_dir(step_log_dir, env.name),
        service=_service(client, recorded_config),
        solver_settings=solver_settings,
        config=recorded_config,
    )


def _verifier(
    env: EvalEnvironment, judge_client: Client | ModelClient | None, *, allow_fallback: bool
) -> Verifier:
    """Return the verifier of an environment, with the judge if there is one."""
    judge = _client_of(judge_client)
    clients = {"judge": judge} if judge is not None else None
    return Verifier(env, None, clients, allow_fallback=allow_fallback)


async def _finished_bundle(evaluation: Evaluation) -> EvaluatedBundle:
    """Run an evaluation, close its environment and solver, and return the bundle with its private keys.

    Raises:
        NelError: The error that stopped the benchmark, if any.
    """
    async with AsyncExitStack() as stack:
        for part in (evaluation.environment, evaluation.solver):
            close = getattr(part, "close", None)
            if close is not None:
                stack.push_async_callback(close)
        finished = await evaluate(evaluation)
    if finished.halt.kind is HaltKind.ERROR and finished.halt.error is not None:
        raise finished.halt.error
    # This version wrote the file.
    rows = [cast("ResultRow", row.data) for row in read_rows(finished.task.results)]
    return {**finished.bundle, "_results": rows, "_artifacts": str(finished.task.root)}


def _task_dir(step_log_dir: str | Path | None, name: str) -> Path:
    """Return the given folder, or a temporary one."""
    if step_log_dir:
        return Path(step_log_dir)
    return Path(tempfile.mkdtemp(prefix="nel-")) / safe_name(name)


def _service(client: Client | None, recorded_config: JsonDict) -> Mapping[str, Any]:
    """Return what the answers depend on: the client's endpoint, or the corresponding part of the config."""
    if client is not None:
        return client.describe()
    return {key: recorded_config[key] for key in ("model", "base_url") if key in recorded_config}


def _progress(progress: Progress | bool | None) -> Progress:
    """Return the given progress display; a line for True, none for False or None."""
    if progress is True:
        return LineProgress()
    return progress or SilentProgress()


def _client_of(holder: object) -> Client | None:
    """Return the client of a solver or a ``ModelClient``, or the object itself if it is a client."""
    while holder is not None and not isinstance(holder, Client):
        holder = getattr(holder, "client", None)
    return holder


def write_all(bundle: EvaluatedBundle, output_dir: str | Path) -> Path:
    """Copy the files of a finished evaluation (journal, rows, bundle) to a folder."""
    return Path(shutil.copytree(bundle["_artifacts"], output_dir, dirs_exist_ok=True))
