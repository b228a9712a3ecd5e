"""``nel eval run``: run a config, or one benchmark in quick mode."""

import os
import sys
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from nemo_evaluator.cli._options import FILE, benchmark_names, config_files, option, with_options
from nemo_evaluator.core.arguments import masked_arguments
from nemo_evaluator.core.errors import UsageError

_JUDGE_IN_CONFIG: Final = "scoring.metrics in the config: {type: judge, service: NAME}"
_KEY_IN_CONFIG: Final = "a variable in the config: api_key: ${NAME}"
# The flags of quick mode, each with what a config has instead.
_QUICK: Final = {
    "bench": "name the benchmark in the config",
    "model": "-O services.NAME.url=URL -O services.NAME.model=ID",
    "model_url": "-O services.NAME.url=URL",
    "model_id": "-O services.NAME.model=ID",
    "judge_url": _JUDGE_IN_CONFIG,
    "judge_id": _JUDGE_IN_CONFIG,
    "api_key": _KEY_IN_CONFIG,
    "api_key_env": _KEY_IN_CONFIG,
    "judge_api_key_env": _KEY_IN_CONFIG,
    "repeats": "-O benchmarks.0.repeats=N",
    "system_prompt": "-O benchmarks.0.solver.system_prompt=TEXT",
    "temperature": "-O services.NAME.generation.temperature=T",
    "max_tokens": "-O services.NAME.generation.max_tokens=N",
}


def _variable(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check that an option is the name of an environment variable.

    The error does not repeat the value, because it may be the key itself.
    """
    if value is not None and not value.isidentifier():
        raise click.BadParameter(
            "give the name of an environment variable, not the key", ctx, parameter
        )
    return value


# Quick mode: the benchmark, the model and the judge.
_MODEL_OPTIONS: Final = (
    option(
        "--bench",
        "-b",
        shell_complete=benchmark_names,
        help="Benchmark to run without a config: a name, a URI or file.py[:name].",
    ),
    option(
        "--model",
        "-m",
        metavar="PROVIDER/MODEL",
        help="Model (quick mode): openai/..., nvidia/..., vllm/..., ollama/...",
    ),
    option(
        "--model-url", envvar="NEMO_MODEL_URL", help="Base URL of the model's API (quick mode)."
    ),
    option("--model-id", envvar="NEMO_MODEL_ID", help="Model name in requests (quick mode)."),
    option(
        "--api-key", help="API key (quick mode); safer: set NEMO_API_KEY, or use `--api-key-env`."
    ),
    option(
        "--api-key-env",
        metavar="NAME",
        callback=_variable,
        help="Environment variable that holds the API key (quick mode).",
    ),
    option("--judge-url", help="Base URL of the judge's API (quick mode)."),
    option("--judge-id", help="Judge's model name in requests (quick mode)."),
    option(
        "--judge-api-key-env",
        metavar="NAME",
        callback=_variable,
        help="Environment variable that holds the judge's API key (quick mode) [default: NEMO_JUDGE_API_KEY].",
    ),
)
# Which problems to run, and how many at once.
_PROBLEM_OPTIONS: Final = (
    option(
        "--repeats",
        "-n",
        type=click.IntRange(1),
        default=None,
        help="Answers per problem (quick mode); default: the benchmark's own number.",
    ),
    option(
        "--limit",
        "--max-problems",
        "max_problems",
        type=click.IntRange(1),
        help="Maximum number of problems per benchmark.",
    ),
    option(
        "--only",
        multiple=True,
        metavar="IDX|HASH",
        help="Run only this problem (index or start of problem_hash); repeatable.",
    ),
    option(
        "--concurrency",
        type=click.IntRange(1),
        help="Maximum number of concurrent problems per benchmark.",
    ),
)
# Quick mode: how the model answers.
_GENERATION_OPTIONS: Final = (
    option("--system-prompt", help="System prompt for the model (quick mode)."),
    option("--temperature", type=float, default=0.0, help="Sampling temperature (quick mode)."),
    option("--max-tokens", type=click.IntRange(1), help="Maximum tokens per answer (quick mode)."),
)
# Which config values to change, and where and how to start the run.
_START_OPTIONS: Final = (
    option("--output-dir", "-o", help="Folder for the results; overrides output.dir."),
    option(
        "--override",
        "-O",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set a config value; repeatable.",
    ),
    option(
        "--env-file",
        type=FILE,
        help="File with NAME=VALUE lines [default: .env next to the config].",
    ),
    option(
        "--resume",
        is_flag=True,
        help="Resume an earlier run; prints what it reuses and why.",
    ),
    option(
        "--fresh",
        is_flag=True,
        help="Start over although an earlier run is unfinished; moves that run to previous/.",
    ),
    option("--dry-run", is_flag=True, help="Print the plan; send no requests and write no files."),
    option(
        "--background", is_flag=True, help="Run in the background; see `nel eval status|logs|stop`."
    ),
    option(
        "--detach-batch",
        is_flag=True,
        help="Exit with code 5 after submitting the batches; collect them with --resume.",
    ),
    option(
        "--submit",
        is_flag=True,
        help="Submit the run to the config's cluster; an error if the cluster has no queue.",
    ),
    option(
        "--shard",
        metavar="I/N",
        help="Run only shard I (from 0) of N; also NEL_SHARD_IDX and NEL_TOTAL_SHARDS.",
    ),
)
# How strict the run is, and what it prints.
_OUTPUT_OPTIONS: Final = (
    option("--strict-export", is_flag=True, help="Fail the run if an export fails."),
    option("--frozen", is_flag=True, help="Refuse datasets that differ from the lock file."),
    option(
        "--allow-fallback",
        is_flag=True,
        help="If a benchmark needs a judge and none is set, use its built-in fallback scorer.",
    ),
    option(
        "--json", "as_json", is_flag=True, help="Print progress and result as JSON lines on stdout."
    ),
    option("--no-progress", is_flag=True, help="Print no progress lines."),
    option("--verbose", "-v", is_flag=True, help="Log details to stderr."),
    option(
        "--gated",
        is_flag=True,
        help="Do a dry run and a canary first; start the run only if both pass.",
    ),
)


@click.command()
@click.argument("config_file", required=False, type=FILE, shell_complete=config_files)
@with_options(_MODEL_OPTIONS)
@with_options(_PROBLEM_OPTIONS)
@with_options(_GENERATION_OPTIONS)
@with_options(_START_OPTIONS)
@with_options(_OUTPUT_OPTIONS)
@option("--request", "request_file", hidden=True, type=FILE)
@click.pass_context
def run(
    ctx: click.Context,
    /,
    config_file: str | None,
    api_key: str | None,
    api_key_env: str | None,
    judge_api_key_env: str | None,
    request_file: str | None,
    gated: bool,
    **flags: Any,
) -> None:
    """Run the benchmarks of CONFIG_FILE, or one benchmark in quick mode (--bench and --model).

    Exit codes: 0 done, 1 config or usage error, 2 a benchmark failed, 3 finished but INVALID (coverage below the
    minimum), 4 budget spent, 5 batches submitted, not collected (--detach-batch), 130 interrupted. After any code
    except 1, --resume continues the run.
    """
    from nemo_evaluator.executors.request import RunRequest  # noqa: PLC0415 - heavy, only for this command
    from nemo_evaluator.launch.start import start, start_worker  # noqa: PLC0415

    if request_file is not None:
        ctx.exit(start_worker(Path(request_file), resume=bool(flags["resume"])))
    _refuse_quick_flags(ctx, config_file)
    if api_key is not None:
        os.environ["NEMO_API_KEY"] = api_key
    request = RunRequest(
        config_file=config_file,
        key_variable="NEMO_API_KEY" if api_key is not None else api_key_env,
        judge_key_variable=judge_api_key_env,
        command=tuple(masked_arguments(sys.argv[1:])),
        **flags,
    )
    if gated and not request.dry_run:
        from nemo_evaluator.assistant.canary import run_gated  # noqa: PLC0415

        ctx.exit(run_gated(request))
    ctx.exit(start(request))


def _refuse_quick_flags(ctx: click.Context, config_file: str | None) -> None:
    """Raise UsageError if flags of quick mode do not fit the config or each other."""
    quick_flags: list[str] = []
    for name in _QUICK:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            quick_flags.append(name)
    if config_file is not None and quick_flags:
        flag = "--" + quick_flags[0].replace("_", "-")
        hint = f"use {_QUICK[quick_flags[0]]}"
        raise UsageError(f"{flag} is for quick mode and would not reach {config_file}", hint=hint)
    if config_file is None and ctx.params.get("bench") is None:
        hint = "nel eval run config.yaml, or: nel eval run --bench gsm8k --model openai/MODEL (see `nel list`)"
        raise UsageError("give a config file or --bench", hint=hint)
    if "api_key" in quick_flags and "api_key_env" in quick_flags:
        raise UsageError(
            "--api-key and --api-key-env exclude each other",
            hint="--api-key-env keeps the key out of the process list",
        )
    for name in ("model_url", "model_id"):
        if "model" in quick_flags and name in quick_flags:
            flag = "--" + name.replace("_", "-")
            raise UsageError(
                f"--model and {flag} exclude each other",
                hint="--model names the endpoint and the model",
            )
