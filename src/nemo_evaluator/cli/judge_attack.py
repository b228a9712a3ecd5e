"""``nel judge attack``: how often a judge is talked into a grade."""

from __future__ import annotations

import asyncio
import os

import click

from nemo_evaluator.adapters.in_process import open_client
from nemo_evaluator.cli._options import config_files, option
from nemo_evaluator.config import load_config
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.terminal import table, terminal_width
from nemo_evaluator.models import Endpoint
from nemo_evaluator.scoring.attack import AttackReport, attack_judge
from nemo_evaluator.scoring.metrics.judge import default_judge
from nemo_evaluator.suite.attack import attack_config


@click.command()
@click.argument("config", required=False, shell_complete=config_files)
@option("--judge-url", help="Without a config: base URL of the judge's API.")
@option("--judge-id", help="The judge's name in requests.")
@option("--problems", type=click.IntRange(min=1), help="Only the first problems of the battery.")
@option("--override", "-O", multiple=True, metavar="KEY=VALUE", help="Set a value of the config; repeatable.")
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def attack(
    config: str | None,
    judge_url: str | None,
    judge_id: str | None,
    problems: int | None,
    override: tuple[str, ...],
    as_json: bool,
) -> None:
    """Attack the judges of CONFIG, or one at --judge-url, and report how often each flips.

    Wrong answers that the judge sees through come again with instructions inside, padded, praising themselves; and
    texts come in another order. The key is taken from NEMO_API_KEY.
    """
    if (config is None) == (judge_url is None or judge_id is None):
        raise UsageError("nothing to attack, or too much", hint="give a config, or --judge-url and --judge-id")
    if config is not None:
        loaded = load_config(config, list(override))
        found = asyncio.run(
            attack_config(loaded.config, problems=problems, say=lambda line: click.echo(line, err=True))
        )
    else:
        found = [asyncio.run(_alone(str(judge_url), str(judge_id), problems))]
    if as_json:
        click.echo(dumps([report.to_dict() for report in found]))
        return
    for report in found:
        click.echo(_text(report))


async def _alone(url: str, model: str, problems: int | None) -> AttackReport:
    key = os.environ.get("NEMO_API_KEY")
    endpoint = Endpoint("judge", url, "chat_completions", model, api_key=Secret(key) if key else None)
    client = open_client(endpoint)
    try:
        return await attack_judge(model, default_judge(client, None), problems=problems)
    finally:
        await client.close()


def _text(report: AttackReport) -> str:
    total, flips = report.tried.total(), report.flipped.total()
    said = "no attack could be tried" if report.rate is None else f"{report.rate:.1%} of {total} attacks flipped it"
    rows = [[kind, f"{report.flipped[kind]} of {many}"] for kind, many in sorted(report.tried.items())]
    more = (
        f"  {report.misjudged} of {report.judged} verdicts wrong without an attack, {report.unread} without a verdict"
    )
    if report.blind:
        said += "; it does not tell right from wrong, so that says little"
    worked = sorted({example["attack"] for example in report.examples})
    named = [f"  what worked: {', '.join(worked)}"] if flips else []
    return "\n".join([f"{report.judge}: {said}", *table(rows, terminal_width()), more, *named])
