"""``nel validate``: run a few problems of a benchmark as a sanity check."""

import asyncio
import os
import tempfile

import click

from nemo_evaluator.adapters.in_process import open_client
from nemo_evaluator.cli._options import option
from nemo_evaluator.core.errors import EXIT_FAILED, UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.terminal import harmless_json, indented, one_line
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.engine.api import run_evaluation
from nemo_evaluator.environments.registry import get_environment
from nemo_evaluator.models import Endpoint
from nemo_evaluator.solvers.simple import SimpleSolver

_SHOWN = 60


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
    if not model_url or not model_id:
        hint = "give --model-url and --model-id, or set NEMO_MODEL_URL and NEMO_MODEL_ID"
        raise UsageError("validate needs a model", hint=hint)
    key = api_key or os.environ.get("NEMO_API_KEY") or os.environ.get("NVIDIA_API_KEY")
    bundle = asyncio.run(
        _ask(benchmark, samples, model_url, model=model_id, key=Secret(key) if key else None)
    )
    rows = bundle["_results"]
    if as_json:
        click.echo(harmless_json(dumps(rows).decode()))
    else:
        _show(rows, verbose)
    ctx.exit(0 if all(row["status"] == "scored" for row in rows) and rows else EXIT_FAILED)


async def _ask(benchmark: str, samples: int, url: str, model: str, key: Secret | None) -> JsonDict:
    """Run the first problems of a benchmark; returns the bundle with its rows."""
    environment = get_environment(benchmark, num_examples=samples)
    client = open_client(
        Endpoint(name="model", url=url, protocol="chat_completions", model=model, api_key=key)
    )
    try:
        with tempfile.TemporaryDirectory(prefix="nel-validate-") as folder:
            return await run_evaluation(
                environment, SimpleSolver(client), max_problems=samples, step_log_dir=folder
            )
    finally:
        await client.close()
        await environment.close()


def _show(rows: list[JsonDict], verbose: bool) -> None:
    """Print each row: verdict, expected and extracted answer, cost."""
    correct = sum(row["reward"] == 1.0 for row in rows)
    scored = sum(row["status"] == "scored" for row in rows)
    click.echo(f"{correct}/{len(rows)} correct, {scored}/{len(rows)} scored")
    for row in rows:
        if row["status"] == "failed":
            failure = row["failure"]
            click.echo(
                f"[FAILED] p{row['problem_idx']}: {failure['cause']}: {one_line(failure['message'])}"
            )
            continue
        verdict = "PASS" if row["reward"] == 1.0 else "FAIL"
        extracted, expected = (
            one_line(str(row[key]), _SHOWN) for key in ("extracted_answer", "expected_answer")
        )
        cost = f"({row['latency_ms']:.0f}ms {row['tokens']}tok)"
        click.echo(f"[{verdict}] p{row['problem_idx']}: expected={expected} got={extracted} {cost}")
        if verbose:
            prompt, answer = (
                indented(str(row[key]), "    ") for key in ("prompt", "model_response")
            )
            click.echo(f"  prompt: {prompt}\n  answer: {answer}")
