"""``nel noise``: how far a model differs from itself when it is asked again."""

from __future__ import annotations

import asyncio

import click

from nemo_evaluator.cli._options import config_files, option
from nemo_evaluator.config import check_runtime, load_config
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import table, terminal_width
from nemo_evaluator.suite.noise import NoiseReport, measure_noise


@click.command()
@click.argument("config", shell_complete=config_files)
@option("--problems", "-n", type=click.IntRange(min=1), default=50, help="Of every benchmark.")
@option("--concurrency", type=(click.IntRange(min=1), click.IntRange(min=1)), default=(1, 16), help="The two levels.")
@option("--output-dir", "-o", help="The folder of the run that the noise is of; wins over output.dir.")
@option("--override", "-O", multiple=True, metavar="KEY=VALUE", help="Set a value of the config; repeatable.")
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def noise(
    config: str,
    problems: int,
    concurrency: tuple[int, int],
    output_dir: str | None,
    override: tuple[str, ...],
    as_json: bool,
) -> None:
    """Ask the same problems three times at temperature 0: twice at the first level of concurrency, once at the second.

    The share of answers and verdicts that change is kept beside the run (noise.json), and `nel compare` tells it.
    """
    loaded = load_config(config, list(override), output_dir=output_dir)
    check_runtime(loaded.config, document=loaded.document)
    say = lambda line: click.echo(line, err=True)  # noqa: E731
    found = asyncio.run(measure_noise(loaded.config, problems, concurrency, say=say))
    if as_json:
        click.echo(dumps([report.to_dict() for report in found]))
        return
    for report in found:
        click.echo(_text(report))


def _text(report: NoiseReport) -> str:
    low, high = report.levels
    rows = [["", "answers changed", "verdicts changed", "score differs by"]]
    for name, one in ((f"again at {low}", report.again), (f"{low} against {high}", report.other_level)):
        rows.append([name, f"{one.answers:.1%}", f"{one.verdicts:.1%}", f"{one.score:.4f}"])
    head = f"{report.benchmark}, {report.model}: {report.again.problems:,} problems at temperature 0"
    return "\n".join([head, *table(rows, terminal_width())])
