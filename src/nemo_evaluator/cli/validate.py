"""``nel validate``: run a few problems of a benchmark as a sanity check."""

from __future__ import annotations

import asyncio
import os
import tempfile
from typing import TYPE_CHECKING, Final

import click

from nemo_evaluator.adapters.in_process import open_client
from nemo_evaluator.cli._options import option
from nemo_evaluator.core.errors import EXIT_FAILED, EXIT_OK, UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.terminal import harmless_json, indented, one_line
from nemo_evaluator.engine.api import run_evaluation
from nemo_evaluator.environments.registry import get_environment
from nemo_evaluator.models import Endpoint
from nemo_evaluator.solvers.simple import SimpleSolver

if TYPE_CHECKING:
    from nemo_evaluator.store.journal_record import FailureFields
    from nemo_evaluator.store.result_row import ResultRow

# The length at which the expected and the extracted answer are cut.
_ANSWER_WIDTH: Final = 60


@click.command()
@option(
    "--benchmark", "-b", required=True, help="Benchmark to run: a name, file.py[:name] or a URI."
)
@option("--samples", "-s", type=click.IntRange(1), default=5, help="Number of problems to run.")
@option("--model-url", envvar="NEMO_MODEL_URL", help="Base URL of the model's API.")
@option("--model-id", envvar="NEMO_MODEL_ID", help="Model name in requests.")
@option("--api-key", help="API key; safer: set NEMO_API_KEY or NVIDIA_API_KEY.")
@option("--json", "as_json", is_flag=True, help="Output the rows as JSON.")
@option("--verbose", "-v", is_flag=True, help="Show complete prompts and answers.")
@click.pass_context
def validate(
    ctx: click.Context,
    benchmark: str,
    samples: int,
    model_url: str | None,
    model_id: str | None,
    api_key: str | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Run the first problems of a benchmark and show the answers and scores. Writes no files.

    Exit codes: 0 every problem was scored, 2 some were not.
    """
    endpoint = _endpoint(model_url, model_id, api_key)
    rows = asyncio.run(_run_problems(benchmark, samples, endpoint))
    if as_json:
        click.echo(harmless_json(dumps(rows).decode()))
    else:
        _show(rows, verbose=verbose)
    all_scored = bool(rows) and all(row["status"] == "scored" for row in rows)
    ctx.exit(EXIT_OK if all_scored else EXIT_FAILED)


def _endpoint(model_url: str | None, model_id: str | None, api_key: str | None) -> Endpoint:
    """Return the endpoint of the model; without ``api_key``, its key comes from the environment.

    Raises:
        UsageError: The URL or the name of the model is missing.
    """
    if not model_url or not model_id:
        hint = "give --model-url and --model-id, or set NEMO_MODEL_URL and NEMO_MODEL_ID"
        raise UsageError("validate needs a model", hint=hint)
    key = api_key or os.environ.get("NEMO_API_KEY") or os.environ.get("NVIDIA_API_KEY")
    return Endpoint(
        name="model",
        url=model_url,
        protocol="chat_completions",
        model=model_id,
        api_key=Secret(key) if key else None,
    )


async def _run_problems(benchmark: str, samples: int, endpoint: Endpoint) -> list[ResultRow]:
    """Run the first problems of a benchmark, and return their rows."""
    environment = get_environment(benchmark, num_examples=samples)
    client = open_client(endpoint)
    solver = SimpleSolver(client)
    try:
        # The evaluation writes a log, which nobody needs afterwards.
        with tempfile.TemporaryDirectory(prefix="nel-validate-") as log_folder:
            bundle = await run_evaluation(
                environment,
                solver,
                max_problems=samples,
                step_log_dir=log_folder,
                shuffle_seed=None,
            )
    finally:
        await client.close()
        await environment.close()
    return bundle["_results"]


def _show(rows: list[ResultRow], *, verbose: bool) -> None:
    """Print the totals, and each row with its verdict, expected and extracted answer, and cost.

    Args:
        rows: The rows.
        verbose: Print prompts and answers too.
    """
    correct = sum(row["reward"] == 1.0 for row in rows)
    scored = sum(row["status"] == "scored" for row in rows)
    click.echo(f"{correct}/{len(rows)} correct, {scored}/{len(rows)} scored")
    for row in rows:
        if row["failure"] is not None:
            click.echo(_failed_line(row, row["failure"]))
            continue
        click.echo(_scored_line(row))
        if verbose:
            click.echo(f"  prompt: {indented(str(row['prompt']), '    ')}")
            click.echo(f"  answer: {indented(str(row['model_response']), '    ')}")


def _failed_line(row: ResultRow, failure: FailureFields) -> str:
    """Describe a row that could not be scored: ``[FAILED] p3: transport: connection refused``."""
    message = one_line(failure["message"])
    return f"[FAILED] p{row['problem_idx']}: {failure['cause']}: {message}"


def _scored_line(row: ResultRow) -> str:
    """Describe a scored row: ``[PASS] p3: expected=B got=B (812ms 96tok)``."""
    verdict = "PASS" if row["reward"] == 1.0 else "FAIL"
    expected = one_line(str(row["expected_answer"]), _ANSWER_WIDTH)
    extracted = one_line(str(row["extracted_answer"]), _ANSWER_WIDTH)
    cost = f"({row['latency_ms']:.0f}ms {row['tokens']}tok)"
    return f"[{verdict}] p{row['problem_idx']}: expected={expected} got={extracted} {cost}"
