"""``run_evaluation``: the engine for people who write Python. It composes the same parts as ``nel eval run``."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.engine.evaluation import evaluate
from nemo_evaluator.engine.halt import HaltKind
from nemo_evaluator.engine.job import Evaluation
from nemo_evaluator.engine.plan import Shard
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
    shuffle_seed: int | None = None,
    min_coverage: float = 0.95,
    allow_fallback: bool = False,
) -> JsonDict:
    """Evaluate a solver on an environment and return the bundle.

    The bundle carries two private keys: ``_results`` (the rows) and ``_artifacts`` (the folder with journal, views and
    bundle). ``step_log_dir`` names that folder; without it a temporary one is made. ``allow_fallback`` lets a benchmark
    that needs a judge run without one; ``progress=True`` shows a line that goes along, in notebooks too. The
    environment is closed at the end, and the solver if it can be. Raises the error that stopped the benchmark, if one
    did.
    """
    client = _client_of(solver)
    if client is not None:
        settings: JsonDict = {"model": client.endpoint.model, "base_url": client.endpoint.url}
    else:
        settings = {}
    settings |= config or {}
    if model_url is not None:
        settings["base_url"] = model_url
    named: JsonDict = {key: settings[key] for key in ("model", "base_url") if key in settings}
    if step_log_dir:
        folder = Path(step_log_dir)
    else:
        folder = Path(tempfile.mkdtemp(prefix="nel-")) / safe_name(env.name)
    judge = _client_of(judge_client)
    if judge is not None:
        clients: dict[str, Client] | None = {"judge": judge}
    else:
        clients = None
    async with AsyncExitStack() as stack:
        for part in (env, solver):
            close = getattr(part, "close", None)
            if close is not None:
                stack.push_async_callback(close)
        finished = await evaluate(
            Evaluation(
                environment=env,
                solver=solver,
                task_dir=folder,
                verifier=Verifier(env, None, clients, allow_fallback=allow_fallback),
                service=client.describe() if client is not None else named,
                solver_settings=bind_solver(solver).settings,
                config=settings,
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
                progress=LineProgress() if progress is True else progress or SilentProgress(),
            )
        )
    if finished.halt.kind is HaltKind.ERROR and finished.halt.error is not None:
        raise finished.halt.error
    rows = [row.data for row in read_rows(finished.task.results)]
    return finished.bundle | {"_results": rows, "_artifacts": str(finished.task.root)}


def _client_of(given: object) -> Client | None:
    """The client behind a solver, a ``ModelClient`` or itself."""
    while given is not None and not isinstance(given, Client):
        given = getattr(given, "client", None)
    return given


def write_all(bundle: JsonDict, output_dir: str | Path) -> Path:
    """Put the files of a finished evaluation (journal, rows, bundle) into a folder."""
    return Path(shutil.copytree(bundle["_artifacts"], output_dir, dirs_exist_ok=True))
