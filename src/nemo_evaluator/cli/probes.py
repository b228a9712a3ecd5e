"""``nel noise`` and ``nel judge attack``: run-to-run noise of a model, and attacks on a judge."""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from nemo_evaluator.adapters.in_process import open_client
from nemo_evaluator.cli._options import config_files, load_whole, option, say
from nemo_evaluator.config import LoadedConfig
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.terminal import table, terminal_width
from nemo_evaluator.models import Endpoint
from nemo_evaluator.preflight import find_problems
from nemo_evaluator.scoring.attack import AttackReport, attack_judge
from nemo_evaluator.scoring.metrics.judge import default_judge
from nemo_evaluator.suite.probes import NoiseReport, attack_config, measure_noise

# Numbers of problems for which the noise is shown besides the measured one.
_EXAMPLE_SIZES = (200, 1000)
_Report = TypeVar("_Report", NoiseReport, AttackReport)


@click.command()
@click.argument("config", shell_complete=config_files)
@option("--problems", "-n", type=click.IntRange(min=1), default=50, help="Problems per benchmark.")
@option(
    "--concurrency",
    type=(click.IntRange(min=1), click.IntRange(min=1)),
    default=(1, 16),
    help="The two levels of concurrency to compare.",
)
@option("--output-dir", "-o", help="Run folder to store the noise in; overrides output.dir.")
@option(
    "--override",
    "-O",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a config value; repeatable.",
)
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def noise(
    config: str,
    problems: int,
    concurrency: tuple[int, int],
    output_dir: str | None,
    override: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run the same problems four times at temperature 0, twice at each concurrency, and estimate the flip rate.

    The flip rate is how often a verdict changes. nel stores it in the run folder (noise.json); `nel compare` and
    `nel gate` derive from it how far two runs differ by noise alone.
    """
    loaded: LoadedConfig = load_whole(config, override, output_dir=output_dir)
    loaded.refuse(find_problems(loaded, file_only=True))
    reports = asyncio.run(measure_noise(loaded.config, problems, concurrency, say=say))
    _show(reports, _noise_text, as_json)


def _show(found: Sequence[_Report], text: Callable[[_Report], str], as_json: bool) -> None:
    if as_json:
        click.echo(dumps([report.to_dict() for report in found]))
    else:
        click.echo("\n".join(map(text, found)))


def _noise_text(report: NoiseReport) -> str:
    """Render the noise of one benchmark as a table."""
    low, high = report.levels
    rows = [["", "answers changed", "verdicts changed", "score differs by"]]
    for name, comparison in (
        (f"again at {low}", report.again),
        (f"again at {high}", report.again_high),
        (f"{low} against {high}", report.other_level),
    ):
        rows.append(
            [
                name,
                f"{comparison.answers:.1%}",
                f"{comparison.verdicts:.1%}",
                f"{comparison.score:.4f}",
            ]
        )
    problems = report.rate.problems
    lower, upper = report.rate.bounds()
    header = f"{report.benchmark}, {report.model}: {problems:,} problems at temperature 0"
    rate = f"flip rate {report.rate.value:.1%} (95 %: {lower:.1%} to {upper:.1%})"
    widths: list[str] = []
    for count in sorted({problems, *_EXAMPLE_SIZES}):
        widths.append(f"{100 * report.self_difference(count):.1f} points at {count:,} problems")
    noise_words = f"by noise alone, 95 % of pairs of runs differ by at most {', '.join(widths)}"
    return "\n".join([header, *table(rows, terminal_width()), rate, noise_words])


@click.command()
@click.argument("config", required=False, shell_complete=config_files)
@option("--judge-url", help="Base URL of the judge's API, instead of CONFIG.")
@option("--judge-id", help="Judge's model name in requests, with --judge-url.")
@option(
    "--problems",
    type=click.IntRange(min=1),
    help="Number of problems to use from the battery [default: all].",
)
@option(
    "--override",
    "-O",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a config value; repeatable.",
)
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def attack(
    config: str | None,
    judge_url: str | None,
    judge_id: str | None,
    problems: int | None,
    override: tuple[str, ...],
    as_json: bool,
) -> None:
    """Attack the judges of CONFIG, or the judge at --judge-url, and report how often each changes its verdict.

    nel takes wrong answers that the judge rejects and adds injected instructions, padding or self-praise, or swaps
    the order of the texts. It reads the API key from NEMO_API_KEY.
    """
    if (config is None) == (judge_url is None or judge_id is None):
        raise UsageError(
            "nothing to attack, or too much", hint="give a config, or --judge-url and --judge-id"
        )
    if config is not None:
        loaded: LoadedConfig = load_whole(config, override, file_only=True)
        reports = asyncio.run(attack_config(loaded.config, problems=problems, say=say))
    else:
        reports = [asyncio.run(_alone(str(judge_url), str(judge_id), problems))]
    _show(reports, _attack_text, as_json)


async def _alone(url: str, model: str, problems: int | None) -> AttackReport:
    """Attack the judge at a URL, with the API key from NEMO_API_KEY."""
    key = os.environ.get("NEMO_API_KEY")
    endpoint = Endpoint(
        "judge", url, "chat_completions", model=model, api_key=Secret(key) if key else None
    )
    client = open_client(endpoint)
    try:
        return await attack_judge(model, default_judge(client, None), problems=problems)
    finally:
        await client.close()


def _attack_text(report: AttackReport) -> str:
    """Render the report of an attack on one judge."""
    total = report.tried.total()
    flips = report.flipped.total()
    if report.rate is None:
        summary = "no attack could be tried"
    else:
        summary = f"{report.rate:.1%} of {total} attacks flipped it"
    if report.blind:
        summary += "; it does not tell right from wrong, so that says little"
    rows: list[list[str]] = []
    for kind, count in sorted(report.tried.items()):
        rows.append([kind, f"{report.flipped[kind]} of {count}"])
    misjudged_text = f"{report.misjudged} of {report.judged} verdicts wrong without an attack"
    lines = [f"{report.judge}: {summary}", *table(rows, terminal_width())]
    lines.append(f"  {misjudged_text}, {report.unread} without a verdict")
    if flips:
        lines.append(
            f"  what worked: {', '.join(sorted({example['attack'] for example in report.examples}))}"
        )
    return "\n".join(lines)
